"""on_job_event: a job changed its state, they say. Ask the job itself, then settle."""

from typing import Any

from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)

from everstep.contracts.events import TERMINAL_JOB_STATUSES, JobEvent
from everstep.contracts.records import job_row
from lambdas.aws.services import Services, logger, services

_processor = BatchProcessor(event_type=EventType.SQS)


def act(event: JobEvent, services: Services) -> bool:
    """Late, doubled and out-of-order events do no harm: only the job's own state counts."""
    ours = job_row(event.detail.job_name)
    if ours is None or event.detail.status not in TERMINAL_JOB_STATUSES:
        return False
    launch = services.store.find_job(*ours)
    job = services.jobs.describe(event.detail.job_name) if launch else None
    if launch is None or job is None:
        return False
    return services.jobs.settle(launch, job)


def _record(record: Any) -> None:
    event = JobEvent.model_validate_json(record.body)
    logger.info({"job": event.detail.job_name, "settled": act(event, services())})


def handler(event: dict[str, Any], context: Any) -> Any:
    return process_partial_response(
        event=event, record_handler=_record, processor=_processor, context=context
    )
