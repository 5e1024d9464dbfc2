"""Faults that a scenario asked for and that have not been spent yet."""

import threading
from collections import Counter


class Faults:
    """Counters that the parts consult. All methods are safe to call from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: Counter[str] = Counter()
        self._event_mode = ""
        self._event_count: int | None = None
        self._schedules_off: set[str] = set()
        self._s3_who = "hosts"

    def add(self, kind: str, count: int) -> None:
        """``count`` more faults of ``kind`` (``capacity``, ``s3``, ``lambda:NAME``)."""
        with self._lock:
            self._left[kind] += count

    def take(self, kind: str) -> bool:
        """Spend one fault of ``kind``; False where none is left."""
        with self._lock:
            if self._left[kind] <= 0:
                return False
            self._left[kind] -= 1
            return True

    def left(self) -> dict[str, int]:
        """What has not happened yet."""
        with self._lock:
            return {kind: count for kind, count in self._left.items() if count > 0}

    def set_s3(self, count: int, who: str) -> None:
        """503 SlowDown for the next ``count`` S3 requests of training hosts, or of anyone."""
        with self._lock:
            self._left["s3"] = count
            self._s3_who = who

    def slow_down(self, from_host: bool) -> bool:
        """Whether this S3 request is to be refused."""
        if self._s3_who == "hosts" and not from_host:
            return False
        return self.take("s3")

    def set_events(self, mode: str, count: int | None) -> None:
        """``lose``, ``double``, ``triple`` or ``late`` for the next ``count`` job events."""
        with self._lock:
            self._event_mode, self._event_count = mode, count

    def event_mode(self) -> str:
        """The mode for one job event that is about to be sent; counts it."""
        with self._lock:
            if not self._event_mode:
                return ""
            if self._event_count is not None:
                if self._event_count <= 0:
                    return ""
                self._event_count -= 1
            return self._event_mode

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
