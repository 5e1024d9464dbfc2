"""A file system that does not answer: opening a file on it waits, in the kernel, until it does.

A process that holds a write lease on a file (fcntl(2), F_SETLEASE) makes every other one's open(2)
of it wait: no code of the reader takes part, as none does where Lustre's servers are away. What a
reader has open or mapped it goes on reading, as a Lustre client does from what it holds locks for.
Two differences: a reader that waits here can be killed, one that waits for Lustre may not die
before the servers are back; and the kernel ends a wait after /proc/sys/fs/lease-break-time (45 s).
"""

import fcntl
import os
import signal
from contextlib import suppress
from pathlib import Path

from emulator.names import AwsError

LIMIT = Path("/proc/sys/fs/lease-break-time")


class Stall:
    """From its making to ``end``, the files below ``folder`` that no one has open are away."""

    def __init__(self, folder: Path, seconds: float) -> None:
        if not LIMIT.exists():
            raise AwsError("NotHere", "file leases are Linux's: no stall can be emulated here")
        most = int(LIMIT.read_text())
        if seconds > most:
            raise AwsError("TooLong", f"{seconds:g} s: the kernel ends a lease after {most} s")
        self._held: list[int] = []
        for path in folder.rglob("*"):
            if path.is_file():
                self._hold(os.open(path, os.O_RDONLY))
        self.files = len(self._held)

    def _hold(self, descriptor: int) -> None:
        # Whoever comes to a lease is announced by a signal: SIGIO would end this process.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        try:
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except BlockingIOError:
            os.close(descriptor)  # someone has it open
        else:
            self._held.append(descriptor)

    def end(self) -> None:
        """Every open that waits goes on."""
        for descriptor in self._held:
            with suppress(OSError):  # taken by the kernel at its limit
                fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
            os.close(descriptor)
        self._held = []
