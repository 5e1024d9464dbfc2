"""Runs on training plans: used in their zone, waited for without an attempt, left when over."""

from datetime import UTC, datetime
from typing import Any

from everstep.contracts.failures import Action, FailureClass
from everstep.contracts.payloads import State
from everstep.contracts.records import RunStatus
from tests.lambdas.test_lives import Life
from tests.lambdas.world import World

ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/p"
P5 = "ml.p5.48xlarge"
PLANNED = {
    "instance_type": P5,
    "purchase": "training_plan",
    "training_plan_arn": ARN,
}
CPU = {"instance_type": "ml.m5.large"}


def _plan(world: World, start: float, end: float, status: str = "Active", **more: Any) -> None:
    """A plan of one block in the second zone; hours from now."""

    def at(hours: float) -> datetime:
        return datetime.fromtimestamp(world.now + hours * 3600, UTC)

    block = {
        "InstanceType": P5,
        "TotalInstanceCount": 1,
        "Status": status,
        "AvailabilityZone": "us-east-1b",
        "StartTime": at(start),
        "EndTime": at(end),
        **more,
    }
    world.sagemaker.plans[ARN] = {
        "TrainingPlanArn": ARN,
        "TrainingPlanName": "p",
        "Status": status,
        "TargetResources": ["training-job"],
        "ReservedCapacitySummaries": [block],
    }


def _life(world: World, *compute: dict[str, Any], **spec: Any) -> Life:
    world.quotas.values[f"{P5} for training job usage"] = 1.0
    return Life(world, compute=list(compute), **spec)


def test_a_job_goes_to_its_plans_zone_and_ends_before_the_plan(world: World) -> None:
    _plan(world, -1, 24)
    life = _life(world, PLANNED)
    assert life.go() is State.LAUNCH_ATTEMPT
    (name,) = world.sagemaker.created
    request = world.sagemaker.jobs[name]
    assert request["ResourceConfig"]["TrainingPlanArn"] == ARN
    assert request["VpcConfig"]["Subnets"] == ["subnet-b"]
    assert request["StoppingCondition"]["MaxRuntimeInSeconds"] == 23.5 * 3600
    assert "takes its machines back in 23.5 h" in str(world.launch().bounded_by)
    assert not world.launch().budget_bound


def test_a_plan_ahead_is_waited_for_without_an_attempt(world: World) -> None:
    _plan(world, 30, 54, "Scheduled")
    life = _life(world, PLANNED)
    assert life.go() is State.WAIT_FOR_ROOM
    assert world.sagemaker.created == []
    assert world.run().status is RunStatus.WAITING
    assert "training plan p starts in 30.0 h" in world.messages()[-1]
    world.now += 29 * 3600
    world.watch()
    assert world.machine.answers == {}
    world.now += 3600
    _plan(world, 0, 24)
    world.watch()
    assert life.wake() is State.LAUNCH_ATTEMPT
    assert world.launch().launch == 1


def test_a_plan_beyond_the_deadline_of_waiting_is_said_at_once(world: World) -> None:
    _plan(world, 400, 424, "Scheduled")
    life = _life(world, PLANNED)
    assert life.go() is State.GIVE_UP
    assert world.sagemaker.created == []
    assert "starts in 400.0 h, and retry.wait_deadline_hours" in world.messages()[-1]


def test_an_expired_plan_is_left_for_the_next_place(world: World) -> None:
    _plan(world, -48, -24, "Expired")
    life = _life(world, PLANNED, CPU)
    assert life.go() is State.LAUNCH_ATTEMPT
    assert (world.launch().target, world.launch().bounded_by) == (1, None)


def test_an_expired_plan_alone_ends_the_run_with_the_reason(world: World) -> None:
    _plan(world, -48, -24, "Expired")
    life = _life(world, PLANNED)
    assert life.go() is State.GIVE_UP
    failure = world.run().failure
    assert failure is not None
    assert (failure.failure_class, failure.action) == (
        FailureClass.CAPACITY,
        Action.DO_NOT_RETRY,
    )
    assert failure.cause == "training plan p is Expired"
    assert "everstep capacity" in str(failure.hint)


def test_a_plan_that_is_bought_later_is_found_on_redrive(world: World) -> None:
    life = _life(world, PLANNED)
    assert life.go() is State.GIVE_UP
    assert "there is no training plan" in str(world.run().failure)
    _plan(world, -1, 24)
    life.redrives = 1
    assert life.go() is State.LAUNCH_ATTEMPT


def test_a_place_without_room_is_tried_when_no_plan_is_left(world: World) -> None:
    """CreateTrainingJob has the last word: as without plans."""
    world.quotas.values["ml.m5.large for training job usage"] = 1.0
    _plan(world, -48, -24, "Expired")
    life = _life(world, PLANNED, {**CPU, "nodes": 1})
    world.quotas.values["ml.m5.large for training job usage"] = 0.0
    world.quotas.values["ml.m5.xlarge for training job usage"] = 0.0
    assert life.go() is State.LAUNCH_ATTEMPT
    assert world.launch().target == 1


def test_a_job_of_groups_is_made_and_paid_for_with_all_of_them(world: World) -> None:
    group = {"name": "data", "instance_type": "ml.m5.xlarge", "count": 3}
    foreign = {"command": ["python", "fork.py"]}
    life = _life(world, {**CPU, "groups": [group]}, trainer=foreign)
    assert life.go() is State.LAUNCH_ATTEMPT
    (name,) = world.sagemaker.created
    groups = world.sagemaker.jobs[name]["ResourceConfig"]["InstanceGroups"]
    assert [g["InstanceCount"] for g in groups] == [1, 3]
    assert world.launch().where == "1 × ml.m5.large + 3 × ml.m5.xlarge"
    used = world.services().quotas.in_use("another-run")
    assert used["ml.m5.xlarge for training job usage"] == 3
