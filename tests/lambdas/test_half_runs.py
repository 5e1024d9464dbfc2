"""A handler may die at any call to AWS, before or after the call took effect, and is then run
again: the end is the one of an unbroken run. No second job, no lost token, the same rows."""

from collections.abc import Callable
from typing import Any

import pytest

from everstep.contracts.events import ExecutionEvent, JobEvent
from everstep.contracts.failures import Action, DecisionKind, Failure, FailureClass, StopReason
from everstep.contracts.payloads import State
from everstep.contracts.progress import format_line
from everstep.contracts.records import Outcome, RunStatus, Waiting, job_name
from lambdas.aws.services import Services
from lambdas.on_execution_event.handler import act as on_execution_event
from lambdas.on_job_event.handler import act as on_job_event
from lambdas.quota_report.handler import act as quota_report
from tests.lambdas.world import EXECUTION, RUN, SPEC, TEAM, Crash, World, a_world, refuse

JOB = job_name(RUN, 1)
Act = Callable[[World, Services], Any]
Scenario = Callable[[World], Act]


def state(name: State, **payload: Any) -> Act:
    return lambda world, services: world.act(name, world.payload(**payload), services)


def start(name: str = RUN, given: Any = SPEC) -> Act:
    arn = EXECUTION.removesuffix(RUN) + name
    payload = {
        "execution_arn": arn,
        "execution_name": name,
        "team": TEAM.model_dump(),
        "input": given,
    }
    return lambda world, services: world.act(State.VALIDATE_SPEC, payload, services)


def job_event(status: str) -> Act:
    event = JobEvent.model_validate(
        {
            "detail-type": "SageMaker Training Job State Change",
            "detail": {"TrainingJobName": JOB, "TrainingJobStatus": status},
        }
    )
    return lambda world, services: on_job_event(event, services)


def foreign_event() -> Act:
    event = JobEvent.model_validate(
        {
            "detail-type": "SageMaker Training Job State Change",
            "detail": {"TrainingJobName": "notebook", "TrainingJobStatus": "Failed"},
        }
    )
    return lambda world, services: on_job_event(event, services)


def execution_event(status: str) -> Act:
    event = ExecutionEvent.model_validate(
        {
            "detail-type": "Step Functions Execution Status Change",
            "detail": {"executionArn": EXECUTION, "name": RUN, "status": status},
        }
    )
    return lambda world, services: on_execution_event(event, services)


def watch(world: World, services: Services) -> Any:
    return world.watch(services)


def failed(name: FailureClass, action: Action = Action.RETRY_SAME) -> Failure:
    return Failure(failure_class=name, action=action, cause="the cause", rule="r")


BIG = {"compute": [{"instance_type": "ml.m5.large", "nodes": 5}]}
ENDED = Outcome(status="Failed", secondary_status="Failed", billable_seconds=60)


# --- what a handler finds, and which handler it is ------------------------------------------------


def validate(world: World) -> Act:
    world.put_dataset()
    return start()


def validate_a_bad_spec(world: World) -> Act:
    return start()  # there is no dataset


def validate_a_continuation(world: World) -> Act:
    world.put_dataset()
    world.put_run(status=RunStatus.GAVE_UP, waited_seconds=9.0)
    world.put_launch(3, outcome=ENDED)
    world.machine.executions[EXECUTION] = "FAILED"
    return start(f"{RUN}-c01")


def check_quota_go(world: World) -> Act:
    world.put_run()
    return state(State.CHECK_QUOTA)


def check_quota_wait(world: World) -> Act:
    check_quota_go(world)
    for i in range(4):
        world.sagemaker.put(
            f"other-{i}",
            tags=[],
            ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1},
        )
    return state(State.CHECK_QUOTA)


def check_quota_never(world: World) -> Act:
    world.put_run(spec=BIG)
    return state(State.CHECK_QUOTA)


def wait_for_room(world: World) -> Act:
    world.put_run()
    token = world.machine.token("W1")
    return state(State.WAIT_FOR_ROOM, task_token=token, message="no room", wait_seconds=99)


def plan(world: World) -> Act:
    world.put_run()
    world.put_checkpoint(10)
    return state(State.PLAN_ATTEMPT)


