"""on_execution_event: an execution ended badly. Its job must not go on without it."""

from typing import Any

from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)

from everstep.contracts.events import UNHAPPY_EXECUTION_STATUSES, ExecutionEvent
from everstep.contracts.failures import FailureClass, StopReason
from everstep.contracts.metrics import RUNS
from everstep.contracts.records import Run, RunStatus
from everstep.contracts.run_id import run_id_of
from lambdas.aws.services import Services, logger, services
from lambdas.aws.succession import take_over

_processor = BatchProcessor(event_type=EventType.SQS)
_ENDED = (RunStatus.DONE, RunStatus.GAVE_UP, RunStatus.STOPPED)


def act(event: ExecutionEvent, services: Services) -> bool:
    detail = event.detail
    if detail.status not in UNHAPPY_EXECUTION_STATUSES:
        return False
    run = services.store.find_run(run_id_of(detail.name))
    if run is None or run.execution_arn != detail.execution_arn:
        return False
    if services.machine.is_running(detail.execution_arn):
        return False  # a late event: it was redriven since
    if _moves(run, detail.status, services):
        return False
    launches = services.store.launches(run.run_id)
    exports = services.store.exports(run.run_id)
    for launch in (*launches[-1:], *exports[-1:]):
        if launch.outcome is None:
            services.jobs.stop(launch, StopReason.EXECUTION_STOPPED, f"execution {detail.status}")
    if run.status in _ENDED:
        return bool(launches)
    stopped = detail.status == "ABORTED"
    note = (
        "stopped by a person: everstep stop, or Stop execution in the console"
        if stopped
        else f"execution {detail.status} outside of GiveUp"
    )
    if not stopped:
        services.notifier.send(run, "give_up", note, launches)
    services.store.update(
        run,
        status=RunStatus.STOPPED if stopped else RunStatus.GAVE_UP,
        note=note,
        waiting=None,
        active=False,
    )
    services.figures.ended(RUNS, run, FailureClass.USER_STOP if stopped else FailureClass.UNKNOWN)
    return True


def _moves(run: Run, status: str, services: Services) -> bool:
    """It died in ContinueAsNew, with its successor started: the run is not stopped, it moves."""
    successor = run.successor
    if status == "ABORTED" or successor is None or successor == run.execution_arn:
        return False
    if not services.machine.is_running(successor):
        return False
    take_over(run, successor, services.store)
    return True


def _record(record: Any) -> None:
    event = ExecutionEvent.model_validate_json(record.body)
    logger.info({"execution": event.detail.execution_arn, "acted": act(event, services())})


def handler(event: dict[str, Any], context: Any) -> Any:
    return process_partial_response(
        event=event, record_handler=_record, processor=_processor, context=context
    )
