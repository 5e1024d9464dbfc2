"""What happens beside training after each step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from trainer.step import StepResult


@dataclass(frozen=True)
class StepDone:
    """One finished step, read from the device. The same on every rank but for ``seconds``."""

    step: int
    """Optimizer steps done, this one included."""
    position: int
    """Of the step's first sample in the global order."""
    loss: float
    grad_norm: float
    bad: bool
    """Loss or gradient was not finite: the weights are those from before the step."""
    lr: float
    tokens: int
    """Valid target tokens since the run's first step."""
    step_tokens: int
    seconds: float
    """Wall time since the step before, without the wait for a checkpoint's copy."""
    data_seconds: float
    """Part of ``seconds``: waiting for the batch."""
    save_seconds: float
    """Before the step: waiting for a checkpoint's copy."""


class Callback(Protocol):
    """Called on all ranks in the same order, so a callback may use collectives."""

    def after_step(self, done: StepDone) -> None: ...

    def close(self) -> None:
        """After the last step, before the last checkpoint is waited for."""


@dataclass(frozen=True)
class Launched:
    """A step whose results may still be on their way."""

    step: int
    position: int
    result: StepResult
    lr: float
    tokens: int
    step_tokens: int
    seconds: float
    data_seconds: float
    save_seconds: float

    def read(self) -> StepDone:
        """Waits for the device."""
        return StepDone(
            step=self.step,
            position=self.position,
            loss=self.result.loss.item(),
            grad_norm=self.result.grad_norm.item(),
            bad=bool(self.result.bad.item()),
            lr=self.lr,
            tokens=self.tokens,
            step_tokens=self.step_tokens,
            seconds=self.seconds,
            data_seconds=self.data_seconds,
            save_seconds=self.save_seconds,
        )


class Readings:
    """Gives each step to the callbacks: ``behind`` steps late, while the device works on."""

    def __init__(self, callbacks: Sequence[Callback], behind: int) -> None:
        self.latest: StepDone | None = None
        self._callbacks, self._behind = callbacks, behind
        self._waiting: list[Launched] = []

    def add(self, launched: Launched) -> None:
        self._waiting.append(launched)
        while len(self._waiting) > self._behind:
            self._give(self._waiting.pop(0))

    def drain(self) -> None:
        """Every step, before a checkpoint or the end: no checkpoint holds a step unread."""
        while self._waiting:
            self._give(self._waiting.pop(0))

    def close(self) -> None:
        for callback in self._callbacks:
            callback.close()

    def _give(self, launched: Launched) -> None:
        self.latest = launched.read()
        for callback in self._callbacks:
            callback.after_step(self.latest)
