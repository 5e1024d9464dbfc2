"""Faults that a scenario asked for and that have not been spent yet."""

import threading
from collections import Counter
from dataclasses import dataclass


@dataclass
class _Mode:
    """What happens to the events of jobs named ``match``; ``left``: None is for ever."""

    mode: str
    match: str
    left: int | None


class Faults:
    """Counters that the parts consult. All methods are safe to call from any thread.

    A fault may be meant for one run only: ``match`` is then a text, such as the run's id, that the
    name of the job, the function's payload or the request must contain.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: Counter[tuple[str, str]] = Counter()
        self._events: list[_Mode] = []
        self._schedules_off: set[str] = set()
        self._hosts: dict[str, str] = {}

    def add(self, kind: str, count: int, match: str = "") -> None:
        """``count`` more faults of ``kind``: ``capacity``, ``lambda:NAME``, ``throttle:NAME``."""
        with self._lock:
            self._left[kind, match] += count

    def take(self, kind: str, text: str = "") -> bool:
        """Spend one fault of ``kind`` that is meant for ``text``; False where none is left."""
        with self._lock:
            for (other, match), count in self._left.items():
                if other == kind and count > 0 and match in text:
                    self._left[kind, match] -= 1
                    return True
            return False

    def any_left(self, kind: str) -> bool:
        """Whether a fault of ``kind`` waits for its victim."""
        with self._lock:
            return any(k == kind and count > 0 for (k, _), count in self._left.items())

    def left(self) -> dict[str, int]:
        """What has not happened yet."""
        total: Counter[str] = Counter()
        with self._lock:
            for (kind, _), count in self._left.items():
                total[kind] += count
        return {kind: count for kind, count in total.items() if count > 0}

    def forget(self, match: str) -> None:
        """Nothing more happens to ``match``; with an empty text, to anyone."""
        with self._lock:
            for key in [key for key in self._left if not match or key[1] == match]:
                del self._left[key]
            self._events = [m for m in self._events if match and m.match != match]

    def know_host(self, access_key: str, job: str) -> None:
        """Requests signed with ``access_key`` are those of a host of ``job``."""
        with self._lock:
            self._hosts[access_key] = job

    def set_s3(self, count: int, who: str, match: str = "") -> None:
        """503 SlowDown for the next ``count`` S3 requests of training hosts, or of anyone."""
        with self._lock:
            self._left[f"s3:{who}", match] = count

    def slow_down(self, access_key: str) -> bool:
        """Whether this S3 request is to be refused."""
        job = self._hosts.get(access_key)
        return self.take("s3:any") or (job is not None and self.take("s3:hosts", job))

    def set_events(self, mode: str, count: int | None, match: str = "") -> None:
        """``lose``, ``double``, ``triple`` or ``late`` for the next ``count`` job events."""
        with self._lock:
            self._events = [m for m in self._events if match and m.match != match]
            if mode:
                self._events.append(_Mode(mode, match, count))

    def event_mode(self, job: str) -> str:
        """The mode for one job event that is about to be sent; counts it."""
        with self._lock:
            for one in self._events:
                if one.match in job and (one.left is None or one.left > 0):
                    if one.left is not None:
                        one.left -= 1
                    return one.mode
            return ""

    def set_schedule(self, on: bool, name: str = "") -> None:
        """Silence schedules, as if disabled: one by a part of its name, or all."""
        with self._lock:
            if on:
                self._schedules_off = {n for n in self._schedules_off if name and n != name}
            else:
                self._schedules_off.add(name)

    def schedule_on(self, name: str) -> bool:
        """Whether a schedule of that name may fire."""
        with self._lock:
            return not any(part in name for part in self._schedules_off)
