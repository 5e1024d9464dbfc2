"""Two handlers at once: at each call of the one, the other runs from beginning to end."""

from collections.abc import Callable
from typing import Any

import pytest

from everstep.contracts.failures import StopReason
from everstep.contracts.payloads import State
from everstep.contracts.records import RunStatus, job_name
from tests.lambdas.test_half_runs import (
    EXECUTION,
    JOB,
    RUN,
    Act,
    Scenario,
    attempt,
    event_of_a_completed_job,
    event_of_a_failed_job,
    event_of_an_aborted_execution,
    inspect_a_job_that_ended,
    job_event,
    launch,
    state,
    waiting_run,
    watch,
    watch_a_hang,
    watch_a_lost_event,
    watch_a_lost_event_of_success,
    watch_a_run_that_may_go_on,
)
from tests.lambdas.world import World, a_world


def interleavings(
    first: Scenario, second: Act, check: Callable[[World, str], None], times: int = 1
) -> None:
    with a_world() as world:
        attempt(world, first(world), world.services())
        calls = world.calls
    for call in range(1, calls + 2):
        with a_world() as world:
            act = first(world)

            def other(world: World = world) -> None:
                for _ in range(times):
                    attempt(world, second, world.services())

            attempt(world, act, world.services(meanwhile=(call, other)))
            if call > calls:
                other()
            check(world, f"in between at call {call} of {calls}")


def answered_once(answer: Any) -> Callable[[World, str], None]:
    def check(world: World, where: str) -> None:
        answers = world.machine.answers
        assert [a.get("Error") or a["next"] for a in answers.values()] == [answer], where
        assert world.launch().outcome is not None, where
        assert world.active() == [], where

    return check


@pytest.mark.parametrize("times", [1, 2])
def test_the_watchdog_and_the_event_answer_a_failed_job_once(times: int) -> None:
    check = answered_once("JobFailed")
    interleavings(watch_a_lost_event, job_event("Failed"), check, times)
    interleavings(event_of_a_failed_job, watch, check, times)


def test_the_watchdog_and_the_event_answer_a_completed_job_once() -> None:
    check = answered_once("VerifyOutcome")
    interleavings(watch_a_lost_event_of_success, job_event("Completed"), check)
    interleavings(event_of_a_completed_job, watch, check)


def test_inspectattempts_new_token_is_answered_whoever_settles() -> None:
    def check(world: World, where: str) -> None:
        assert world.machine.answers["T2"]["Error"] == "JobFailed", where

    def ended(world: World) -> Act:
        act = inspect_a_job_that_ended(world)
        world.machine.waiting.discard("T1")
        return act

    interleavings(ended, job_event("Failed"), check)
    interleavings(ended, watch, check)


def test_a_job_that_dies_at_once_is_answered_whoever_sees_it_first() -> None:
    def dies(world: World, services: Any) -> None:
        if JOB in world.sagemaker.jobs:
            if world.sagemaker.jobs[JOB]["TrainingJobStatus"] == "InProgress":
                world.sagemaker.end(JOB, "Failed", reason="ClientError: no such image")
            job_event("Failed")(world, services)

    def check(world: World, where: str) -> None:
        world.watch()
        if "T1" not in world.machine.answers:  # the event came before there was a job
            world.sagemaker.end(JOB, "Failed")
            world.watch()
        assert world.machine.answers["T1"]["Error"] == "JobFailed", where
        assert world.sagemaker.created == [JOB], where

    interleavings(launch, dies, check)


def test_a_job_that_completes_while_the_watchdog_stops_it_has_completed() -> None:
    def completes(world: World, services: Any) -> None:
        if world.sagemaker.jobs[JOB]["TrainingJobStatus"] == "InProgress":
            world.sagemaker.end(JOB, "Completed")
        job_event("Completed")(world, services)

    def check(world: World, where: str) -> None:
        if world.sagemaker.jobs[JOB]["TrainingJobStatus"] == "Completed":
            assert world.machine.answers["T1"]["next"] == "VerifyOutcome", where
        else:
            assert world.sagemaker.stops == [JOB], where
            assert world.launch().stop_reason is StopReason.HANG, where

    interleavings(watch_a_hang, completes, check)


def test_stopping_an_execution_stops_its_job_once_whoever_notices() -> None:
    def check(world: World, where: str) -> None:
        assert world.sagemaker.stops == [JOB], where
        assert world.launch().stop_reason is StopReason.EXECUTION_STOPPED, where
        assert world.run().status is RunStatus.STOPPED, where

    interleavings(event_of_an_aborted_execution, watch, check)


def test_no_job_is_orphaned_by_a_stop_at_any_moment_of_its_making() -> None:
    def aborted(world: World, services: Any) -> None:
        world.machine.executions[EXECUTION] = "ABORTED"
        world.machine.abandon()
        world.now += 601  # so long that the watchdog gives the job up for lost
        world.watch(services)

    def check(world: World, where: str) -> None:
        world.watch()
        for job in world.sagemaker.jobs.values():
            assert job["TrainingJobStatus"] == "Stopping", where

    interleavings(launch, aborted, check)


def test_a_waiting_run_is_woken_once_and_its_wait_counted_once() -> None:
    def goes_on(world: World, services: Any) -> None:
        if "W1" in world.machine.answers:
            world.act(State.PLAN_ATTEMPT, world.machine.answers["W1"], services)

    def check(world: World, where: str) -> None:
        goes_on(world, world.services())
        run = world.run()
        assert (run.status, run.waiting, run.waited_seconds) == (RunStatus.RUNNING, None, 31), where
        assert world.active() == [("my-run", "launch#00001")], where

    interleavings(watch_a_run_that_may_go_on, goes_on, check)
    interleavings(watch_a_run_that_may_go_on, watch, check)


def test_a_newer_wait_survives_the_watchdogs_tidying_of_the_older_one() -> None:
    def waits_again(world: World, services: Any) -> None:
        if "W1" in world.machine.answers and "W2" not in world.machine.waiting:
            world.act(State.PLAN_ATTEMPT, world.machine.answers["W1"], services)
            state(
                State.WAIT_FOR_ROOM,
                task_token=world.machine.token("W2"),
                message="again",
                hold_seconds=100,
            )(world, services)

    def check(world: World, where: str) -> None:
        waits_again(world, world.services())
        waiting = world.run().waiting
        assert waiting is not None, where
        assert waiting.task_token == "W2", where
        assert ("my-run", "run") in world.active(), where

    interleavings(watch_a_run_that_may_go_on, waits_again, check)


def test_two_invocations_of_planattempt_plan_one_launch() -> None:
    def plan(world: World) -> Act:
        world.put_run()
        return state(State.PLAN_ATTEMPT)

    def check(world: World, where: str) -> None:
        assert [x.job_name for x in world.store.launches(RUN)] == [job_name(RUN, 1)], where

    interleavings(plan, state(State.PLAN_ATTEMPT), check)


def test_two_invocations_of_launchattempt_make_one_job() -> None:
    second = state(State.LAUNCH_ATTEMPT, launch=1, task_token="T2")

    def check(world: World, where: str) -> None:
        assert world.sagemaker.created == [JOB], where
        assert world.launch().created, where
        assert world.active() == [(RUN, "launch#00001")], where

    interleavings(launch, second, check)


def test_a_wait_is_not_ended_by_a_watchdog_that_read_it_before_it_began() -> None:
    with a_world() as world:
        waiting_run(world)
        world.now += 1000
        world.watch()
        world.watch()
        assert list(world.machine.answers) == ["W1"]
