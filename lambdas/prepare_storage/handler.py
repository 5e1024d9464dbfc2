"""PrepareStorage: the dataset's newest metadata on the file system, before hosts are paid for."""

from typing import Any

from everstep.contracts.payloads import State, Step
from everstep.policy.data_tasks import import_request
from lambdas.aws.data_tasks import carry_out
from lambdas.aws.services import Services, state_handler


def act(step: Step, services: Services) -> dict[str, Any]:
    run = services.store.run(step.run_id)
    waits = carry_out(step, run, "preload", import_request, services)
    return waits or step.to(State.PLAN_ATTEMPT)


handler = state_handler(Step, act)