def plan_after_a_wait(world: World) -> Act:
    waiting = Waiting(reason="r", task_token="W1", since_epoch=world.now - 60, step=world.payload())
    run = world.put_run(status=RunStatus.WAITING, waiting=waiting)
    world.store.update(run, active=True)
    return state(State.PLAN_ATTEMPT)


def launch(world: World) -> Act:
    world.put_run()
    world.put_launch()
    return state(State.LAUNCH_ATTEMPT, launch=1, task_token=world.machine.token("T1"))


def launch_after_a_former_job(world: World) -> Act:
    world.put_run()
    world.put_job(1, token="T0")
    world.machine.abandon()
    world.sagemaker.end(JOB, "Failed")
    world.put_launch(2)
    return state(State.LAUNCH_ATTEMPT, launch=2, task_token=world.machine.token("T1"))


def launch_that_is_refused(world: World) -> Act:
    # For as long as it takes: the account's quota does not change between two tries.
    world.sagemaker.refusals = [refuse("ResourceLimitExceeded", "is 0 Instances")] * 9
    return launch(world)


def launch_after_stop_and_redrive(world: World) -> Act:
    world.put_run()
    world.put_job(1, token="T0")
    world.store.update(world.launch(), stop_reason=StopReason.EXECUTION_STOPPED)
    world.machine.abandon()
    world.sagemaker.end(JOB, "Stopped")
    return state(State.LAUNCH_ATTEMPT, launch=1, task_token=world.machine.token("T1"))


def running(world: World, **spec: Any) -> None:
    world.put_run(spec=spec)
    world.put_job()
    world.sagemaker.move(JOB, "Training")
    world.log(JOB, format_line("step", step=5))


def inspect(world: World) -> Act:
    running(world)
    return state(State.INSPECT_ATTEMPT, launch=1, task_token=world.machine.token("T2"))


def inspect_a_hang(world: World) -> Act:
    act = inspect(world)
    world.now += 901
    return act


def inspect_a_job_that_ended(world: World) -> Act:
    act = inspect(world)
    world.sagemaker.end(JOB, "Failed", reason="AlgorithmError: x")
    return act


def classify(world: World) -> Act:
    running(world)
    world.sagemaker.end(JOB, "Failed", reason="AlgorithmError: x")
    world.put_failure_file(1)
    world.put_checkpoint(5)
    return state(State.CLASSIFY, launch=1, error={"Error": "JobFailed", "Cause": "x"})


def classify_a_job_that_was_never_made(world: World) -> Act:
    world.put_run()
    world.put_launch()
    error = {"Error": "JobMissing", "Cause": '{"errorMessage": "my-run-00001 does not exist"}'}
    return state(State.CLASSIFY, launch=1, error=error)


def deciding(name: FailureClass, action: Action = Action.RETRY_SAME) -> Scenario:
    def scenario(world: World) -> Act:
        world.put_run()
        world.put_launch(outcome=ENDED, failure=failed(name, action), committed_step=5)
        return state(State.DECIDE, launch=1)

    return scenario


def verify(world: World) -> Act:
    running(world)
    world.sagemaker.end(JOB, "Completed")
    world.put_checkpoint(100, final=True)
    return state(State.VERIFY_OUTCOME, launch=1)


def verify_an_early_end(world: World) -> Act:
    running(world)
    world.put_checkpoint(50)
    return state(State.VERIFY_OUTCOME, launch=1)


POOL = [{"instance_type": "ml.m5.large", "warm_pool_seconds": 600}]


def finish(world: World) -> Act:
    world.put_run(spec={"compute": POOL}, final_step=100)
    world.put_launch(outcome=Outcome(status="Completed", secondary_status="Completed"))
    return state(State.FINISH, launch=1)


def give_up(world: World) -> Act:
    world.put_run(spec={"compute": POOL})
    decision = world.decided(DecisionKind.GIVE_UP)
    world.put_launch(outcome=ENDED, failure=failed(FailureClass.DIVERGED), decision=decision)
    return state(State.GIVE_UP, launch=1, redrive_count=0)


def give_up_redriven(world: World) -> Act:
    world.put_run(status=RunStatus.GAVE_UP, waited_seconds=5.0)
    world.put_launch(outcome=ENDED, failure=failed(FailureClass.DIVERGED))
    return state(State.GIVE_UP, launch=1, redrive_count=1)


