"""Which rank is slow, and by how much.

All ranks' steps take the same wall time: the fast ones wait in collectives for the slow one. So
each rank counts what is left of a step without those waits, loading its data included, and the
ranks compare. On a CPU a wait blocks the thread; on a GPU it blocks the compute stream, and events
before and after tell how long.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median_low
from typing import Any, Protocol

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

from trainer.callbacks import StepDone
from trainer.report import Reporter

MEASURED = 5
"""Steps before each comparison that are measured: enough to tell a pause from a slow rank."""


class Clock(Protocol):
    """Marks now, and tells later what lay between two marks."""

    def mark(self) -> Any: ...

    def passed(self, mark: Any) -> bool: ...

    def seconds(self, begin: Any, end: Any) -> float: ...


class HostClock:
    def mark(self) -> float:
        return time.monotonic()

    def passed(self, mark: float) -> bool:
        return True

    def seconds(self, begin: float, end: float) -> float:
        return end - begin


class DeviceClock:
    """Marks on the current CUDA stream: the host waits for none of them."""

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def passed(self, mark: torch.cuda.Event) -> bool:
        return mark.query()

    def seconds(self, begin: torch.cuda.Event, end: torch.cuda.Event) -> float:
        return begin.elapsed_time(end) / 1000


@dataclass
class _Step:
    loading: float
    begin: Any
    end: Any = None
    waits: list[tuple[Any, Any]] = field(default_factory=list)


class OwnTime:
    """Seconds of a step that this rank needs for itself."""

    def __init__(self, device: torch.device, every: int) -> None:
        """``every``: steps between two comparisons; the last few before each are measured."""
        self._clock: Clock = DeviceClock() if device.type == "cuda" else HostClock()
        self._every = every
        self._steps: list[_Step] = []

    @contextmanager
    def compute(self, step: int, loading: float) -> Iterator[None]:
        """Around optimizer step ``step`` (1-based), whose batch took ``loading`` seconds."""
        if (step - 1) % self._every < self._every - MEASURED:
            yield
            return
        measured = _Step(loading, self._clock.mark())
        with _waits_marked(self._clock, measured.waits):
            yield
        measured.end = self._clock.mark()
        self._steps.append(measured)

    def take(self) -> float:
        """Mean over the steps since the last call that the device has finished; 0 for none."""
        passed = [self._clock.passed(step.end) for step in self._steps]
        done = [step for step, over in zip(self._steps, passed, strict=True) if over]
        self._steps = [step for step, over in zip(self._steps, passed, strict=True) if not over]
        return sum(map(self._seconds, done)) / max(1, len(done))

    def _seconds(self, step: _Step) -> float:
        whole = step.loading + self._clock.seconds(step.begin, step.end)
        return whole - sum(self._clock.seconds(*wait) for wait in step.waits)


class Stragglers:
    """Every few steps: a line that names the slowest rank, past any threshold or not."""

    def __init__(self, own: OwnTime, every: int, report: Reporter) -> None:
        self._own, self._every, self._report = own, every, report

    def after_step(self, done: StepDone) -> None:
        if done.step % self._every or dist.get_world_size() == 1:
            return
        mine = torch.tensor([self._own.take()], dtype=torch.float64)
        ranks = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(ranks, mine)
        seconds = [rank.item() for rank in ranks]
        if min(seconds) > 0:
            rank, ratio = slowest(seconds)
            self._report.line(
                "straggler", rank=rank, ratio=round(ratio, 3), own_seconds=round(seconds[rank], 6)
            )

    def close(self) -> None: ...


def slowest(seconds: list[float]) -> tuple[int, float]:
    """The rank that needs longest, and how many times the median; of two ranks: of the other."""
    rank = max(range(len(seconds)), key=seconds.__getitem__)
    return rank, seconds[rank] / median_low(seconds)


@contextmanager
def _waits_marked(clock: Clock, waits: list[tuple[Any, Any]]) -> Iterator[None]:
    """Marks every wait for a collective of this rank's training, while it lasts.

    Waits begin in Python, at these places (torch 2.13): ``Work.wait`` of torch.distributed,
    FSDP2's ``Stream.wait_event``, and ``wait_tensor`` of DTensor.
    """
    main = threading.main_thread()

    def marked(wait: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **more: Any) -> Any:
            thread = threading.current_thread()
            # autograd's threads are not Python's own; a checkpoint's are, and their waits are free
            if thread is not main and not isinstance(thread, threading._DummyThread):
                return wait(*arguments, **more)
            begin = clock.mark()
            try:
                return wait(*arguments, **more)
            finally:
                waits.append((begin, clock.mark()))

        return wrapped

    places: list[tuple[Any, str]] = [(dist.Work, "wait"), (functional, "wait_tensor")]
    if isinstance(clock, DeviceClock):
        places.append((torch.cuda.Stream, "wait_event"))
    honest = [getattr(place, name) for place, name in places]
    for (place, name), wait in zip(places, honest, strict=True):
        setattr(place, name, marked(wait))
    try:
        yield
    finally:
        for (place, name), wait in zip(places, honest, strict=True):
            setattr(place, name, wait)
