"""What stands before moto: our own operations, the control API, faults of S3.

Services that speak JSON name their operation in a header, so an operation that moto lacks, or
answers too simply, is taken here before moto sees it.
"""

import io
import json
import logging
import re
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from emulator.faults import Faults
from emulator.names import AwsError

logger = logging.getLogger("emulator")

Operation = Callable[[dict[str, Any]], dict[str, Any]]
"""Parameters as the SDK sent them → the response's members. Raises ``AwsError``."""

Control = Callable[[str, str, dict[str, Any]], dict[str, Any]]
"""(method, path below ``/_everstep/``, body) → response."""

HOST_KEY_PREFIX = "HOST"
"""Access keys of training hosts begin with this."""

_SCOPE = re.compile(r"Credential=([A-Za-z0-9]+)/\d+/[^/]+/([^/]+)/aws4_request")
_SLOW_DOWN = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>SlowDown</Code>'
    b"<Message>Please reduce your request rate.</Message></Error>"
)


def _throttled(parameters: dict[str, Any]) -> dict[str, Any]:
    raise AwsError("ThrottlingException", "Rate exceeded")


class NotOurs(Exception):
    """Raised by an operation that leaves this request to moto after all."""


class Front:
    """The WSGI application that the server runs."""

    def __init__(self, moto: Callable[..., Iterable[bytes]], faults: Faults) -> None:
        self._moto = moto
        self._faults = faults
        self._operations: dict[str, Operation] = {}
        self.control: Control | None = None

    def add(self, target: str, operation: Operation) -> None:
        """Take over one operation, e.g. ``SageMaker.CreateTrainingJob``."""
        self._operations[target] = operation

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path.startswith("/_everstep/") and self.control:
            return self._control(environ, start_response, path)
        scope = _SCOPE.search(environ.get("HTTP_AUTHORIZATION", ""))
        if scope and scope[2] == "s3" and self._faults.slow_down(scope[1]):
            _drain(environ)
            start_response("503 Slow Down", [("Content-Type", "application/xml")])
            return [_SLOW_DOWN]
        target = environ.get("HTTP_X_AMZ_TARGET", "")
        operation = self._operations.get(target)
        if operation:
            body = _drain(environ)
            fault = f"throttle:{target.rpartition('.')[2]}"
            if self._faults.any_left(fault) and self._faults.take(fault, body.decode()):
                operation = _throttled
            try:
                return _answer(operation, body, environ, start_response)
            except NotOurs:
                environ["wsgi.input"] = io.BytesIO(body)
        return self._moto(environ, start_response)

    def _control(
        self, environ: dict[str, Any], start_response: Callable[..., Any], path: str
    ) -> Iterable[bytes]:
        assert self.control
        name = path.removeprefix("/_everstep/")
        method = environ["REQUEST_METHOD"]
        try:
            body = json.loads(_drain(environ) or b"{}")
            result = self.control(method, name, body)
            status = "200 OK"
        except AwsError as error:
            result = {"error": error.code, "message": error.message}
            status = f"{error.status} Error"
        except (KeyError, TypeError, ValueError) as error:
            result = {"error": "BadRequest", "message": f"{type(error).__name__}: {error}"}
            status = "400 Bad Request"
        start_response(status, [("Content-Type", "application/json")])
        return [json.dumps(result, default=str).encode()]


def _answer(
    operation: Operation,
    request: bytes,
    environ: dict[str, Any],
    start_response: Callable[..., Any],
) -> Iterable[bytes]:
    headers = [
        ("Content-Type", "application/x-amz-json-1.1"),
        ("x-amzn-RequestId", str(uuid.uuid4())),
    ]
    try:
        body = json.dumps(operation(json.loads(request or b"{}")))
        status = "200 OK"
    except AwsError as error:
        body = json.dumps({"__type": error.code, "message": error.message})
        status = f"{error.status} Error"
    except NotOurs:
        raise
    except Exception as error:
        # A fault of the emulator itself: said in its log, and to the caller as AWS would.
        logger.exception("operation failed: %s", environ.get("HTTP_X_AMZ_TARGET"))
        body = json.dumps({"__type": "InternalFailure", "message": f"emulator: {error!r}"})
        status = "500 Error"
    start_response(status, headers)
    return [body.encode()]


def _drain(environ: dict[str, Any]) -> bytes:
    # An unread body would be taken for the connection's next request.
    length = int(environ.get("CONTENT_LENGTH") or 0)
    return bytes(environ["wsgi.input"].read(length)) if length else b""
