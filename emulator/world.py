"""What the emulator's parts share: where its files are, how long a minute lasts, who listens."""

import json
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from emulator.faults import Faults
from emulator.names import REGION
from emulator.processes import Processes

logger = logging.getLogger("emulator")

FAKE_CREDENTIALS = {"aws_access_key_id": "EMULATOREMULATOR0000", "aws_secret_access_key": "local"}


class World:
    """One emulator. Parts are wired together in ``emulator.server``."""

    def __init__(self, state: Path, port: int, minute: float) -> None:
        self.state = state
        self.port = port
        self.minute = minute
        self.processes = Processes()
        self.faults = Faults()
        self.closing = threading.Event()
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._files = threading.Lock()

    @property
    def endpoint(self) -> str:
        # By name: moto recognises its own template URLs by ``localhost``.
        return f"http://localhost:{self.port}"

    def scaled(self, seconds: float) -> float:
        """Real seconds for ``seconds`` of emulated schedule time."""
        return seconds * self.minute / 60.0

    def client(self, service: str) -> Any:
        """A boto3 client of our own endpoint, made once: making one costs 50 ms."""
        with self._lock:
            if service not in self._clients:
                self._clients[service] = boto3.client(
                    service,  # type: ignore[call-overload]
                    region_name=REGION,
                    endpoint_url=self.endpoint,
                    config=Config(retries={"total_max_attempts": 1}, max_pool_connections=50),
                    **FAKE_CREDENTIALS,
                )
            return self._clients[service]

    def append(self, file: str, record: dict[str, Any]) -> None:
        """Add one JSON line to a file of the state folder."""
        with self._files, (self.state / file).open("a") as out:
            out.write(json.dumps(record, default=str) + "\n")

    def every(self, seconds: Callable[[], float], do: Callable[[], None], name: str) -> None:
        """Call ``do`` for as long as the emulator lives, with a pause that may change."""

        def loop() -> None:
            while not self.closing.wait(seconds()):
                try:
                    do()
                except Exception:  # a pass must outlive one bad item; the log says which
                    logger.exception("background pass %s failed", name)

        threading.Thread(target=loop, name=name, daemon=True).start()

    def background(self, do: Callable[[], None], name: str) -> threading.Thread:
        """Run once in a thread; an error goes to the log, with its traceback."""

        def body() -> None:
            try:
                do()
            except Exception:  # no one joins this thread: the log is where its error is told
                logger.exception("background task %s failed", name)

        thread = threading.Thread(target=body, name=name, daemon=True)
        thread.start()
        return thread


def epoch() -> float:
    """Now, in epoch seconds."""
    return time.time()
