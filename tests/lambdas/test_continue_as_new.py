"""A run outlives its executions: the history of one is full, the next goes on with the same run."""

from typing import Any

import pytest

from everstep.contracts.failures import FailureClass
from everstep.contracts.records import RunStatus, job_name
from tests.lambdas.step_functions import Execution, StepFunctions
from tests.lambdas.test_lives import execution_event, job_event
from tests.lambdas.world import EXECUTION, RUN, SPEC, World

LIMIT = 3


@pytest.fixture
def machine(world: World) -> StepFunctions:
    world.env = world.env.model_copy(update={"continue_after_turns": LIMIT})
    world.put_dataset()
    return StepFunctions(world)


def job(number: int) -> str:
    return job_name(RUN, number)


def spec(**changes: Any) -> dict[str, Any]:
    return {**SPEC, "retry": {"max_attempts": 100, "no_progress_limit": 20}, **changes}


def lose_host(machine: StepFunctions, number: int) -> None:
    world = machine.world
    world.put_checkpoint(number, launch=number)
    world.sagemaker.end(job(number), "Failed", reason="InternalServerError: lost")
    job_event(world, job(number), "Failed")
    machine.settle()


def the_running(machine: StepFunctions) -> Execution:
    (one,) = machine.running()
    return one


def test_a_run_of_many_launches_has_many_executions_and_one_history(machine: StepFunctions) -> None:
    world = machine.world
    machine.start(spec())
    for number in range(1, 11):
        lose_host(machine, number)
    assert list(machine.executions) == [
        f"{EXECUTION}{suffix}" for suffix in ("", "-c01", "-c02", "-c03")
    ]
    assert [e.status for e in machine.executions.values()] == ["SUCCEEDED"] * 3 + ["RUNNING"]
    assert world.sagemaker.created == [job(n) for n in range(1, 12)]
    assert world.run().execution_arn == the_running(machine).arn
    assert len(the_running(machine).path) < 60
    world.put_checkpoint(100, launch=11, final=True)
    world.sagemaker.end(job(11), "Completed")
    job_event(world, job(11), "Completed")
    machine.settle()
    assert world.run().status is RunStatus.DONE
    assert len([m for m in world.messages() if "done at step 100" in m]) == 1


def test_limits_count_over_all_executions(machine: StepFunctions) -> None:
    machine.start(spec(retry={"max_attempts": 5}))
    for number in range(1, 6):
        lose_host(machine, number)
    assert not machine.running()
    (last,) = [e for e in machine.executions.values() if e.status == "FAILED"]
    assert (last.name, last.error and last.error["Error"]) == (f"{RUN}-c01", "Infrastructure")
    assert "5 attempts of 5" in machine.world.run().note


def test_a_watchdog_that_is_ill_for_weeks_fills_no_history(machine: StepFunctions) -> None:
    world = machine.world
    machine.start(spec())
    world.sagemaker.move(job(1), "Training")
    for _ in range(12):
        world.now += 10
        the_running(machine).heartbeat_timeout()
        machine.settle()
        world.now += 60
        machine.settle()
    assert len(machine.executions) >= 3
    assert world.sagemaker.created == [job(1)]
    assert world.sagemaker.stops == []
    assert world.launch().execution_arn == the_running(machine).arn
    world.watch()
    assert world.machine.heartbeats[-1] == the_running(machine).token
    world.put_checkpoint(100, final=True)
    world.sagemaker.end(job(1), "Completed")
    world.watch()
    machine.settle()
    assert world.run().status is RunStatus.DONE


def test_a_backoff_or_wait_that_was_decided_is_kept_by_the_next_execution(
    machine: StepFunctions,
) -> None:
    world = machine.world
    machine.start(spec())
    for number in (1, 2):
        lose_host(machine, number)
    world.sagemaker.end(job(3), "Failed", reason="CapacityError: none")
    job_event(world, job(3), "Failed")
    machine.settle()
    assert the_running(machine).name == f"{RUN}-c01"
    wait = world.launch(3).decision.wait_seconds
    assert wait >= 1
    assert len(world.sagemaker.created) == 3
    world.now += wait
    machine.settle()
    assert len(world.sagemaker.created) == 4


def test_the_successor_can_be_stopped_and_redriven(machine: StepFunctions) -> None:
    world = machine.world
    machine.start(spec())
    for number in (1, 2, 3):
        lose_host(machine, number)
    successor = the_running(machine)
    assert successor.name == f"{RUN}-c01"
    successor.stop()
    execution_event(world, successor, "ABORTED")  # type: ignore[arg-type]
    assert world.sagemaker.stops == [job(4)]
    world.sagemaker.end(job(4), "Stopped")
    successor.redrive()
    machine.settle()
    assert world.sagemaker.created[-1] == job(5)
    assert world.run().status is RunStatus.RUNNING


def test_a_late_event_of_the_former_execution_stops_nothing(machine: StepFunctions) -> None:
    world = machine.world
    former = machine.start(spec())
    for number in (1, 2, 3):
        lose_host(machine, number)
    assert not execution_event(world, former, "FAILED")  # type: ignore[arg-type]
    assert world.sagemaker.stops == []


def test_a_name_that_a_person_has_burnt_is_passed_over(machine: StepFunctions) -> None:
    world = machine.world
    machine.start(spec())
    burnt = machine.start(spec(), name=f"{RUN}-c01")
    assert (burnt.status, burnt.path[-1]) == ("FAILED", "RefuseSpec")
    for number in (1, 2, 3):
        lose_host(machine, number)
    assert the_running(machine).name == f"{RUN}-c02"
    assert world.sagemaker.created == [job(n) for n in range(1, 5)]


def test_a_person_may_still_continue_a_run_that_moved_and_gave_up(machine: StepFunctions) -> None:
    world = machine.world
    machine.start(spec(retry={"max_attempts": 4}))
    for number in range(1, 5):
        lose_host(machine, number)
    assert not machine.running()
    again = machine.start(spec(stop={"steps": 200}), name=f"{RUN}-c02")
    assert again.status == "RUNNING"
    assert world.run().spec.stop.steps == 200
    assert world.sagemaker.created[-1] == job(5)


def test_a_state_that_fails_on_a_running_job_waits_longer_each_time(machine: StepFunctions) -> None:
    """A defect of ours, for example: the job is well, InspectAttempt is not."""
    world = machine.world
    world.env = world.env.model_copy(update={"continue_after_turns": 100})
    machine.start(spec())
    world.sagemaker.move(job(1), "Training")
    run = the_running(machine)
    waits: list[float] = []

    def broken(*_: Any, **__: Any) -> Any:
        raise TypeError("a defect")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lambdas.inspect_attempt.handler.look", broken)
        run.heartbeat_timeout()
        machine.settle()
        for _ in range(6):
            assert run.until is not None
            waits.append(run.until - world.now)
            world.now = run.until
            machine.settle()
    assert waits == [60, 120, 240, 480, 960, 1800]
    world.now = run.until or world.now
    machine.settle()
    world.put_checkpoint(100, final=True)
    world.sagemaker.end(job(1), "Completed")
    job_event(world, job(1), "Completed")
    machine.settle()
    assert world.run().status is RunStatus.DONE
    assert FailureClass.UNKNOWN not in [x.failure for x in world.store.launches(RUN)]
