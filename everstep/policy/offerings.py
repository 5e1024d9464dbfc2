"""Training plans on offer: what may be asked for, what an offering is worth, how to use it.

Rules: AWS's guide to SageMaker, "Search training plan offerings" and "Reserve training plans", read
2026-11: whole days, 1 to 182; 1, 2, 4, 8, 16, 32 or 64 instances; the fee is paid at once; machines
are taken back half an hour before a block ends.
"""

import math
import shlex
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from everstep.contracts.instances import INSTANCE_TYPES, RESERVABLE, similar_types
from everstep.contracts.problems import Problem
from everstep.policy.training_plan import TAKEN_BACK_SECONDS

COUNTS = (1, 2, 4, 8, 16, 32, 64)
LONGEST_DAYS = 182

Order = Literal["start", "price"]


class Wish(NamedTuple):
    instance_type: str
    nodes: int
    days: int


class Segment(NamedTuple):
    """A block of an offering. Times are epoch seconds."""

    zone: str
    start: float
    end: float


class Offering(NamedTuple):
    id: str
    region: str
    instance_type: str
    instances: int
    fee: float | None
    """None where AWS named no figure."""
    currency: str
    segments: tuple[Segment, ...]

    @property
    def start(self) -> float:
        return self.segments[0].start

    @property
    def hours(self) -> float:
        """Paid for, on each instance."""
        return sum(x.end - x.start for x in self.segments) / 3600

    @property
    def usable_hours(self) -> float:
        """Before the machines are taken back, block by block."""
        return sum(max(0, x.end - x.start - TAKEN_BACK_SECONDS) for x in self.segments) / 3600

    @property
    def longest_job_hours(self) -> float:
        """In one block: a job does not outlast it."""
        return max(x.end - x.start - TAKEN_BACK_SECONDS for x in self.segments) / 3600

    @property
    def fee_per_usable_hour(self) -> float | None:
        """Of one instance."""
        hours = self.usable_hours * self.instances
        return None if self.fee is None or hours <= 0 else self.fee / hours


def days_for(runtime_hours: float) -> int:
    """Whole days that hold so long a job, and the half hour at their end."""
    return max(1, math.ceil((runtime_hours + TAKEN_BACK_SECONDS / 3600) / 24))


def wish_problems(wish: Wish) -> Iterable[Problem]:
    kind = wish.instance_type
    if kind not in INSTANCE_TYPES:
        near = ", ".join(similar_types(kind))
        yield Problem(path="--instance-type", value=kind, message="unknown", hint=f"{near}?")
    elif kind not in RESERVABLE:
        yield Problem(
            path="--instance-type",
            value=kind,
            message="no training plan holds this type",
            hint=f"one of {', '.join(sorted(RESERVABLE))}",
        )
    if wish.nodes not in COUNTS:
        larger = next((n for n in COUNTS if n >= wish.nodes), None)
        yield Problem(
            path="--nodes",
            value=wish.nodes,
            message=f"plans hold {', '.join(map(str, COUNTS))} instances",
            hint=f"--nodes {larger}: a job may use fewer than the plan holds"
            if larger
            else "several plans, each for a run of its own",
        )
    if not 1 <= wish.days <= LONGEST_DAYS:
        yield Problem(
            path="--days",
            value=wish.days,
            message=f"plans are 1 to {LONGEST_DAYS} whole days long",
            hint="a run goes on from plan to plan: name both in its compute",
        )


def offering_of(region: str, row: Mapping[str, Any]) -> Offering | None:
    """A TrainingPlanOffering; None for one without a block of plain instances at known times."""
    blocks = [
        block
        for block in row.get("ReservedCapacityOfferings") or []
        if block.get("StartTime") and block.get("EndTime")
    ]
    if not blocks:
        return None
    segments = [
        Segment(
            block.get("AvailabilityZone", ""),
            block["StartTime"].timestamp(),
            block["EndTime"].timestamp(),
        )
        for block in blocks
    ]
    return Offering(
        id=row["TrainingPlanOfferingId"],
        region=region,
        instance_type=blocks[0]["InstanceType"],
        instances=blocks[0]["InstanceCount"],
        fee=_amount(row.get("UpfrontFee")),
        currency=row.get("CurrencyCode") or "",
        segments=tuple(sorted(segments, key=lambda x: x.start)),
    )


def _amount(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


def ranked(offerings: Iterable[Offering], by: Order) -> list[Offering]:
    """By start, then by what a usable instance-hour costs; or the other way round."""

    def key(x: Offering) -> tuple[float, float, int]:
        price = math.inf if x.fee_per_usable_hour is None else x.fee_per_usable_hour
        two = (x.start, price) if by == "start" else (price, x.start)
        return (*two, len(x.segments))

    return sorted(offerings, key=key)


def plan_name(offering: Offering) -> str:
    kind = offering.instance_type.removeprefix("ml.").replace(".", "-")
    day = datetime.fromtimestamp(offering.start, UTC)
    return f"{kind}-x{offering.instances}-{day:%Y%m%d-%H%M}"


def purchase_command(offering: Offering) -> str:
    """For a person to run: it costs the fee at once, and a plan cannot be given back."""
    words = ["aws", "sagemaker", "create-training-plan", "--region", offering.region]
    words += ["--training-plan-name", plan_name(offering)]
    words += ["--training-plan-offering-id", offering.id]
    return shlex.join(words)


def spec_lines(offering: Offering, partition: str, account: str, nodes: int) -> dict[str, Any]:
    """What a spec says to use the plan, once it is bought. No zone: each block has its own."""
    where = f"arn:{partition}:sagemaker:{offering.region}:{account}"
    place = {
        "instance_type": offering.instance_type,
        "nodes": nodes,
        "purchase": "training_plan",
        "training_plan_arn": f"{where}:training-plan/{plan_name(offering)}",
    }
    return {"compute": [place]}
