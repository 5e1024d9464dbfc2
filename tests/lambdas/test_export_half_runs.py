"""The handlers after training die half way, and are run again: one job, one model, one message."""

from typing import Any

import pytest

from everstep.contracts.failures import FailureClass, StopReason
from everstep.contracts.payloads import State
from everstep.contracts.records import ExportPlan, RunStatus, export_job_name
from tests.lambdas.test_half_runs import (
    SETTLED_BY_WATCHDOG,
    Act,
    Scenario,
    dies_anywhere,
    execution_event,
    failed,
    name_of,
    runs_twice,
    state,
    watch,
)
from tests.lambdas.world import EXECUTION, RUN, TEAM, World, refuse

FINAL = "step-00000100.00001"
JOB = export_job_name(RUN, 1)


def trained(world: World, max_attempts: int = 3, **run: Any) -> None:
    """A run whose training is over, with the launch and its job."""
    finish = {"export": True, "register": True, "max_attempts": max_attempts}
    world.put_run(spec={"finish": finish}, final_step=100, **run)
    world.put_job(token="T0")
    world.machine.abandon()
    world.sagemaker.end(f"{RUN}-00001", "Completed")
    world.store.update(world.launch(), active=False)
    world.put_checkpoint(100, final=True)


def planned(world: World, number: int = 1, **changes: Any) -> None:
    uri = f"{TEAM.output_uri}/{RUN}/export/{FINAL}"
    plan = ExportPlan(checkpoint=FINAL, uri=uri, volume_gib=21, after_launch=1, first=1)
    world.put_launch(number, job_name=export_job_name(RUN, number), export=plan, **changes)


def running(world: World, max_attempts: int = 3) -> None:
    trained(world, max_attempts)
    planned(world, task_token=world.machine.token("T1"), created=True)
    tags = [{"Key": "everstep:execution", "Value": EXECUTION}]
    world.sagemaker.put(JOB, tags=tags)


def verify_outcome_plans(world: World) -> Act:
    trained(world)
    return state(State.VERIFY_OUTCOME, launch=1)


def verify_outcome_finds_the_export(world: World) -> Act:
    trained(world)
    world.put_export(FINAL)
    return state(State.VERIFY_OUTCOME, launch=1)


def export(world: World) -> Act:
    trained(world)
    planned(world)
    return state(State.EXPORT_MODEL, launch=1, export=1, task_token=world.machine.token("T1"))


def export_that_is_refused(world: World) -> Act:
    act = export(world)
    world.sagemaker.refusals = [refuse("ResourceLimitExceeded", "is 0 Instances")] * 9
    return act


def export_after_stop_and_redrive(world: World) -> Act:
    running(world)
    world.store.update(world.store.exports(RUN)[0], stop_reason=StopReason.EXECUTION_STOPPED)
    world.machine.abandon()
    world.sagemaker.end(JOB, "Stopped")
    return state(State.EXPORT_MODEL, launch=1, export=1, task_token=world.machine.token("T2"))


def verify_a_whole_export(world: World) -> Act:
    running(world)
    world.sagemaker.end(JOB, "Completed")
    world.put_export(FINAL)
    return state(State.VERIFY_EXPORT, launch=1, export=1)


def verify_a_failed_export(world: World, max_attempts: int = 3) -> Act:
    running(world, max_attempts)
    world.sagemaker.end(JOB, "Failed", reason="InternalServerError: We lost it.")
    error = {"Error": "JobFailed", "Cause": "x"}
    return state(State.VERIFY_EXPORT, launch=1, export=1, error=error)


def verify_the_last_failed_export(world: World) -> Act:
    return verify_a_failed_export(world, max_attempts=1)


def register(world: World) -> Act:
    trained(world, export_uri=world.put_export(FINAL))
    return state(State.REGISTER_MODEL, launch=1)


def register_refused(world: World) -> Act:
    act = register(world)
    world.sagemaker.model_refusals = [refuse("ValidationException", "no such group")] * 9
    return act


def finish_with_all(world: World) -> Act:
    trained(world, export_uri="s3://x/y", model_package_arn="arn:x")
    return state(State.FINISH, launch=1)


def give_up_on_the_export(world: World) -> Act:
    trained(world, failure=failed(FailureClass.EXPORT_FAILED))
    return state(State.GIVE_UP, launch=1, export=1, redrive_count=0)


def give_up_redriven_to_export(world: World) -> Act:
    trained(world, failure=failed(FailureClass.EXPORT_FAILED), status=RunStatus.GAVE_UP)
    return state(State.GIVE_UP, launch=1, export=1, redrive_count=1)


def event_of_an_aborted_export(world: World) -> Act:
    running(world)
    world.machine.executions[EXECUTION] = "ABORTED"
    world.machine.abandon()
    return execution_event("ABORTED")


def watch_a_lost_export_event(world: World) -> Act:
    running(world)
    world.sagemaker.end(JOB, "Completed")
    return watch


def watch_an_aborted_export(world: World) -> Act:
    event_of_an_aborted_export(world)
    return watch


def watch_an_export_that_never_will_be(world: World) -> Act:
    trained(world)
    planned(world)
    world.machine.executions[EXECUTION] = "ABORTED"
    world.now += 601
    return watch


SCENARIOS: list[Scenario] = [
    verify_outcome_plans,
    verify_outcome_finds_the_export,
    export,
    export_that_is_refused,
    export_after_stop_and_redrive,
    verify_a_whole_export,
    verify_a_failed_export,
    verify_the_last_failed_export,
    register,
    register_refused,
    finish_with_all,
    give_up_on_the_export,
    give_up_redriven_to_export,
    event_of_an_aborted_export,
    watch_a_lost_export_event,
    watch_an_aborted_export,
    watch_an_export_that_never_will_be,
]


SETTLED_BY_WATCHDOG.add(export_after_stop_and_redrive)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=name_of)
def test_dying_anywhere_ends_the_same(scenario: Scenario) -> None:
    dies_anywhere(scenario)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=name_of)
def test_running_twice_ends_as_once(scenario: Scenario) -> None:
    runs_twice(scenario)
