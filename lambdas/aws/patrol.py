"""The watchdog's looks: at a launch, at a run that waits, and at GPUs that may be idle."""

from collections.abc import Iterable
from typing import NamedTuple

from everstep.contracts.events import TERMINAL_JOB_STATUSES
from everstep.contracts.failures import StopReason
from everstep.contracts.instances import INSTANCE_TYPES
from everstep.contracts.payloads import State, Step
from everstep.contracts.records import Launch, Outcome, Run, RunStatus
from everstep.policy.watchdog import idles
from lambdas.aws.jobs import NOT_CREATED
from lambdas.aws.look import known, look
from lambdas.aws.metrics import Question
from lambdas.aws.pinning import is_there
from lambdas.aws.room import end_wait, wakes_to
from lambdas.aws.services import Services

MAKING_SECONDS = 600
"""Longer than any invocation of LaunchAttempt: after this no one makes a planned job any more."""

INCREASE_PERIODS = 5
"""Between two looks at an increase that AWS has not answered: people answer, in hours."""


class Stepping(NamedTuple):
    """A launch on GPUs that says it steps: its metrics are asked for with all others'."""

    run: Run
    launch: Launch


def look_at_launch(run_id: str, item: str, services: Services) -> Stepping | None:
    launch = services.store.job(run_id, item)
    job = services.jobs.of(launch)
    running = services.machine.is_running(launch.execution_arn)
    if job is None:
        # Planned, not made yet. If it never will be, the heartbeat runs out and InspectAttempt sees
        # it; unless the execution was stopped in between, and no one is left to make it.
        if not running and services.clock() - launch.planned_epoch > MAKING_SECONDS:
            never = Outcome(status=NOT_CREATED, secondary_status="")
            services.store.update(
                launch,
                outcome=never,
                settled_epoch=services.clock(),
                stop_reason=StopReason.EXECUTION_STOPPED,
                absent=["outcome"],
                active=False,
            )
        return None
    if services.jobs.settle(launch, job):
        return None
    if not running:
        services.jobs.stop(launch, StopReason.EXECUTION_STOPPED, "its execution is not running")
        return None
    run = services.store.run(run_id)
    verdict = look(run, launch, job, services)
    stop = launch.stop_reason or verdict.stop  # a reason without a stop: someone died in between
    if stop is not None:
        services.jobs.stop(launch, stop, verdict.detail)
    if launch.task_token is not None:
        # A stopping job is waited for too: nothing is launched before it is terminal.
        services.machine.heartbeat(launch.task_token)
    kind = None if launch.export else INSTANCE_TYPES.get(launch.instance_type)
    asked = stop is None and kind is not None and kind.gpus and run.spec.watch.idle is not None
    return Stepping(run, launch) if asked and job.status not in TERMINAL_JOB_STATUSES else None


def stop_idle(stepping: Iterable[Stepping], services: Services) -> None:
    """One question to CloudWatch for all jobs on GPUs that say they step."""
    now = services.clock()
    asked = []
    for run, former in stepping:
        launch = services.store.launch(former.run_id, former.launch)
        if idles(run.spec.watch, known(launch), 0.0, now):  # would be, if its GPUs are
            asked.append(Stepping(run, launch))
    busiest = services.metrics.busiest(
        [Question(x.job_name, x.nodes, run.spec.watch.idle or 0) for run, x in asked], now
    )
    for run, launch in asked:
        verdict = idles(run.spec.watch, known(launch), busiest.get(launch.job_name), now)
        if verdict is not None and verdict.stop is not None:
            services.jobs.stop(launch, verdict.stop, verdict.detail)


def look_at_increase(key: str, services: Services) -> None:
    services.increases.follow(key, services.env.watchdog_period_seconds * INCREASE_PERIODS)


def look_at_waiting(run_id: str, item: str, services: Services) -> None:
    run = services.store.run(run_id)
    waiting = run.waiting
    if waiting is None:
        return
    now = services.clock()
    if not services.machine.is_running(run.execution_arn):
        end_wait(run, services.store, now, RunStatus.STOPPED)
        return
    held = max(waiting.hold_seconds, run.spec.retry.backoff_seconds)
    step = Step.model_validate(waiting.step)
    if now - waiting.since_epoch < held:
        return
    if step.image is None:
        state = wakes_to(run, services)
    else:  # the quotas may have changed in the meantime: CheckQuota first
        state = State.CHECK_QUOTA if is_there(step.image, run, services) else None
    if state is None:
        return
    # Token first: a pass that dies in between wakes the run twice, never not at all.
    services.machine.succeed(waiting.task_token, step.to(state, message=None, image=None))
    end_wait(run, services.store, now)
