"""CheckQuota: is there room for this run on any of its targets?"""

from typing import Any

from everstep.contracts.failures import Action, Failure, FailureClass
from everstep.contracts.payloads import State, Step
from everstep.policy.quota import Room
from lambdas.aws.room import room_or_increase, seconds_left
from lambdas.aws.services import Services, state_handler


def act(step: Step, services: Services) -> dict[str, Any]:
    run = services.store.run(step.run_id)
    verdict = room_or_increase(run, services)
    if verdict.room is Room.GO:
        return step.to(State.PLAN_ATTEMPT)
    left = seconds_left(run, services.clock())
    if verdict.room is Room.WAIT and left > 0:
        return step.to(
            State.WAIT_FOR_ROOM,
            wait_seconds=left,
            hold_seconds=0,
            image=None,
            message=verdict.reason,
        )
    waited = "" if verdict.room is Room.NEVER else "the wait's deadline has passed: "
    failure = Failure(
        failure_class=FailureClass.QUOTA,
        action=Action.DO_NOT_RETRY,
        cause=f"{waited}{verdict.reason}",
        rule="check-quota",
        hint="ask for an increase in Service Quotas, then redrive the execution; or set "
        "quota.request_increase in the spec",
    )
    services.store.update(run, failure=failure)
    return step.to(State.GIVE_UP)


handler = state_handler(Step, act)
