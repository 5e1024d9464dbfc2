"""A plan's state, its blocks and their ends: use it, wait for it, or go elsewhere."""

from datetime import UTC, datetime
from typing import Any

import pytest

from everstep.contracts.run_spec import Target
from everstep.policy.quota import Room
from everstep.policy.training_plan import (
    AGAIN_SECONDS,
    LEAST_SECONDS,
    TAKEN_BACK_SECONDS,
    Standing,
    plan_of,
    standing,
    until_the_plan_ends,
)

NOW, HOUR = 1_800_000_000.0, 3600.0
P5 = "ml.p5.48xlarge"
ARN = "arn:aws:sagemaker:us-east-1:111122223333:training-plan/p"
ZONES = ("us-east-1a", "us-east-1b")


def block(start: float, end: float, status: str = "Active", **more: Any) -> dict[str, Any]:
    """Hours from now."""
    return {
        "ReservedCapacityArn": "arn:aws:sagemaker:us-east-1:111122223333:reserved-capacity/r",
        "InstanceType": P5,
        "TotalInstanceCount": 4,
        "Status": status,
        "AvailabilityZone": "us-east-1a",
        "StartTime": datetime.fromtimestamp(NOW + start * HOUR, UTC),
        "EndTime": datetime.fromtimestamp(NOW + end * HOUR, UTC),
        **more,
    }


def stand(*blocks: dict[str, Any], status: str = "Active", **target: Any) -> Standing:
    answer = {
        "TrainingPlanArn": ARN,
        "TrainingPlanName": "p",
        "Status": status,
        "TargetResources": target.pop("targets", ["training-job"]),
        "ReservedCapacitySummaries": list(blocks),
    }
    fields = {"purchase": "training_plan", "training_plan_arn": ARN, "nodes": 4, **target}
    return standing(plan_of(answer), Target(instance_type=P5, **fields), ZONES, NOW)


def test_an_active_block_is_used_in_its_zone_until_its_last_half_hour() -> None:
    found = stand(block(-1, 24, AvailabilityZone="us-east-1b"))
    assert (found.room, found.zone) == (Room.GO, "us-east-1b")
    assert found.seconds == 24 * HOUR - TAKEN_BACK_SECONDS
    assert "takes its machines back in 23.5 h" in found.words


def test_a_plan_that_has_not_begun_is_waited_for() -> None:
    found = stand(block(30, 54, "Scheduled"), status="Scheduled")
    assert (found.room, found.until) == (Room.WAIT, NOW + 30 * HOUR)
    assert found.words == "training plan p starts in 30.0 h"


def test_between_two_blocks_the_next_one_is_waited_for() -> None:
    blocks = block(-48, -24, "Expired"), block(10, 34, "Scheduled", AvailabilityZone="us-east-1b")
    found = stand(*reversed(blocks), status="Scheduled")
    assert (found.room, found.until) == (Room.WAIT, NOW + 10 * HOUR)


def test_a_block_about_to_end_is_left_for_the_next() -> None:
    short = (TAKEN_BACK_SECONDS + LEAST_SECONDS - 1) / HOUR
    assert stand(block(-24, short)).room is Room.NEVER
    assert stand(block(-24, short + 2 / HOUR)).room is Room.GO
    found = stand(block(-24, short), block(5, 29, "Scheduled"))
    assert (found.room, found.until) == (Room.WAIT, NOW + 5 * HOUR)


def test_what_is_late_to_begin_or_to_be_paid_is_looked_at_again() -> None:
    late = stand(block(-0.1, 24, "Scheduled"), status="Scheduled")
    unpaid = stand(block(1, 25, "Pending"), status="Pending")
    assert (late.room, late.until) == (Room.WAIT, NOW + AGAIN_SECONDS)
    assert (unpaid.room, unpaid.until) == (Room.WAIT, NOW + AGAIN_SECONDS)


NEVER: dict[str, tuple[Standing, str]] = {
    "expired": (stand(status="Expired"), "is Expired"),
    "failed": (stand(status="Failed"), "is Failed"),
    "another kind": (stand(targets=["hyperpod-cluster"]), "is for hyperpod-cluster"),
    "no block left": (stand(), "no reserved capacity is left"),
    "other type": (stand(block(-1, 24, InstanceType="ml.p4d.24xlarge")), "it holds ml.p4d.24xl"),
    "too few": (stand(block(-1, 24), nodes=8), "it holds 4 machines, and the job needs 8"),
    "another zone than the spec's": (
        stand(block(-1, 24), zone="us-east-1b"),
        "lies in us-east-1a, and compute.zone is us-east-1b",
    ),
    "a zone without subnets": (
        stand(block(-1, 24, AvailabilityZone="us-east-1f")),
        "lies in us-east-1f, and training subnets in us-east-1a, us-east-1b",
    ),
}


@pytest.mark.parametrize("name", NEVER)
def test_what_a_job_can_never_use_is_said_with_the_reason(name: str) -> None:
    found, words = NEVER[name]
    assert found.room is Room.NEVER
    assert words in found.words


def test_a_plan_that_does_not_exist_is_never() -> None:
    target = Target(instance_type=P5, purchase="training_plan", training_plan_arn=ARN)
    found = standing(None, target, ZONES, NOW)
    assert (found.room, found.words) == (Room.NEVER, f"there is no training plan {ARN} here")


def test_a_launch_ends_before_its_plan_and_says_why() -> None:
    limits = {"max_runtime_seconds": 100_000, "budget_bound": True}
    plan = stand(block(-1, 2))
    cut = until_the_plan_ends(limits, plan)
    assert cut == {
        "max_runtime_seconds": 5400,
        "budget_bound": False,
        "bounded_by": plan.words,
    }
    assert until_the_plan_ends(limits, stand(block(-1, 48))) == limits
    assert until_the_plan_ends(limits, None) == limits
