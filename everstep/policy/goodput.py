"""Useful step time ÷ all machine time paid for, and where the rest went."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from everstep.contracts.records import Launch
from everstep.policy.cost import Spend, cost_of, held_seconds


class StepTime(NamedTuple):
    """One step line of a trainer's log. A run of months has a million."""

    step: int
    seconds: float
    loss: float | None = None


class Goodput(BaseModel):
    """Seconds of the whole cluster (wall clock of jobs, not multiplied by ranks)."""

    model_config = ConfigDict(frozen=True)

    useful_seconds: float
    paid_seconds: float
    """Hosts were held for so long: of a spot job more than is billed, which is less its saving."""
    steps_lost: int
    """Steps that were done, not saved, and done again."""

    @property
    def ratio(self) -> float | None:
        """None until something was paid for, and where steps claim more time than there was: a
        program that tells no seconds."""
        if not self.paid_seconds or self.useful_seconds > self.paid_seconds:
            return None
        return self.useful_seconds / self.paid_seconds


def goodput(
    launches: Sequence[Launch], steps: Mapping[int, Sequence[StepTime]], now: float
) -> Goodput:
    """``steps`` by launch number. Of a step done more than once only the last time was useful.
    A job that runs is paid for until ``now`` (epoch seconds)."""
    last: dict[int, float] = {}
    for number in sorted(steps):
        for one in steps[number]:
            last[one.step] = one.seconds
    useful = sum(last.values())
    done = sum(len({s.step for s in one}) for one in steps.values())
    paid = sum(held_seconds(x, now) for x in launches)
    return Goodput(
        useful_seconds=useful,
        paid_seconds=paid,
        steps_lost=done - len(last),
    )


def so_far(launch: Launch, first_step: int, spend: Spend) -> float | None:
    """An estimate while a job runs, of what its row holds: each step since the run's first counts
    once, at the pace of the newest ones, against all GPU time paid for. None before the launch's
    first step, and where nothing is paid for."""
    if launch.last_step is None or not launch.step_times or not spend.gpu_hours:
        return None
    seconds = max(0, launch.last_step - first_step) * median(launch.step_times)
    return min(1.0, cost_of(launch, seconds, {}).gpu_hours / spend.gpu_hours)


def loss_curve(steps: Mapping[int, Sequence[StepTime]]) -> dict[int, float]:
    """Loss by step, as the run finally went."""
    return {
        one.step: one.loss
        for number in sorted(steps)
        for one in steps[number]
        if one.loss is not None
    }
