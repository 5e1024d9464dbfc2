"""Every process the emulator makes: started here, listed here, ended here.

A process may start others in sessions of their own (torch's elastic agent does), so a process
group is not enough to find them. Each process is started with marks in its environment, one for
the emulator and one for what it is part of, and found again by them.
"""

import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from emulator.undertaker import end_all, marked, send

EMULATOR_MARK = "EVERSTEP_EMULATOR_ID"
PART_MARK = "EVERSTEP_EMULATOR_PART"


class Processes:
    """The emulator's process table. ``part`` names what a process belongs to."""

    def __init__(self) -> None:
        self.mark = f"{EMULATOR_MARK}={uuid.uuid4().hex}"
        self._lock = threading.Lock()
        self._started: dict[int, tuple[str, subprocess.Popen[bytes]]] = {}
        # Its mark is an argument, not its environment: it must not find itself.
        self._undertaker = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("undertaker.py")), self.mark],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def start(
        self,
        argv: Sequence[str],
        part: str,
        environment: Mapping[str, str],
        cwd: Path | None = None,
        stdout: int | IO[Any] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> subprocess.Popen[bytes]:
        """Start a process in a session of its own; its errors go where its output goes."""
        name, _, value = self.mark.partition("=")
        process = subprocess.Popen(
            list(argv),
            env={**environment, name: value, PART_MARK: part},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=tuple(pass_fds),
        )
        with self._lock:
            self._started[process.pid] = (part, process)
        return process

    def pids(self, part: str) -> list[int]:
        """Live processes of one part, their descendants in other sessions included."""
        # The trailing NUL keeps ``job/algo-1`` from matching ``job/algo-10``.
        mine = set(marked(self.mark))
        return [pid for pid in marked(f"{PART_MARK}={part}\0") if pid in mine]

    def signal_part(self, part: str, number: int) -> list[int]:
        """Signal all processes of a part; returns whom."""
        pids = self.pids(part)
        send(pids, number)
        return pids

    def kill_part(self, part: str) -> None:
        """SIGKILL a part until nothing of it is left."""
        pids = self.pids(part)
        while pids:
            send(pids, signal.SIGKILL)
            self.reap()
            pids = self.pids(part)

    def reap(self) -> None:
        """Forget processes that have ended."""
        with self._lock:
            ended = [pid for pid, (_, p) in self._started.items() if p.poll() is not None]
            for pid in ended:
                del self._started[pid]

    def live(self) -> list[dict[str, Any]]:
        """One row a live process: pid, part, and the kind (``lambda`` or ``host``) in the part."""
        self.reap()
        rows = []
        for pid in marked(self.mark):
            part = _part_of(pid)
            if part:
                kind, _, name = part.partition(":")
                rows.append({"pid": pid, "kind": kind, "name": name})
        return rows

    def close(self) -> None:
        """End all processes, the undertaker last."""
        end_all(self.mark)
        if self._undertaker.stdin:
            self._undertaker.stdin.close()
        self._undertaker.wait(timeout=15)
        self.reap()


def _part_of(pid: int) -> str:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return ""  # ended meanwhile
    for entry in environ.split(b"\0"):
        if entry.startswith(PART_MARK.encode() + b"="):
            return entry.split(b"=", 1)[1].decode()
    return ""


def alive(pid: int) -> bool:
    """Whether a process exists (a zombie counts as ended)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in ("Z", "X")


def base_environment() -> dict[str, str]:
    """What any process needs of ours: where programs are, and nothing of AWS."""
    keep = ("PATH", "LANG", "LC_ALL", "TZ", "HOME", "TMPDIR", "LD_LIBRARY_PATH")
    return {name: os.environ[name] for name in keep if name in os.environ}
