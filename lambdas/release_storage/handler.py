"""ReleaseStorage: the checkpoints of a finished run go from the file system to S3."""

from typing import Any

from everstep.contracts.payloads import State, Step
from everstep.policy.data_tasks import export_request
from lambdas.aws.data_tasks import carry_out
from lambdas.aws.services import Services, state_handler


def act(step: Step, services: Services) -> dict[str, Any]:
    run = services.store.run(step.run_id)
    waits = carry_out(step, run, "release", export_request, services)
    return waits or step.to(State.FINISH)


handler = state_handler(Step, act)
