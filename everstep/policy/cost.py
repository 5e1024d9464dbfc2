"""What a run has cost so far, what its budget leaves, and when that is said or ends it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from everstep.contracts.instances import INSTANCE_TYPES
from everstep.contracts.records import Launch
from everstep.contracts.run_spec import Budget, Target


class Spend(BaseModel):
    """Hours of accelerators (of instances on CPU types) and on-demand USD."""

    model_config = ConfigDict(frozen=True)

    gpu_hours: float = 0.0
    usd: float | None = None
    """None where config has no price for a type that was used: unknown is not zero."""

    def plus(self, other: "Spend") -> "Spend":
        known = self.usd is not None and other.usd is not None
        return Spend(
            gpu_hours=self.gpu_hours + other.gpu_hours,
            usd=(self.usd or 0.0) + (other.usd or 0.0) if known else None,
        )

    def words(self, unit: str) -> str:
        """``unit``: what the hours are of, see ``hours``."""
        money = "price unknown" if self.usd is None else f"about {self.usd:,.2f} USD on demand"
        return f"{self.gpu_hours:,.2f} {unit}, {money}"


def hours(places: Iterable[Launch | Target]) -> str:
    """What ``gpu_hours`` of some places are: hosts' where no type of theirs has an accelerator."""
    kinds = [INSTANCE_TYPES.get(x.instance_type) for x in places]
    return "host hours" if kinds and all(k and not k.accelerators for k in kinds) else "GPU hours"


class Used(NamedTuple):
    """One limit of a budget: the share of it that is used, in words too."""

    share: float
    words: str


def billed_seconds(launch: Launch, now: float | None = None) -> float:
    """SageMaker's own figure of a job that has ended; with ``now``, so far, of one that runs."""
    if launch.outcome is not None:
        return float(launch.outcome.billable_seconds)
    if now is None or launch.started_epoch is None:
        return 0.0
    return max(0.0, now - launch.started_epoch)


def held_seconds(launch: Launch, now: float | None = None) -> float:
    """How long the hosts were there. BillableTimeInSeconds of a spot job is TrainingTimeInSeconds
    less the saving (botocore's model of DescribeTrainingJob): money, not time. From start to end,
    where that is all that is known, also counts what was between a reclaim and the next hosts."""
    billed, outcome = billed_seconds(launch, now), launch.outcome
    if outcome is None:
        return billed
    if outcome.training_seconds is not None:
        return float(outcome.training_seconds)
    if outcome.started_epoch is None or outcome.ended_epoch is None:
        return billed
    return max(billed, outcome.ended_epoch - outcome.started_epoch)


def spend_on(launch: Launch, prices_usd: Mapping[str, float], now: float | None = None) -> Spend:
    """Of one job: the hours that its hosts were there, the money that they were billed for."""
    return Spend(
        gpu_hours=cost_of(launch, held_seconds(launch, now), prices_usd).gpu_hours,
        usd=cost_of(launch, billed_seconds(launch, now), prices_usd).usd,
    )


def spend_of(
    launches: Iterable[Launch], prices_usd: Mapping[str, float], now: float | None = None
) -> Spend:
    """Sum over jobs that have ended; with ``now``, and over those that run."""
    total = Spend(usd=0.0)
    for launch in launches:
        if held_seconds(launch, now):
            total = total.plus(spend_on(launch, prices_usd, now))
    return total


def spend_now(launch: Launch, prices_usd: Mapping[str, float], now: float) -> Spend:
    """What the run has spent while this launch runs: what came before, and its own time so far."""
    before = Spend(gpu_hours=launch.spent_gpu_hours, usd=launch.spent_usd)
    if launch.started_epoch is None:
        return before
    return before.plus(cost_of(launch, max(0.0, now - launch.started_epoch), prices_usd))


def cost_of(place: Launch | Target, seconds: float, prices_usd: Mapping[str, float]) -> Spend:
    """Of all hosts of a job, every group of them, for so long."""
    total = cost(place.instance_type, place.nodes, seconds, prices_usd)
    for group in place.groups:
        total = total.plus(cost(group.instance_type, group.count, seconds, prices_usd))
    return total


def cost(instance_type: str, nodes: int, seconds: float, prices_usd: Mapping[str, float]) -> Spend:
    hours = seconds / 3600 * nodes
    kind = INSTANCE_TYPES.get(instance_type)
    price = prices_usd.get(instance_type)
    return Spend(
        gpu_hours=hours * (max(1, kind.accelerators) if kind else 1),
        usd=None if price is None else hours * price,
    )


def used(budget: Budget, spend: Spend, now: float, created: float) -> Iterator[Used]:
    """Each limit that the budget has and that can be told."""
    if budget.max_gpu_hours is not None:
        share = spend.gpu_hours / budget.max_gpu_hours
        spent = _amount(spend.gpu_hours, 1)
        yield Used(share, f"{spent} GPU hours of {budget.max_gpu_hours:g} are spent")
    if budget.max_usd is not None and spend.usd is not None:
        spent = _amount(spend.usd, 2)
        yield Used(spend.usd / budget.max_usd, f"{spent} USD of {budget.max_usd:g} are spent")
    if budget.deadline is not None:
        whole, gone = budget.deadline.timestamp() - created, now - created
        share = gone / whole if whole > 0 else 1.0
        words = "has passed" if share >= 1 else f"is {(whole - gone) / 3600:.1f} h away"
        yield Used(share, f"the deadline {budget.deadline.isoformat()} {words}")


def _amount(value: float, digits: int) -> str:
    """Never "0.00 of 0.001": what is below one keeps three significant digits."""
    return f"{value:.{digits}f}" if value >= 1 else f"{value:.3g}"


def over(budget: Budget, spend: Spend, now: float, created: float) -> str | None:
    """Which limit is reached, in words."""
    return next((u.words for u in used(budget, spend, now, created) if u.share >= 1), None)


def warning(budget: Budget, spend: Spend, now: float, created: float) -> str | None:
    """Which limit is nearly reached, in words."""
    most = max(used(budget, spend, now, created), default=None)
    return most.words if most is not None and most.share >= budget.warn_at else None


def seconds_left(budget: Budget, spend: Spend, hour: Spend, now: float) -> float | None:
    """How long one job may run of which an hour costs so much; None where no limit applies."""
    left = []
    if budget.max_gpu_hours is not None:
        left.append((budget.max_gpu_hours - spend.gpu_hours) / hour.gpu_hours * 3600)
    if budget.max_usd is not None and spend.usd is not None and hour.usd:
        left.append((budget.max_usd - spend.usd) / hour.usd * 3600)
    if budget.deadline is not None:
        left.append(budget.deadline.timestamp() - now)
    return min(left, default=None)