def full(world: World) -> None:
    """An execution whose history is as long as it may be, in the middle of a launch."""
    world.env = world.env.model_copy(update={"continue_after_turns": 3})
    running(world)
    world.store.update(world.launch(), inspections=3)


def inspect_once_too_often(world: World) -> Act:
    full(world)
    return state(State.INSPECT_ATTEMPT, launch=1, task_token=world.machine.token("T2"))


def decide_once_too_often(world: World) -> Act:
    act = deciding(FailureClass.HANG)(world)
    world.env = world.env.model_copy(update={"continue_after_turns": 1})
    return act


def continue_as_new(world: World) -> Act:
    full(world)
    return state(State.CONTINUE_AS_NEW, launch=1, execution_input=SPEC)


def continue_as_new_where_names_are_burnt(world: World) -> Act:
    act = continue_as_new(world)
    world.machine.executions[f"{EXECUTION}-c01"] = "FAILED"
    world.machine.executions[f"{EXECUTION}-c02"] = "SUCCEEDED"
    return act


def validate_the_successor(world: World) -> Act:
    full(world)
    world.store.update(world.run(), successor=f"{EXECUTION}-c01")
    world.machine.executions[f"{EXECUTION}-c01"] = "RUNNING"
    return start(f"{RUN}-c01")


def event_of_an_execution_that_died_while_it_moved(world: World) -> Act:
    validate_the_successor(world)
    world.machine.executions[EXECUTION] = "FAILED"
    return execution_event("FAILED")


def plan_without_money(world: World) -> Act:
    world.put_run(spec={"budget": {"max_gpu_hours": 1}})
    world.put_launch(1, outcome=ENDED.model_copy(update={"billable_seconds": 3600}))
    return state(State.PLAN_ATTEMPT, launch=1)


def classify_a_job_that_runs(world: World) -> Act:
    running(world)
    return state(State.CLASSIFY, launch=1, error={"Error": "Weird", "Cause": "x"}, rounds=2)


def decide_on_a_host_fault_with_a_pool(world: World) -> Act:
    world.put_run(spec={"compute": POOL})
    world.put_launch(outcome=ENDED, failure=failed(FailureClass.INFRASTRUCTURE), committed_step=5)
    return state(State.DECIDE, launch=1)


def watch_a_job_at_its_budget(world: World) -> Act:
    running(world, budget={"max_gpu_hours": 0.5})
    world.now += 1800
    world.log(JOB, format_line("step", step=9))
    return watch


def watch_a_job_near_its_budget(world: World) -> Act:
    running(world, budget={"max_gpu_hours": 0.5})
    world.now += 1500
    world.log(JOB, format_line("step", step=9))
    return watch


def watch_a_straggler(world: World) -> Act:
    running(world)
    for _ in range(5):
        world.now += 10
        world.log(JOB, format_line("straggler", rank=3, ratio=1.7))
    return watch


def watch_idle_gpus(world: World) -> Act:
    world.put_run(spec={"compute": [{"instance_type": "ml.g5.2xlarge"}]})
    world.put_job()
    world.store.update(world.launch(), instance_type="ml.g5.2xlarge")
    world.sagemaker.move(JOB, "Training")
    world.log(JOB, format_line("step", step=5))
    world.watch()
    world.now += 1860
    world.log(JOB, format_line("step", step=9))
    world.metrics.busy[f"{JOB}/algo-1"] = 0.0
    return watch


def event_of_a_failed_job(world: World) -> Act:
    running(world)
    world.sagemaker.end(JOB, "Failed", reason="AlgorithmError: x")
    return job_event("Failed")


def event_of_a_completed_job(world: World) -> Act:
    running(world)
    world.sagemaker.end(JOB, "Completed")
    return job_event("Completed")


def event_of_an_aborted_execution(world: World) -> Act:
    running(world)
    world.machine.executions[EXECUTION] = "ABORTED"
    world.machine.abandon()
    return execution_event("ABORTED")


def event_of_a_failed_execution(world: World) -> Act:
    event_of_an_aborted_execution(world)
    world.machine.executions[EXECUTION] = "FAILED"
    return execution_event("FAILED")


