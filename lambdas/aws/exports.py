"""What follows a verified training result: an export that is planned, or that is there already."""

from typing import Any

from everstep.contracts.exports import ExportManifest
from everstep.contracts.failures import Action, Failure, FailureClass
from everstep.contracts.payloads import State, Step
from everstep.contracts.records import ExportPlan, Launch, Run, export_job_name
from everstep.policy.export import export_dtype, export_uri, volume_gib
from everstep.policy.file_system import subnet_of
from everstep.policy.redact import redact
from lambdas.aws.checkpoints import Committed
from lambdas.aws.services import Services


def after_training(step: Step, run: Run, final: Committed, services: Services) -> dict[str, Any]:
    """Finish, or the export that the spec asks for; made once a checkpoint, whoever comes again."""
    if not run.spec.finish.export:
        return step.to(State.FINISH)
    name = str(final.name)
    uri = export_uri(run, name)
    if whole_export(run, uri, name, services) is not None:
        return after_export(step, run, uri, services)
    tries = services.store.exports(run.run_id)
    last = tries[-1] if tries else None
    if last is not None and last.task_token is None and last.outcome is None:
        # An earlier invocation planned it, and died.
        return _to_export(step, last, services)
    number = last.launch + 1 if last else 1
    plan = ExportPlan(
        checkpoint=name,
        uri=uri,
        volume_gib=volume_gib(final.manifest),
        after_launch=step.launch,
        first=number,
    )
    return plan_export(step, run, number, plan, services)


def plan_export(
    step: Step, run: Run, number: int, plan: ExportPlan, services: Services, wait_seconds: int = 0
) -> dict[str, Any]:
    """The row of one try, made once, and the payload that leads to it."""
    export = Launch(
        run_id=run.run_id,
        launch=number,
        job_name=export_job_name(run.run_id, number),
        execution_arn=step.execution_arn,
        subnet=subnet_of(run),
        instance_type=run.spec.finish.instance_type,
        nodes=1,
        planned_epoch=services.clock(),
        export=plan,
    )
    services.store.put_new(export)
    return _to_export(step, export, services, wait_seconds)


def _to_export(
    step: Step, export: Launch, services: Services, wait_seconds: int = 0
) -> dict[str, Any]:
    step = step.model_copy(
        update={
            "export": export.launch,
            "heartbeat_seconds": services.env.heartbeat_seconds,
            "message": None,
        }
    )
    if wait_seconds:
        return step.later(wait_seconds, State.EXPORT_MODEL)
    return step.to(State.EXPORT_MODEL)


def whole_export(run: Run, uri: str, checkpoint: str, services: Services) -> ExportManifest | None:
    """The export of this checkpoint in the wanted type, if all of it is there."""
    found = services.checkpoints.export(uri)
    wanted = (checkpoint, export_dtype(run.spec))
    return found if found and (found.checkpoint, found.dtype) == wanted else None


def after_export(step: Step, run: Run, uri: str, services: Services) -> dict[str, Any]:
    services.store.update(run, export_uri=uri)
    return step.to(State.REGISTER_MODEL if run.spec.finish.register else State.FINISH)


def give_up_export(step: Step, run: Run, cause: str, services: Services) -> dict[str, Any]:
    """Training's result stands; a person is told, and *Redrive* goes on from it."""
    failure = Failure(
        failure_class=FailureClass.EXPORT_FAILED,
        action=Action.DO_NOT_RETRY,
        cause=redact(cause),
        rule="export",
        hint="mend the cause; training is done and is not repeated",
    )
    services.store.update(run, failure=failure)
    return step.to(State.GIVE_UP)
