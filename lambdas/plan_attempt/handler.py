"""PlanAttempt: the next launch's number, target and checkpoint. Running it twice makes one row."""

from typing import Any

from everstep.contracts.failures import Failure, StopReason
from everstep.contracts.payloads import State, Step
from everstep.contracts.records import Launch, Run, RunStatus, job_name
from everstep.policy.file_system import subnet_of
from everstep.policy.ladder import rung_of
from everstep.policy.quota import Room, judge, needs_of
from lambdas.aws.marks import newest_mark
from lambdas.aws.pinning import blocked
from lambdas.aws.purse import allowance
from lambdas.aws.room import end_wait
from lambdas.aws.services import Services, state_handler


def act(step: Step, services: Services) -> dict[str, Any]:
    run = services.store.run(step.run_id)
    without_image = blocked(run, step, services)
    if without_image is not None:
        return without_image
    number = step.launch + 1
    former = services.store.find_launch(run.run_id, step.launch)
    wish = former.decision.target if former and former.decision else 0
    index = _with_room(run, wish, services)
    target = run.spec.target(index)
    launches = services.store.launches(run.run_id)
    money = allowance(run, [x for x in launches if x.launch < number], target, services)
    if isinstance(money, Failure):
        services.store.update(run, failure=money)
        return step.to(State.GIVE_UP)
    newest = newest_mark(run, services.checkpoints)
    launch = Launch(
        run_id=run.run_id,
        launch=number,
        job_name=job_name(run.run_id, number),
        execution_arn=step.execution_arn,
        target=index,
        subnet=subnet_of(run, target.zone),
        instance_type=target.instance_type,
        nodes=target.nodes,
        groups=target.groups,
        resume_checkpoint=newest.checkpoint if newest else None,
        resume_step=newest.step if newest else run.spec.start.step,
        planned_epoch=services.clock(),
        rung=rung_of(former, index),
        straggler_stops=sum(x.stop_reason is StopReason.STRAGGLER for x in launches),
        **money,
    )
    services.store.put_new(launch)
    end_wait(run, services.store, services.clock())
    services.store.update(run, status=RunStatus.RUNNING, failure=None)
    return step.to(
        State.LAUNCH_ATTEMPT,
        launch=number,
        rounds=0,
        heartbeat_seconds=services.env.heartbeat_seconds,
    )


def _with_room(run: Run, wish: int, services: Services) -> int:
    """The wished target, or the next of the list that the quotas hold now."""
    count = len(run.spec.compute)
    if count == 1:
        return 0
    values, used = services.quotas.values(), services.quotas.in_use(run.run_id)
    order = [(wish + i) % count for i in range(count)]
    for index in order:
        if judge(needs_of(run.spec, run.spec.target(index)), values, used).room is Room.GO:
            return index
    return wish


handler = state_handler(Step, act)