def watch_a_healthy_job(world: World) -> Act:
    running(world)
    return watch


def watch_a_hang(world: World) -> Act:
    running(world)
    world.now += 901
    return watch


def watch_a_lost_event(world: World) -> Act:
    running(world)
    world.sagemaker.end(JOB, "Failed", reason="AlgorithmError: x")
    return watch


def watch_a_lost_event_of_success(world: World) -> Act:
    running(world)
    world.sagemaker.end(JOB, "Completed")
    return watch


def watch_an_aborted_execution(world: World) -> Act:
    event_of_an_aborted_execution(world)
    return watch


def watch_a_job_that_never_will_be(world: World) -> Act:
    world.put_run()
    world.put_launch()
    world.machine.executions[EXECUTION] = "ABORTED"
    world.now += 601
    return watch


def waiting_run(world: World) -> None:
    world.put_run()
    token = world.machine.token("W1")
    world.act(State.WAIT_FOR_ROOM, world.payload(task_token=token, message="no room"))
    world.now += 31


def watch_a_run_that_may_go_on(world: World) -> Act:
    waiting_run(world)
    return watch


def watch_a_waiting_run_that_was_aborted(world: World) -> Act:
    waiting_run(world)
    world.machine.executions[EXECUTION] = "ABORTED"
    world.machine.abandon()
    return watch


def check_quota_asks(world: World) -> Act:
    world.put_run(spec={**BIG, "quota": {"request_increase": True}})
    return state(State.CHECK_QUOTA)


def watch_an_increase_that_was_approved(world: World) -> Act:
    check_quota_asks(world)(world, world.services())
    world.act(State.WAIT_FOR_ROOM, world.payload(task_token=world.machine.token("W1")))
    world.quotas.approve()
    world.now += 301
    return watch


def watch_an_increase_that_was_denied(world: World) -> Act:
    act = watch_an_increase_that_was_approved(world)
    world.quotas.values[world.quotas.requests[0]["QuotaName"]] = 4.0
    world.quotas.requests[0]["Status"] = "DENIED"
    return act


def event_of_a_foreign_job(world: World) -> Act:
    world.put_foreign()
    return foreign_event()


def event_of_a_foreign_job_that_is_refused(world: World) -> Act:
    world.put_foreign(TuningJobArn="arn:aws:sagemaker:us-east-1:123456789012:tuning-job/t")
    return foreign_event()


def validate_an_adoption(world: World) -> Act:
    world.put_foreign()
    return start(given={"adopt": {"job": "notebook"}})


def launch_of_an_adopted_job(world: World) -> Act:
    validate_an_adoption(world)(world, world.services())
    world.put_launch(2)
    return state(State.LAUNCH_ATTEMPT, launch=2, task_token=world.machine.token("T1"))


def report(world: World) -> Act:
    """Silent: nothing is short, nothing was asked for."""
    wait_for_room(world)
    return lambda world, services: quota_report(services)


def report_what_is_short(world: World) -> Act:
    check_quota_asks(world)(world, world.services())
    return lambda world, services: quota_report(services)


SCENARIOS: list[Scenario] = [
    report,
    check_quota_asks,
    watch_an_increase_that_was_approved,
    watch_an_increase_that_was_denied,
    event_of_a_foreign_job,
    event_of_a_foreign_job_that_is_refused,
    validate_an_adoption,
    launch_of_an_adopted_job,
    validate,
    validate_a_bad_spec,
    validate_a_continuation,
    check_quota_go,
    check_quota_wait,
    check_quota_never,
    wait_for_room,
    plan,
    plan_after_a_wait,
    launch,
    launch_after_a_former_job,
    launch_that_is_refused,
    launch_after_stop_and_redrive,
    inspect,
    inspect_a_hang,
    inspect_a_job_that_ended,
    classify,
    classify_a_job_that_was_never_made,
    deciding(FailureClass.USER_CODE),
    deciding(FailureClass.CAPACITY),
    deciding(FailureClass.QUOTA),
    deciding(FailureClass.DIVERGED, Action.DO_NOT_RETRY),
    deciding(FailureClass.BUDGET, Action.DO_NOT_RETRY),
    inspect_once_too_often,
    decide_once_too_often,
    decide_on_a_host_fault_with_a_pool,
    continue_as_new,
    continue_as_new_where_names_are_burnt,
    validate_the_successor,
    event_of_an_execution_that_died_while_it_moved,
    plan_without_money,
    classify_a_job_that_runs,
    watch_a_job_at_its_budget,
    watch_a_job_near_its_budget,
    watch_a_straggler,
    watch_idle_gpus,
    verify,
    verify_an_early_end,
    finish,
    give_up,
    give_up_redriven,
    event_of_a_failed_job,
    event_of_a_completed_job,
    event_of_an_aborted_execution,
    event_of_a_failed_execution,
    watch_a_healthy_job,
    watch_a_hang,
    watch_a_lost_event,
    watch_a_lost_event_of_success,
    watch_an_aborted_execution,
    watch_a_job_that_never_will_be,
    watch_a_run_that_may_go_on,
    watch_a_waiting_run_that_was_aborted,
]


