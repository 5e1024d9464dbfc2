"""A job of our name that is another execution's: never adopted, never stopped."""

from typing import Any

import pytest

from everstep.contracts.events import ExecutionEvent, JobEvent
from everstep.contracts.failures import StopReason
from everstep.contracts.payloads import State
from everstep.contracts.records import job_name
from lambdas.inspect_attempt.handler import JobMissing
from lambdas.on_execution_event.handler import act as on_execution_event
from lambdas.on_job_event.handler import act as on_job_event
from tests.lambdas.world import EXECUTION, RUN, World

OURS, THEIRS = EXECUTION, EXECUTION.removesuffix(RUN) + "other"


def a_launch_not_known_to_be_made(world: World, owner: str, name: str = job_name(RUN, 1)) -> str:
    world.put_run()
    world.put_launch(task_token=world.machine.token("T1"))
    world.machine.executions[EXECUTION] = "RUNNING"
    world.sagemaker.put(name, tags=[{"Key": "everstep:execution", "Value": owner}])
    return name


def ended(name: str) -> JobEvent:
    detail = {"TrainingJobName": name, "TrainingJobStatus": "Failed"}
    kind = "SageMaker Training Job State Change"
    return JobEvent.model_validate({"detail-type": kind, "detail": detail})


@pytest.mark.parametrize("running", [True, False])
def test_the_watchdog_leaves_it_alone(world: World, running: bool) -> None:
    name = a_launch_not_known_to_be_made(world, THEIRS)
    world.machine.executions[EXECUTION] = "RUNNING" if running else "ABORTED"
    for _ in range(3):
        world.now += 600
        world.watch()
    world.sagemaker.end(name, "Failed")
    world.watch()
    assert world.sagemaker.stops == []
    assert world.machine.answers == {}
    assert world.machine.heartbeats == []
    seen = world.launch().outcome
    assert seen is None if running else seen is not None and seen.status == "NotCreated"


def test_the_event_of_its_end_settles_nothing(world: World) -> None:
    name = a_launch_not_known_to_be_made(world, THEIRS)
    world.sagemaker.end(name, "Failed")
    assert not on_job_event(ended(name), world.services())
    assert world.launch().outcome is None
    assert world.machine.answers == {}


def test_an_execution_that_is_stopped_does_not_stop_it(world: World) -> None:
    a_launch_not_known_to_be_made(world, THEIRS)
    world.machine.executions[EXECUTION] = "ABORTED"
    detail = {"executionArn": EXECUTION, "name": RUN, "status": "ABORTED"}
    kind = "Step Functions Execution Status Change"
    event = ExecutionEvent.model_validate({"detail-type": kind, "detail": detail})
    on_execution_event(event, world.services())
    assert world.sagemaker.stops == []
    assert world.launch().stop_reason is StopReason.EXECUTION_STOPPED


def test_inspection_does_not_take_it_for_the_launchs_own(world: World) -> None:
    a_launch_not_known_to_be_made(world, THEIRS)
    with pytest.raises(JobMissing):
        world.act(State.INSPECT_ATTEMPT, inspected(world))
    assert not world.launch().created


def test_our_own_that_no_one_noted_is_found_by_its_tag(world: World) -> None:
    name = a_launch_not_known_to_be_made(world, OURS)
    world.act(State.INSPECT_ATTEMPT, inspected(world))
    assert world.launch().created
    world.sagemaker.end(name, "Failed")
    assert on_job_event(ended(name), world.services())
    assert world.launch().outcome.status == "Failed"


def inspected(world: World) -> dict[str, Any]:
    token = world.machine.token("T2")
    return world.payload(launch=1, task_token=token)
