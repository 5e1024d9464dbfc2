"""A data repository task from its start to its end: looked at in a loop of waits that grow."""

from collections.abc import Callable
from typing import Any, Literal

from botocore.exceptions import ClientError

from everstep.contracts.failures import Action, Failure, FailureClass
from everstep.contracts.payloads import State, Step
from everstep.contracts.records import DataTask, Run
from everstep.policy.data_tasks import LONGEST_HOURS, MOST_TRIES, WAITING, wait_seconds
from everstep.policy.redact import redact
from lambdas.aws.fsx import HOPELESS
from lambdas.aws.services import Services


def carry_out(
    step: Step,
    run: Run,
    field: Literal["preload", "release"],
    request: Callable[[Run, DataTask], dict[str, Any]],
    services: Services,
) -> dict[str, Any] | None:
    """The payload of a wait, or of giving up; None once it is done. Run twice, it is one task."""
    now = services.clock()
    here = State.PREPARE_STORAGE if field == "preload" else State.RELEASE_STORAGE
    known: DataTask | None = getattr(run, field)
    if known is not None and known.given_up and run.failure is not None:
        return step.to(State.GIVE_UP)  # as an earlier invocation found
    task = DataTask(since_epoch=now) if known is None or known.given_up else known
    if task.done:
        return None
    if task is not known:
        _set(run, field, task, services)
    later = step.later(wait_seconds(task, now, services.env.watchdog_period_seconds), here)
    if now - task.since_epoch > LONGEST_HOURS * 3600:
        return _give_up(step, run, field, f"not done in {LONGEST_HOURS} h", services)
    if task.task_id is None:
        try:
            task_id = services.data_tasks.start(request(run, task))
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code not in HOPELESS:
                raise
            said = f"{code}: {error.response['Error'].get('Message', '')}"
            return _give_up(step, run, field, said, services)
        _set(run, field, task.model_copy(update={"task_id": task_id}), services)
        return later
    lifecycle, failure = services.data_tasks.look(task.task_id)
    if lifecycle in WAITING:
        return later
    if lifecycle == "SUCCEEDED":
        _set(run, field, task.model_copy(update={"done": True}), services)
        return None
    if task.number >= MOST_TRIES:
        return _give_up(step, run, field, f"{lifecycle}: {failure}", services)
    again = task.model_copy(update={"number": task.number + 1, "task_id": None})
    _set(run, field, again, services)
    return later


def _set(
    run: Run, field: str, task: DataTask, services: Services, failure: Failure | None = None
) -> None:
    changes: dict[str, Any] = {field: task} | ({"failure": failure} if failure else {})
    services.store.update(run, **changes)


def _give_up(
    step: Step, run: Run, field: Literal["preload", "release"], said: str, services: Services
) -> dict[str, Any]:
    """A person is told; *Redrive* begins it anew. What is trained stays."""
    trained, system = field == "release", run.team.file_system_id
    failure = Failure(
        failure_class=FailureClass.EXPORT_FAILED if trained else FailureClass.BAD_DATA,
        action=Action.DO_NOT_RETRY,
        cause=redact(
            f"the checkpoints could not be exported from {system}: {said}"
            if trained
            else f"the metadata of {run.spec.data.prefix} could not be imported into {system}: "
            f"{said}"
        ),
        rule="data-task",
        hint="training is done, and its checkpoints are on the file system"
        if trained
        else "see the task in the FSx console; data.preload = false goes on without it",
    )
    ended = DataTask(since_epoch=services.clock(), given_up=True)
    _set(run, field, ended, services, failure)
    return step.to(State.GIVE_UP)
