"""watchdog: each minute, a look at what may still change by itself. One ill run hides no other."""

from typing import Any

from everstep.contracts.failures import StopReason
from everstep.contracts.payloads import State, Step
from everstep.contracts.records import Outcome, RunStatus
from everstep.policy.quota import Room
from lambdas.aws.jobs import NOT_CREATED
from lambdas.aws.look import look
from lambdas.aws.room import end_wait, room_for
from lambdas.aws.services import Services, logger, services

MAKING_SECONDS = 600
"""Longer than any invocation of LaunchAttempt: after this no one makes a planned job any more."""


class WatchdogErrors(Exception):
    """Raised after the pass, so that the alarm on this function's errors sees it."""


def act(services: Services) -> dict[str, int]:
    failed, counts = [], {"launches": 0, "waiting": 0}
    for kind, one in (("launch", _launch), ("waiting", _waiting)):
        for run_id, item in services.store.active(kind):  # type: ignore[arg-type]
            counts["launches" if kind == "launch" else kind] += 1
            try:
                one(run_id, item, services)
            except Exception as error:  # noqa: BLE001 - raised below; the others still get a look
                logger.exception("one run could not be looked at", run_id=run_id)
                failed.append(f"{run_id} {item}: {error!r}")
    if failed:
        raise WatchdogErrors("; ".join(failed))
    return counts


def _launch(run_id: str, item: str, services: Services) -> None:
    launch = services.store.job(run_id, item)
    job = services.jobs.describe(launch.job_name)
    running = services.machine.is_running(launch.execution_arn)
    if job is None:
        # Planned, not made yet. If it never will be, the heartbeat runs out and InspectAttempt sees
        # it; unless the execution was stopped in between, and no one is left to make it.
        if not running and services.clock() - launch.planned_epoch > MAKING_SECONDS:
            never = Outcome(status=NOT_CREATED, secondary_status="")
            services.store.update(
                launch,
                outcome=never,
                stop_reason=StopReason.EXECUTION_STOPPED,
                absent=["outcome"],
                active=False,
            )
        return
    if services.jobs.settle(launch, job):
        return
    if not running:
        services.jobs.stop(launch, StopReason.EXECUTION_STOPPED, "its execution is not running")
        return
    verdict = look(services.store.run(run_id), launch, job, services)
    stop = launch.stop_reason or verdict.stop  # a reason without a stop: someone died in between
    if stop is not None:
        services.jobs.stop(launch, stop, verdict.detail)
    if launch.task_token is not None:
        # A stopping job is waited for too: nothing is launched before it is terminal.
        services.machine.heartbeat(launch.task_token)


def _waiting(run_id: str, item: str, services: Services) -> None:
    run = services.store.run(run_id)
    waiting = run.waiting
    if waiting is None:
        return
    now = services.clock()
    if not services.machine.is_running(run.execution_arn):
        end_wait(run, services.store, now, RunStatus.STOPPED)
        return
    held = max(waiting.hold_seconds, run.spec.retry.backoff_seconds)
    if now - waiting.since_epoch < held or room_for(run, services.quotas).room is not Room.GO:
        return
    # Token first: a pass that dies in between wakes the run twice, never not at all.
    step = Step.model_validate(waiting.step)
    services.machine.succeed(waiting.task_token, step.to(State.PLAN_ATTEMPT, message=None))
    end_wait(run, services.store, now)


def handler(event: dict[str, Any], context: Any) -> dict[str, int]:
    counts = act(services())
    logger.info(counts)
    return counts
