"""write_report: an execution ended. Its run's report is written beside the run's output.

An event's handler and no state: whatever becomes of the report, the run's end stands.
"""

from typing import Any

from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)

from everstep.contracts.events import ENDED_EXECUTION_STATUSES, ExecutionEvent
from everstep.contracts.records import Run, RunStatus
from everstep.contracts.run_id import run_id_of
from everstep.policy.job_request import report_uri
from everstep.report.build import report
from everstep.report.page import page
from everstep.report.steps import step_lines
from lambdas.aws.purse import emit_whole
from lambdas.aws.services import Services, logger, services

_processor = BatchProcessor(event_type=EventType.SQS)


def act(event: ExecutionEvent, services: Services) -> str | None:
    """Where the report is; None where the execution is no run's last."""
    detail = event.detail
    if detail.status not in ENDED_EXECUTION_STATUSES:
        return None
    found = services.store.find_whole(run_id_of(detail.name))
    if found is None or found.run.execution_arn != detail.execution_arn:
        return None  # a spec that was refused, or a run that goes on as another execution
    run, launches, exports = found
    lines = {
        x.launch: step_lines(services.logs.told(x.job_name, x.planned_epoch)) for x in launches
    }
    now = services.clock()
    figures = report(
        _ended(run, detail.status),
        launches,
        exports,
        lines,
        now=now,
        ended=now if detail.stopped_epoch is None else detail.stopped_epoch,
        prices_usd=services.env.prices_usd,
        runbook_url=services.env.runbook_url,
    )
    uri = report_uri(run)
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    services.client("s3").put_object(
        Bucket=bucket,
        Key=key,
        Body=page(figures).encode(),
        ContentType="text/html; charset=utf-8",
    )
    emit_whole(run, figures.spend, figures.goodput_ratio, figures.ended_epoch, services)
    return uri


def _ended(run: Run, status: str) -> Run:
    """on_execution_event writes this down too, perhaps a moment later."""
    if run.ended:
        return run
    ending = RunStatus.STOPPED if status == "ABORTED" else RunStatus.GAVE_UP
    return run.model_copy(update={"status": ending, "note": f"execution {status}"})


def _record(record: Any) -> None:
    event = ExecutionEvent.model_validate_json(record.body)
    logger.info({"execution": event.detail.execution_arn, "report": act(event, services())})


def handler(event: dict[str, Any], context: Any) -> Any:
    return process_partial_response(
        event=event, record_handler=_record, processor=_processor, context=context
    )
