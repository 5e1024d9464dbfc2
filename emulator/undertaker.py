"""Ends every process of an emulator that is gone, ``kill -9`` included.

Run as a script: ``python -I -S undertaker.py MARK``. Standard input is a pipe whose other end
the emulator holds: end of file means that it has ended, however it ended. Processes are known
by a mark in their first environment, which children inherit through any number of sessions.
"""

import os
import signal
import sys
import time


def marked(mark: str) -> list[int]:
    """Ids of live processes that were started with ``mark`` in their environment."""
    needle = mark.encode()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                environ = file.read()
        except OSError:
            continue  # ended meanwhile, or another user's
        # A zombie has an empty environ, so it is not found.
        if needle in environ and int(entry) != os.getpid():
            found.append(int(entry))
    return found


def send(pids: list[int], number: int) -> None:
    """Signal each process; one that has ended meanwhile is what was wanted."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def end_all(mark: str, seconds: float = 10.0) -> None:
    """Kill until no marked process is left: one may fork while we look."""
    deadline = time.monotonic() + seconds
    while (pids := marked(mark)) and time.monotonic() < deadline:
        send(pids, signal.SIGKILL)
        time.sleep(0.02)


if __name__ == "__main__":
    sys.stdin.buffer.read()
    end_all(sys.argv[1])
