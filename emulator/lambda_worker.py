"""One Lambda execution environment. A script, run isolated: ``python -I -S lambda_worker.py FD``.

Nothing of the emulator is imported: only the standard library, the layer and the bundle are on
the path. It speaks JSON lines over a socket: invocations in, results and access checks out.
"""

import contextlib
import importlib
import json
import os
import socket
import sys
import threading
import time
import traceback
from types import SimpleNamespace
from typing import Any


class Channel:
    """The line to the emulator. Handlers may call AWS from threads, hence the lock."""

    def __init__(self, descriptor: int) -> None:
        self._file = socket.socket(fileno=descriptor).makefile("rw", encoding="utf-8", newline="\n")
        self._lock = threading.RLock()

    def send(self, message: dict[str, Any]) -> None:
        """Write one message."""
        with self._lock:
            self._file.write(json.dumps(message, default=str) + "\n")
            self._file.flush()

    def receive(self) -> dict[str, Any] | None:
        """The next message; None when the emulator has gone."""
        line = self._file.readline()
        return json.loads(line) if line else None

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send a question and wait for its answer."""
        with self._lock:
            self.send(message)
            answer = self.receive()
        if answer is None:
            os._exit(1)
        return answer


class Context:
    """What a handler gets as its second argument, as far as handlers use it."""

    def __init__(self, invocation: dict[str, Any]) -> None:
        self.function_name = os.environ["AWS_LAMBDA_FUNCTION_NAME"]
        self.function_version = os.environ["AWS_LAMBDA_FUNCTION_VERSION"]
        self.memory_limit_in_mb = int(os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"])
        self.invoked_function_arn = invocation["arn"]
        self.aws_request_id = invocation["request_id"]
        self.log_group_name = os.environ["AWS_LAMBDA_LOG_GROUP_NAME"]
        self.log_stream_name = os.environ["AWS_LAMBDA_LOG_STREAM_NAME"]
        self.client_context = None
        self.identity = SimpleNamespace(cognito_identity_id=None, cognito_identity_pool_id=None)
        self._deadline = time.time() + invocation["seconds"]

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until the time-out."""
        return max(0, int((self._deadline - time.time()) * 1000))


def watch_calls(channel: Channel) -> None:
    """Have every AWS call checked against the function's role before it is made."""
    from botocore import handlers
    from botocore.exceptions import ClientError

    def check(params: dict[str, Any], model: Any, **_: Any) -> None:
        service = model.service_model.service_name
        answer = channel.ask(
            {"type": "call", "service": service, "operation": model.name, "params": _plain(params)}
        )
        if not answer["allowed"]:
            error = {"Code": answer["code"], "Message": answer["message"]}
            meta = {"HTTPStatusCode": 403, "RequestId": "access-check", "RetryAttempts": 0}
            raise ClientError({"Error": error, "ResponseMetadata": meta}, model.name)  # type: ignore

    handlers.BUILTIN_HANDLERS.append(("before-parameter-build", check))


def _plain(value: Any) -> Any:
    # Bodies are not needed to decide about access, and may be large.
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return value[:2048]
    return value if isinstance(value, int | float | bool | None) else f"<{type(value).__name__}>"


def error_of(error: BaseException) -> dict[str, Any]:
    """An exception in the shape that Lambda gives to its caller."""
    return {
        "errorMessage": str(error),
        "errorType": type(error).__name__,
        "requestId": "",
        # Without our own frame, as Lambda's runtime leaves out its.
        "stackTrace": traceback.format_tb(error.__traceback__)[1:],
    }


def run(channel: Channel) -> None:
    """Serve invocations until the channel closes."""
    handler, failure = None, None
    watch_calls(channel)
    try:
        module, _, name = os.environ["_HANDLER"].rpartition(".")
        handler = getattr(importlib.import_module(module.replace("/", ".")), name)
    except BaseException as error:  # noqa: BLE001
        # Lambda answers every invocation with the error of the import.
        traceback.print_exc()
        failure = error_of(error)
    while (invocation := channel.receive()) is not None:
        if failure or handler is None:
            channel.send({"type": "error", "error": failure, "memory": _memory()})
            continue
        try:
            result = handler(invocation["event"], Context(invocation))
            text = json.dumps(result, default=_refuse)
        except BaseException as error:  # noqa: BLE001  (the caller gets it, as from Lambda)
            traceback.print_exc()
            sys.stdout.flush()
            channel.send({"type": "error", "error": error_of(error), "memory": _memory()})
        else:
            sys.stdout.flush()
            channel.send({"type": "result", "payload": text, "memory": _memory()})


def _refuse(value: Any) -> Any:
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _memory() -> int:
    # Not getrusage: its maximum is inherited from the process that started this one.
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) // 1024 for line in file if line.startswith("VmHWM"))


if __name__ == "__main__":
    sys.path[:0] = [os.environ["LAMBDA_TASK_ROOT"], os.environ.pop("EMULATOR_LAYER")]
    with contextlib.suppress(KeyboardInterrupt):
        run(Channel(int(sys.argv[1])))
