"""RegisterModel: one version a run and checkpoint in the team's model package group."""

from typing import Any

from botocore.exceptions import ClientError

from everstep.contracts.payloads import State, Step
from everstep.policy.model_package import model_package
from lambdas.aws.exports import give_up_export
from lambdas.aws.services import Services, state_handler

_HOPELESS = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "ConflictException",
        "ResourceLimitExceeded",
        "ResourceNotFound",
        "ValidationException",
    }
)
"""Asking again changes nothing; a person must. The rest is tried again by Step Functions."""


def act(step: Step, services: Services) -> dict[str, Any]:
    run = services.store.run(step.run_id)
    export = services.checkpoints.export(run.export_uri) if run.export_uri else None
    if run.export_uri is None or export is None:
        return step.to(State.VERIFY_OUTCOME)  # gone in between: made again
    group = run.team.model_package_group
    if group is None:
        cause = "not registered: the team's state machine knows no model package group"
        return give_up_export(step, run, cause, services)
    job = services.jobs.describe(services.store.launch(step.run_id, step.launch).job_name)
    request = model_package(run, group, run.export_uri, export, job.metrics if job else {})
    try:
        arn = services.models.register(request, run.created_epoch)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code not in _HOPELESS:
            raise
        said = error.response["Error"].get("Message", "")
        return give_up_export(step, run, f"not registered: {code}: {said}", services)
    services.store.update(run, model_package_arn=arn)
    return step.to(State.FINISH)


handler = state_handler(Step, act)
