"""PlanAttempt: the next launch's number, target and checkpoint. Running it twice makes one row."""

from typing import Any

from everstep.contracts.failures import Failure, StopReason
from everstep.contracts.payloads import State, Step
from everstep.contracts.records import Launch, Run, RunStatus, job_name
from everstep.policy.data_tasks import wants_preload
from everstep.policy.ladder import rung_of
from everstep.policy.own_file_system import wants_own
from everstep.policy.training_plan import until_the_plan_ends
from lambdas.aws.marks import newest_mark
from lambdas.aws.pinning import blocked
from lambdas.aws.places import NotYet, choose_place
from lambdas.aws.purse import allowance
from lambdas.aws.room import end_wait
from lambdas.aws.services import Services, state_handler


def act(step: Step, services: Services) -> dict[str, Any]:
    whole = services.store.whole(step.run_id)
    run, launches, former = whole.run, whole.launches, whole.find(step.launch)
    without_image = blocked(run, step, services)
    if without_image is not None:
        return without_image
    if wants_preload(run) or wants_own(run):
        return step.to(State.PREPARE_STORAGE)
    number = step.launch + 1
    wish = former.decision.target if former and former.decision else 0
    place = choose_place(run, wish, services)
    if isinstance(place, NotYet):
        waits = {"wait_seconds": place.wait_seconds, "hold_seconds": place.hold_seconds}
        return step.to(State.WAIT_FOR_ROOM, message=place.reason, **waits)
    if isinstance(place, Failure):
        return _give_up(step, run, place, services)
    target = run.spec.target(place.target)
    limits = allowance(run, [x for x in launches if x.launch < number], target, services)
    if isinstance(limits, Failure):
        return _give_up(step, run, limits, services)
    newest = newest_mark(run, services.checkpoints)
    launch = Launch(
        run_id=run.run_id,
        launch=number,
        job_name=job_name(run.run_id, number),
        execution_arn=step.execution_arn,
        target=place.target,
        subnet=place.subnet,
        instance_type=target.instance_type,
        nodes=target.nodes,
        groups=target.groups,
        resume_checkpoint=newest.checkpoint if newest else None,
        resume_step=newest.step if newest else run.spec.start.step,
        planned_epoch=services.clock(),
        rung=rung_of(former, place.target),
        straggler_stops=sum(x.stop_reason is StopReason.STRAGGLER for x in launches),
        **until_the_plan_ends(limits, place.plan),
    )
    services.store.put_new(launch)
    end_wait(run, services.store, services.clock())
    if (run.status, run.failure, run.note) != (RunStatus.RUNNING, None, None):
        services.store.update(run, status=RunStatus.RUNNING, failure=None, note=None)
    return step.to(
        State.LAUNCH_ATTEMPT,
        launch=number,
        rounds=0,
        heartbeat_seconds=services.env.heartbeat_seconds,
    )


def _give_up(step: Step, run: Run, failure: Failure, services: Services) -> dict[str, Any]:
    services.store.update(run, failure=failure)
    return step.to(State.GIVE_UP)


handler = state_handler(Step, act)
