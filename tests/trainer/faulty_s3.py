"""moto's S3 over a socket, with a record of what was asked and faults in the answers."""

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

AWS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
}
ERROR = "<?xml version='1.0'?><Error><Code>{}</Code><Message>as the test wants it</Message></Error>"
Fault = str | None
Faults = Callable[[str, int], Fault]
"""(key, how many GETs there were before) → ``503 SlowDown``, ``403 AccessDenied``,
``cut`` (the connection ends in the body), ``short`` (less than was asked for), or None."""


@dataclass
class FaultyS3:
    """A WSGI application around moto's."""

    app: Any = field(default_factory=lambda: DomainDispatcherApplication(create_backend_app))
    faults: Faults = field(default=lambda key, number: None)
    gets: list[tuple[str, str]] = field(default_factory=list)
    """Key and Range of each GET of a part of an object."""
    at_once: int = 0
    """Most of them that were in the works at the same time."""
    uri: str = ""
    _now: int = 0
    _all: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        key = environ["PATH_INFO"]
        if environ["REQUEST_METHOD"] != "GET":
            return self.app(environ, start_response)
        with self._lock:
            number, self._all = self._all, self._all + 1
            if part := environ.get("HTTP_RANGE"):
                self.gets.append((key, part))
            self._now += 1
            self.at_once = max(self.at_once, self._now)
        try:
            return self._answer(environ, start_response, self.faults(key, number))
        finally:
            with self._lock:
                self._now -= 1

    def _answer(
        self, environ: dict[str, Any], start_response: Any, fault: Fault
    ) -> Iterable[bytes]:
        if fault is not None and " " in fault:
            body = ERROR.format(fault.split()[1]).encode()
            start_response(fault, [("Content-Type", "application/xml")])
            return [body]
        if fault is None:
            return self.app(environ, start_response)
        kept: list[Any] = []
        body = b"".join(self.app(environ, lambda *args: kept.extend(args)))
        status, headers = kept[0], [(k, v) for k, v in kept[1] if k.lower() != "content-length"]
        less = body[: len(body) // 2]
        start_response(
            status, [*headers, ("Content-Length", str(len(body if fault == "cut" else less)))]
        )
        return [less]

    def client(self) -> Any:
        return boto3.client(
            "s3",
            endpoint_url=self.uri,
            region_name=AWS["AWS_DEFAULT_REGION"],
            aws_access_key_id=AWS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=AWS["AWS_SECRET_ACCESS_KEY"],
        )


def serve() -> Iterator[FaultyS3]:
    """One that runs; ended when the generator is."""
    s3 = FaultyS3()
    server = make_server("127.0.0.1", 0, s3, threaded=True)
    s3.uri = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield s3
    server.shutdown()
    thread.join()