SETTLED_BY_WATCHDOG = {launch_after_a_former_job, launch_after_stop_and_redrive}
"""What a half-run leaves of a *former* launch, the next pass of the watchdog tidies up."""


def end(world: World, scenario: Scenario) -> dict[str, Any]:
    if scenario in SETTLED_BY_WATCHDOG:
        world.watch()
    return world.snapshot()


def attempt(world: World, act: Act, services: Services) -> Any:
    """What the handler returned, or the name of what it raised: the state machine sees either."""
    try:
        return act(world, services)
    except Crash:
        return Crash
    except Exception as error:  # noqa: BLE001 - an answer, like GiveUp's
        return type(error).__name__


def name_of(scenario: Scenario) -> str:
    return scenario.__name__


@pytest.mark.parametrize("scenario", SCENARIOS, ids=name_of)
def test_a_handler_that_dies_at_any_call_and_runs_again_ends_the_same(scenario: Scenario) -> None:
    dies_anywhere(scenario)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=name_of)
def test_a_handler_that_is_run_twice_ends_as_after_one_run(scenario: Scenario) -> None:
    runs_twice(scenario)


def test_a_report_that_dies_is_made_again() -> None:
    """Twice where it dies after it was sent: a second day's says the same."""
    dies_anywhere(report_what_is_short)


def dies_anywhere(scenario: Scenario) -> None:
    with a_world() as world:
        act = scenario(world)
        answer = attempt(world, act, world.services())
        calls, wanted = world.calls, end(world, scenario)
        messages = len(world.messages())
    assert calls
    for call in range(1, calls + 1):
        for lost in (True, False):
            with a_world() as world:
                act = scenario(world)
                assert attempt(world, act, world.services(call, lost=lost)) is Crash
                again = attempt(world, act, world.services())
                where = f"died {'before' if lost else 'after'} call {call} of {calls}"
                assert end(world, scenario) == wanted, where
                assert again == answer or act is watch or "event" in name_of(scenario), where
                assert len(world.sagemaker.created) <= 1, where
                assert len(world.messages()) <= messages + 1, where


def runs_twice(scenario: Scenario) -> None:
    with a_world() as world:
        act = scenario(world)
        attempt(world, act, world.services())
        once, messages = world.snapshot(), len(world.messages())
        attempt(world, act, world.services())
        assert world.snapshot() == once
        assert len(world.messages()) == messages


@pytest.mark.parametrize("scenario", [launch, launch_after_a_former_job, inspect], ids=name_of)
def test_a_retried_state_has_a_new_token_and_only_that_one_is_answered(scenario: Scenario) -> None:
    with a_world() as world:
        attempt(world, scenario(world), world.services())
        calls = world.calls
    for call in range(1, calls + 1):
        with a_world() as world:
            attempt(world, scenario(world), world.services(call))
            world.machine.abandon()
            number = world.store.launches(RUN)[-1].launch
            where = State.INSPECT_ATTEMPT if scenario is inspect else State.LAUNCH_ATTEMPT
            again = state(where, launch=number, task_token=world.machine.token("NEW"))
            attempt(world, again, world.services())
            assert world.launch(number).task_token == "NEW"
            world.sagemaker.end(job_name(RUN, number), "Failed")
            world.watch()
            assert world.machine.answers["NEW"]["Error"] == "JobFailed"
            assert len(world.sagemaker.created) <= 1
