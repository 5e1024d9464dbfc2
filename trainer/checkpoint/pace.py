"""When the next checkpoint is due: by the clock, or by what one costs here."""

import time
from statistics import fmean, median

from everstep.contracts.training_spec import Checkpoint
from everstep.policy import checkpoint_interval as policy
from trainer.host import Worker
from trainer.report import Reporter

FIRST_SECONDS = 300.0
"""Where the interval is measured: until a first save has been."""
WINDOW = 50
"""Steps whose median is the time of a step with no save in flight."""


class Pace:
    """``due`` is asked on rank 0 alone, between two steps. Seconds throughout."""

    def __init__(self, checkpoint: Checkpoint, worker: Worker, report: Reporter) -> None:
        self._measured = checkpoint.measured
        self._report = report
        self.seconds: float | None = None
        """Between two checkpoints; None where steps are counted."""
        if self._measured:
            self.seconds = FIRST_SECONDS
        elif checkpoint.every_steps is None and checkpoint.every_minutes is not None:
            self.seconds = 60 * checkpoint.every_minutes
        self._rate = checkpoint.failures_per_node_day or policy.FAILURES_PER_NODE_DAY
        self._nodes = worker.world_size // worker.local_world_size
        self._began = time.monotonic()
        self._free: list[float] = []
        self._beside: list[float] = []
        self._stall, self._in_flight = 0.0, False

    def due(self) -> bool:
        if self.seconds is None or (self._measured and self._in_flight):
            return False  # what is in flight is measured before the next one begins
        return time.monotonic() - self._began > self.seconds

    def saved(self, stall_seconds: float) -> None:
        """A save has begun, and held training up for so long."""
        self._began = time.monotonic()
        self._stall, self._beside, self._in_flight = stall_seconds, [], True

    def stepped(self, seconds: float, in_flight: bool, durable_seconds: float) -> None:
        """A step is done; ``durable_seconds``: how long the last save took, once it is durable."""
        self._in_flight = in_flight
        if not self._measured:
            return
        if in_flight:
            self._beside.append(seconds)
            return
        if durable_seconds and self._free:
            self._measure(durable_seconds)
        self._free = [*self._free, seconds][-WINDOW:]

    def cost(self) -> float:
        """Seconds of training that the last save took: its copy, and the slower steps beside it."""
        slower = 0.0
        if self._beside and self._free:
            slower = len(self._beside) * max(0.0, fmean(self._beside) - median(self._free))
        return self._stall + slower

    def _measure(self, durable_seconds: float) -> None:
        mtbf = policy.mean_time_between_failures(self._nodes, self._rate)
        former, cost = self.seconds, self.cost()
        self.seconds = policy.interval(cost, durable_seconds, mtbf)
        if former is None or abs(self.seconds - former) > 0.1 * former:
            self._report.log(
                f"a checkpoint every {self.seconds / 60:.1f} minutes: one costs {cost:.2f} s of "
                f"training and is durable after {durable_seconds:.1f} s; {self._nodes} nodes fail "
                f"every {mtbf / 3600:.0f} h ({self._rate:g} failures a node and day: "
                "checkpoint.failures_per_node_day)"
            )
