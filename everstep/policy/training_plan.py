"""What a SageMaker training plan is good for now: use it, wait for it, or go elsewhere.

A plan is one or more blocks of reserved capacity, with gaps between them and each in a zone of its
own. In the last half hour of a block SageMaker ends what runs in it: a job gets a run time that
ends before, so that the trainer saves and the run goes on in the next block, or elsewhere. Source:
AWS's guide to SageMaker, "Reserve training plans", and DescribeTrainingPlan's shape, read 2026-11.
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from everstep.contracts.run_spec import Target
from everstep.policy.quota import Room

TAKEN_BACK_SECONDS = 1800
"""Before a block's end SageMaker takes its machines back."""
LEAST_SECONDS = 1800
"""Not worth the start of a job: starting alone takes a third of it."""
AGAIN_SECONDS = 300
"""Between two looks at a plan whose payment or start is under way."""
TARGET = "training-job"


class Block(NamedTuple):
    """One ReservedCapacity. Times are epoch seconds."""

    status: str
    instance_type: str
    instances: int
    zone: str
    start: float
    end: float


class Plan(NamedTuple):
    name: str
    status: str
    message: str
    targets: tuple[str, ...]
    blocks: tuple[Block, ...]
    """In order of time."""


class Standing(NamedTuple):
    """``room`` GO: in ``zone``, for ``seconds``. WAIT: look again at ``until``. Why, in words."""

    room: Room
    words: str
    zone: str | None = None
    seconds: int | None = None
    until: float = 0.0


def plan_of(answer: Mapping[str, Any]) -> Plan:
    """DescribeTrainingPlan's answer. A plan that names no blocks is one of its own times."""
    blocks = [
        Block(
            status=block["Status"],
            instance_type=block["InstanceType"],
            instances=block["TotalInstanceCount"],
            zone=block.get("AvailabilityZone", ""),
            start=block["StartTime"].timestamp(),
            end=block["EndTime"].timestamp(),
        )
        for block in answer.get("ReservedCapacitySummaries") or []
        if block.get("StartTime") and block.get("EndTime")
    ]
    return Plan(
        name=answer["TrainingPlanName"],
        status=answer["Status"],
        message=answer.get("StatusMessage") or "",
        targets=tuple(answer.get("TargetResources") or ()),
        blocks=tuple(sorted(blocks, key=lambda block: block.start)),
    )


def standing(plan: Plan | None, target: Target, zones: Collection[str], now: float) -> Standing:
    """``zones``: where the team has training subnets; none: jobs run outside of any VPC."""
    if plan is None:
        return _never(f"there is no training plan {target.training_plan_arn} here")
    name = f"training plan {plan.name}"
    if plan.status in ("Expired", "Failed"):
        return _never(f"{name} is {plan.status}" + (f": {plan.message}" if plan.message else ""))
    if plan.targets and TARGET not in plan.targets:
        return _never(f"{name} is for {', '.join(plan.targets)}, not for training jobs")
    if plan.status == "Pending":
        return Standing(Room.WAIT, f"{name} is not paid for yet", until=now + AGAIN_SECONDS)
    fitting, reasons = [], []
    for block in plan.blocks:
        reason = _unfit(block, target, zones, now)
        if reason is None:
            fitting.append(block)
        else:
            reasons.append(reason)
    if not fitting:
        return _never(f"{name}: {'; '.join(reasons) or 'no reserved capacity is left in it'}")
    first = fitting[0]
    if first.start > now:
        hours = (first.start - now) / 3600
        return Standing(Room.WAIT, f"{name} starts in {hours:.1f} h", until=first.start)
    if first.status != "Active":
        words = f"{name} is {first.status} although it has started"
        return Standing(Room.WAIT, words, until=now + AGAIN_SECONDS)
    left = int(first.end - TAKEN_BACK_SECONDS - now)
    words = f"{name} takes its machines back in {left / 3600:.1f} h"
    return Standing(Room.GO, words, zone=first.zone or None, seconds=left)


def until_the_plan_ends(limits: Mapping[str, Any], plan: Standing | None) -> dict[str, Any]:
    """A launch's limits, cut to what its plan leaves, with the reason. What the budget left is then
    not why it ends: the run goes on elsewhere."""
    if plan is None or plan.seconds is None or plan.seconds >= limits["max_runtime_seconds"]:
        return dict(limits)
    cut = {"max_runtime_seconds": plan.seconds, "budget_bound": False, "bounded_by": plan.words}
    return {**limits, **cut}


def _unfit(block: Block, target: Target, zones: Collection[str], now: float) -> str | None:
    """Why no job of this target can run in this block."""
    left = block.end - TAKEN_BACK_SECONDS - max(now, block.start)
    if block.status in ("Expired", "Failed") or left < LEAST_SECONDS:
        return f"{max(0.0, left) / 60:.0f} min are left of a block"
    if block.instance_type != target.instance_type:
        return f"it holds {block.instance_type}, not {target.instance_type}"
    if block.instances < target.nodes:
        return f"it holds {block.instances} machines, and the job needs {target.nodes}"
    if target.zone is not None and block.zone and block.zone != target.zone:
        return f"it lies in {block.zone}, and compute.zone is {target.zone}"
    if zones and block.zone and block.zone not in zones:
        return f"it lies in {block.zone}, and training subnets in {', '.join(sorted(zones))}"
    return None


def _never(words: str) -> Standing:
    return Standing(Room.NEVER, words)
