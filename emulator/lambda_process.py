"""One worker process of a function, and the line to it."""

import hashlib
import json
import os
import socket
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from moto.awslambda.models import LambdaFunction

from emulator.access_log import AccessLog
from emulator.cloudwatch import write_log
from emulator.names import ACCOUNT, REGION
from emulator.processes import base_environment
from emulator.world import World

WORKER = Path(__file__).with_name("lambda_worker.py")
START_ALLOWANCE = 60.0
"""Seconds that a cold start may take beside the function's own time-out: ours is a busy machine."""


class WorkerGone(Exception):
    """The process ended while it was at work."""


class LambdaProcess:
    """An execution environment: takes one invocation at a time."""

    def __init__(
        self, world: World, function: LambdaFunction, key: str, bundle: Path, layer: Path
    ) -> None:
        self.key = key
        self.name = function.function_name
        self.role = function.role
        self._world = world
        self._arn = function.function_arn
        self._memory_size = function.memory_size
        self._group = f"/aws/lambda/{self.name}"
        day = time.strftime("%Y/%m/%d", time.gmtime())
        self._stream = f"{day}/[{function.version}]{uuid.uuid4().hex}"
        self._fresh = True
        self._used = time.monotonic()
        ours, theirs = socket.socketpair()
        self._socket = ours
        self._buffer = b""
        self._output, output = os.pipe()
        self.part = f"lambda:{self.name}/{uuid.uuid4().hex[:8]}"
        self._process = world.processes.start(
            [sys.executable, "-I", "-S", str(WORKER), str(theirs.fileno())],
            self.part,
            self._environment(function, bundle, layer),
            cwd=bundle,
            stdout=output,
            pass_fds=(theirs.fileno(),),
        )
        theirs.close()
        os.close(output)
        threading.Thread(target=self._copy_logs, name=f"log {self.name}", daemon=True).start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def idle_seconds(self) -> float:
        return time.monotonic() - self._used

    def invoke(
        self, event: Any, request_id: str, timeout: float, access: AccessLog
    ) -> dict[str, Any]:
        """Run the handler. Raises ``TimeoutError`` or ``WorkerGone``."""
        allowance, self._fresh = (START_ALLOWANCE if self._fresh else 0.0), False
        deadline = time.monotonic() + timeout + allowance
        write_log(self._group, self._stream, [f"START RequestId: {request_id}"])
        message = {"event": event, "request_id": request_id, "arn": self._arn, "seconds": timeout}
        self._send(message)
        while True:
            answer = self._receive(deadline)
            if answer["type"] != "call":
                self._used = time.monotonic()
                return answer
            self._send(access.check(self.name, self.role, answer))

    def report(self, request_id: str, seconds: float, answer: dict[str, Any]) -> None:
        """The lines that Lambda itself writes after an invocation."""
        milliseconds = f"{seconds * 1000:.2f} ms"
        used = answer.get("memory", 0)
        lines = [
            f"END RequestId: {request_id}",
            f"REPORT RequestId: {request_id}\tDuration: {milliseconds}\t"
            f"Memory Size: {self._memory_size} MB\tMax Memory Used: {used} MB",
        ]
        error = answer.get("error", {})
        if error.get("errorType") in ("Sandbox.Timedout", "Runtime.ExitError"):
            lines.insert(0, error["errorMessage"])
        write_log(self._group, self._stream, lines)

    def kill(self) -> None:
        """End the process and what it started."""
        self._process.kill()
        self._process.wait()
        self._socket.close()
        self._world.processes.reap()

    def _environment(self, function: LambdaFunction, bundle: Path, layer: Path) -> dict[str, str]:
        key = hashlib.sha256(self.name.encode()).hexdigest()[:14].upper()
        return {
            **{k: v for k, v in base_environment().items() if k in ("PATH", "LD_LIBRARY_PATH")},
            "LANG": "en_US.UTF-8",
            "TZ": ":UTC",
            "NO_PROXY": "localhost,127.0.0.1",
            "AWS_ENDPOINT_URL": self._world.endpoint,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": f"LAMBDA{key}",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_SESSION_TOKEN": "local",
            "AWS_ACCOUNT_ID": ACCOUNT,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_EXECUTION_ENV": f"AWS_Lambda_{function.run_time}",
            "AWS_LAMBDA_FUNCTION_NAME": self.name,
            "AWS_LAMBDA_FUNCTION_VERSION": str(function.version),
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_size),
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_LAMBDA_LOG_GROUP_NAME": self._group,
            "AWS_LAMBDA_LOG_STREAM_NAME": self._stream,
            "LAMBDA_TASK_ROOT": str(bundle),
            "_HANDLER": str(function.handler),
            "EMULATOR_LAYER": str(layer),
            **{name: str(value) for name, value in function.environment_vars.items()},
        }

    def _send(self, message: dict[str, Any]) -> None:
        self._socket.settimeout(30.0)
        try:
            self._socket.sendall(json.dumps(message, default=str).encode() + b"\n")
        except OSError as error:
            raise WorkerGone(self._how()) from error

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\n" not in self._buffer:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                data = self._socket.recv(1 << 20)
            except ConnectionError as error:
                raise WorkerGone(self._how()) from error
            if not data:
                raise WorkerGone(self._how())
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def _how(self) -> str:
        code = self._process.wait(timeout=10)
        return "signal: killed" if code < 0 else f"exit status {code}"

    def _copy_logs(self) -> None:
        with os.fdopen(self._output, "rb") as output:
            for line in output:
                write_log(self._group, self._stream, [line.decode(errors="replace").rstrip("\n")])
