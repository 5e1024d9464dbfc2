"""PrepareStorage: a file system of the run's own, or the newest metadata on the stack's, before
hosts are paid for."""

from typing import Any

from everstep.contracts.payloads import State, Step
from everstep.policy.data_tasks import import_request, wants_preload
from everstep.policy.own_file_system import wants_own
from lambdas.aws.data_tasks import carry_out
from lambdas.aws.own_lustre import prepare_own
from lambdas.aws.services import Services, state_handler


def act(step: Step, services: Services) -> dict[str, Any]:
    run = services.store.run(step.run_id)
    if wants_own(run):
        waits = prepare_own(step, run, services)
    elif wants_preload(run):
        waits = carry_out(step, run, "preload", import_request, services)
    else:
        waits = None
    return waits or step.to(State.PLAN_ATTEMPT)


handler = state_handler(Step, act)
