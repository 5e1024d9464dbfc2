"""on_job_event: a job changed its state, they say. Ask the job itself, then settle, or adopt."""

from typing import Any

from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)

from everstep.contracts.events import TERMINAL_JOB_STATUSES, JobEvent
from everstep.contracts.records import job_row
from lambdas.aws.adoption import offer
from lambdas.aws.services import Services, logger, services

_processor = BatchProcessor(event_type=EventType.SQS)


def act(event: JobEvent, services: Services) -> bool:
    """Late, doubled and out-of-order events do no harm: only the job's own state counts."""
    name = event.detail.job_name
    if event.detail.status not in TERMINAL_JOB_STATUSES:
        return False
    ours = job_row(name)
    launch = services.store.find_job(*ours) if ours else None
    if launch is None:
        return offer(name, event.detail.tags, services)
    job = services.jobs.of(launch)
    return job is not None and services.jobs.settle(launch, job)


def _record(record: Any) -> None:
    event = JobEvent.model_validate_json(record.body)
    logger.info({"job": event.detail.job_name, "acted": act(event, services())})


def handler(event: dict[str, Any], context: Any) -> Any:
    return process_partial_response(
        event=event, record_handler=_record, processor=_processor, context=context
    )
