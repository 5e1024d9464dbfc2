"""The launchers of a job's hosts agree: when the ranks start, and what follows when some end.

Host 0's launcher has the chair: it listens on the rendezvous port, waits until every host is there
and tells all of them to start. When ranks have failed anywhere it halts the others, waits until
every host has none left, and then tells all of them to start a new generation or to end. A host
that does not answer ends the job. One JSON object a line over TCP; a job of one host needs no
socket.
"""

import json
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict

from everstep.contracts.env import FailureFile
from everstep.contracts.failures import FailureClass
from trainer.errors import TrainerError
from trainer.flight import Seen

ANSWER_SECONDS = 60.0
"""For every host to say that its ranks are down, once one has said so: a failure file on a busy S3
takes up to 30 s of it."""
_TICK = 0.05


class Report(BaseModel):
    """A host's ranks are down. No ``failure``: they had finished, or were halted."""

    model_config = ConfigDict(frozen=True)

    done: bool = False
    failure: FailureFile | None = None
    noticed_epoch: float = 0.0
    records: dict[int, Seen] = {}
    """What the flight records of this host's ranks say, after a collective that hung."""
    stopping: bool = False
    """This host was asked to stop by the platform."""


class Verdict(BaseModel):
    """What every host does next."""

    model_config = ConfigDict(frozen=True)

    start: bool
    failed: bool = False
    """No start, since ranks or hosts have failed."""
    generation: int = 0
    port: int = 0
    """Of this generation's store: a new one each, so that no address of a dead one is read."""
    lost_epoch: float = 0.0
    """When the former generation's last step was done …"""
    noticed_epoch: float = 0.0
    """… and when its end was noticed. 0 in the first generation."""


Decide = Callable[[list[Report]], Verdict]


class GatherError(TrainerError):
    """The launchers of a job did not find each other."""

    failure_class = FailureClass.INFRASTRUCTURE


class Member(Protocol):
    """One host's side."""

    def verdict(self) -> Verdict | None:
        """What the chair has decided; None while it has not."""

    @property
    def halted(self) -> bool:
        """Ranks of another host have failed: kill yours and report."""

    def report(self, report: Report) -> None: ...

    def close(self) -> None: ...


class Alone:
    """The only host decides at once."""

    halted = False

    def __init__(self, decide: Decide, first: Verdict) -> None:
        self._decide, self._next = decide, [first]

    def verdict(self) -> Verdict | None:
        return self._next.pop() if self._next else None

    def report(self, report: Report) -> None:
        self._next.append(self._decide([report]))

    def close(self) -> None: ...


class Delegate:
    """A host's connection to the chair."""

    def __init__(self, address: tuple[str, int], node: int, job: str, patience: float) -> None:
        """Raises ``GatherError`` where nobody listens for ``patience`` seconds."""
        until = time.monotonic() + patience
        while True:
            try:
                self._socket = socket.create_connection(address, timeout=5)
                break
            except OSError as error:
                if time.monotonic() > until:
                    raise GatherError(
                        f"no launcher at {address[0]}:{address[1]} for {patience:g} s: {error}",
                        "the hosts of a job must reach each other: security group, host names",
                    ) from error
                time.sleep(0.2)
        self._socket.setblocking(False)
        self._lines = _Lines(self._socket)
        self.halted = False
        self._verdict: Verdict | None = None
        _send(self._socket, {"job": job, "node": node})

    def verdict(self) -> Verdict | None:
        self._read()
        found, self._verdict = self._verdict, None
        return found

    def report(self, report: Report) -> None:
        with suppress(OSError):  # the chair is gone: its last verdict says what follows
            _send(self._socket, {"report": report.model_dump(mode="json")})

    def close(self) -> None:
        self._socket.close()

    def _read(self) -> None:
        for word in self._lines.read():
            if "verdict" in word:
                self._verdict = Verdict.model_validate(word["verdict"])
                self.halted = False
            else:
                self.halted = True
        if self._lines.over and self._verdict is None:
            self._verdict = Verdict(start=False)  # the chair is gone, and the job with it


