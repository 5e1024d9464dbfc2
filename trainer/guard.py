"""Goes back and skips when the loss is not finite, or spikes.

Looks at each step as it is read, on every rank alike: no device is waited for, and no rank has to
be asked. A step that is not finite never reached the weights; one that spikes did, and whatever
followed is undone by going back to the last committed checkpoint. Going back is a restart of the
ranks: nothing in memory is trusted.
"""

from collections import deque
from collections.abc import Sequence
from math import isfinite
from statistics import median

import torch.distributed as dist

from everstep.contracts import training_spec
from trainer.callbacks import StepDone
from trainer.checkpoint.saver import Saver
from trainer.errors import DivergedError, TrainerError
from trainer.report import Reporter
from trainer.skips import Skip, Skips
from trainer.store import Store

NORMAL = 1.4826
"""MAD × this is the standard deviation of a normal distribution."""
SMALLEST_RISE = 0.1
"""Of the median: where losses hardly differ, a rise that means nothing is many MADs."""


class Rewind(TrainerError):
    """Asks for a restart from the last checkpoint. Its name is known to ``trainer.in_job``."""


class Spikes:
    """Is a loss far above its recent past?"""

    def __init__(self, mads: float | None, window: int, losses: Sequence[float]) -> None:
        """``losses``: what a checkpoint remembers, so that a resumed run judges alike."""
        self._mads, self._least = mads, window // 4
        self._recent: deque[float] = deque(losses, maxlen=window)

    @property
    def losses(self) -> list[float]:
        return list(self._recent)

    def limit(self) -> float | None:
        """None while too little is known."""
        if self._mads is None or len(self._recent) < self._least:
            return None
        middle = median(self._recent)
        deviation = NORMAL * median(abs(loss - middle) for loss in self._recent)
        return middle + max(self._mads * deviation, SMALLEST_RISE * abs(middle))

    def add(self, loss: float) -> None:
        self._recent.append(loss)


class Guard:
    """Called for every step, before anything is printed of it."""

    def __init__(
        self,
        settings: training_spec.Guard,
        skips: Skips,
        losses: Sequence[float],
        *,
        store: Store,
        saver: Saver,
        group: dist.ProcessGroup,
        report: Reporter,
        batch: int,
    ) -> None:
        """``batch``: samples a step; ``group``: for the ranks to wait until the ledger is safe."""
        self._settings, self._skips = settings, skips
        self._spikes = Spikes(settings.spike_mads, settings.spike_window, losses)
        self._positions: deque[int] = deque(maxlen=settings.skip_batches)
        self._store, self._saver, self._group = store, saver, group
        self._report, self._batch = report, batch

    @property
    def losses(self) -> list[float]:
        return self._spikes.losses

    def after_step(self, done: StepDone) -> None:
        self._positions.append(done.position)
        limit = self._spikes.limit()
        if done.bad or not isfinite(done.loss):
            self._go_back(done, f"loss {done.loss}, gradient norm {done.grad_norm}")
        elif limit is not None and done.loss > limit:
            self._go_back(done, f"loss {done.loss:.6g} is a spike: above {limit:.6g}")
        self._spikes.add(done.loss)

    def close(self) -> None: ...

    def _go_back(self, done: StepDone, reason: str) -> None:
        self._saver.settle()  # a save in flight is of before the bad step: worth its wait
        checkpoint = self._saver.last_step
        said, allowed = f"step {done.step}: {reason}", self._settings.rewinds
        if self._skips.since(checkpoint) >= allowed:
            raise DivergedError(
                f"{said}, after {allowed} rewinds to step {checkpoint} (guard.rewinds)",
                "lower train.lr or raise train.warmup_steps; look at the data near this step",
            )
        start = self._positions[0]
        skip = Skip(
            start=start,
            count=done.position + self._batch - start,
            step=done.step,
            reason=reason,
            checkpoint=checkpoint,
        )
        if self._report.rank == 0:
            self._skips.plus(skip).write(self._store)
        dist.barrier(group=self._group)  # nobody dies, and takes rank 0 along, before it is written
        self._report.line("rewind", **skip.model_dump())
        raise Rewind(
            f"{said}; back to step {checkpoint}, skipping samples {start} to "
            f"{start + skip.count - 1}",
            "nothing to do: the ranks start again from the last checkpoint",
        )