class Chair(threading.Thread):
    """Serves the delegates of all hosts, host 0's own too, until the end."""

    def __init__(
        self,
        port: int,
        hosts: list[str],
        job: str,
        decide: Decide,
        first: Callable[[], Verdict],
        patience: float,
    ) -> None:
        super().__init__(name="chair", daemon=True)
        self._hosts, self._job, self._decide, self._first = hosts, job, decide, first
        self._listener = socket.create_server(("", port), backlog=len(hosts) + 8)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._seats: dict[int, socket.socket] = {}
        self._reports: dict[int, Report] = {}
        self._answers_until: float | None = time.monotonic() + patience
        self._begun = self._ended = False

    def run(self) -> None:
        while not self._ended:
            for key, _ in self._selector.select(_TICK):
                if key.fileobj is self._listener:
                    self._admit()
                else:
                    self._hear(key.fileobj, key.data)  # type: ignore[arg-type]
            if self._answers_until is not None and time.monotonic() > self._answers_until:
                answered = self._reports if self._begun else self._seats
                self._end(min(set(range(len(self._hosts))) - set(answered)), "does not answer")
        self._selector.close()
        for peer in (self._listener, *self._seats.values()):
            peer.close()

    def _admit(self) -> None:
        peer, _ = self._listener.accept()
        peer.setblocking(False)
        self._selector.register(peer, selectors.EVENT_READ, _Seat(_Lines(peer)))

    def _hear(self, peer: socket.socket, seat: "_Seat") -> None:
        for word in seat.lines.read():
            if "job" in word:
                if word["job"] != self._job or word["node"] in self._seats:
                    print(f"launch: a launcher of {word} knocked; not ours", flush=True)
                    seat.lines.over = True
                    break
                seat.node = word["node"]
                self._seats[word["node"]] = peer
                if len(self._seats) == len(self._hosts):
                    self._begun, self._answers_until = True, None
                    self._tell({"verdict": self._first().model_dump()})
            elif seat.node is not None:
                self._reported(seat.node, Report.model_validate(word["report"]))
        if seat.lines.over:
            self._selector.unregister(peer)
            peer.close()
            if seat.node is not None and not self._ended:
                del self._seats[seat.node]
                self._end(seat.node, "is gone")

    def _reported(self, node: int, report: Report) -> None:
        self._reports[node] = report
        if not report.done and self._answers_until is None:
            self._answers_until = time.monotonic() + ANSWER_SECONDS
            self._tell({"halt": True})
        if len(self._reports) == len(self._hosts):
            self._conclude(list(self._reports.values()))

    def _conclude(self, reports: list[Report]) -> None:
        verdict = self._decide(reports)
        self._reports, self._answers_until = {}, None
        self._ended = not verdict.start
        self._tell({"verdict": verdict.model_dump()})

    def _end(self, node: int, how: str) -> None:
        """A host is lost: not for this rung."""
        lost = FailureFile(
            kind="host",
            message=f"the launcher of host {self._hosts[node]} {how}",
            host=self._hosts[node],
            time_epoch=time.time(),
            failure_class=FailureClass.INFRASTRUCTURE,
        )
        self._conclude([*self._reports.values(), Report(failure=lost)])

    def _tell(self, word: dict[str, Any]) -> None:
        for peer in list(self._seats.values()):
            try:
                _send(peer, word)
            except OSError:
                continue  # it is gone: its end is read, and acted on, as every other


class _Seat:
    def __init__(self, lines: "_Lines") -> None:
        self.lines, self.node = lines, None


class _Lines:
    """JSON lines of a socket that does not block."""

    def __init__(self, peer: socket.socket) -> None:
        self._peer, self._rest, self.over = peer, b"", False

    def read(self) -> list[dict[str, Any]]:
        while not self.over:
            try:
                data = self._peer.recv(65536)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            self.over = not data
            self._rest += data
        *whole, self._rest = self._rest.split(b"\n")
        return [json.loads(line) for line in whole]


def _send(peer: socket.socket, word: dict[str, Any]) -> None:
    peer.setblocking(True)
    try:
        peer.sendall(json.dumps(word).encode() + b"\n")
    finally:
        peer.setblocking(False)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
