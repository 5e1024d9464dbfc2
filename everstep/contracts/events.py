"""The events that start our handlers, as AWS publishes them; only the fields we read.

Source: EventBridge's documented samples for SageMaker and Step Functions. Unknown fields and
unknown statuses are kept: an unknown status is never terminal.
"""

from pydantic import BaseModel, ConfigDict, Field

JOB_EVENT = "SageMaker Training Job State Change"
EXECUTION_EVENT = "Step Functions Execution Status Change"

TERMINAL_JOB_STATUSES = frozenset({"Completed", "Failed", "Stopped"})
UNHAPPY_EXECUTION_STATUSES = frozenset({"ABORTED", "FAILED", "TIMED_OUT"})
ENDED_EXECUTION_STATUSES = UNHAPPY_EXECUTION_STATUSES | {"SUCCEEDED"}

TAG_EXECUTION = "everstep:execution"
TAG_RUN = "everstep:run"
TAG_TEAM = "everstep:team"
TAG_TABLE = "everstep:table"
"""On a file system that a run made: environments of one account each have a table."""

TAG_AUTO_RETRY = "everstep:auto-retry"
"""``true`` on a job made elsewhere: take it over when it fails. Never on a job of ours."""
TAG_ADOPTED = "everstep:adopted-from"
TAG_MAX_ATTEMPTS = "everstep:max-attempts"
TAG_LOG_SILENCE = "everstep:log-silence-seconds"


class _Event(BaseModel):
    model_config = ConfigDict(extra="ignore", populate_by_name=True)


class JobDetail(_Event):
    job_name: str = Field(alias="TrainingJobName")
    status: str = Field(alias="TrainingJobStatus")
    secondary_status: str = Field(default="", alias="SecondaryStatus")
    tags: dict[str, str] | None = Field(default=None, alias="Tags")


class JobEvent(_Event):
    detail_type: str = Field(alias="detail-type")
    detail: JobDetail


class ExecutionDetail(_Event):
    execution_arn: str = Field(alias="executionArn")
    name: str
    status: str
    stop_ms: int | None = Field(default=None, alias="stopDate")

    @property
    def stopped_epoch(self) -> float | None:
        return None if self.stop_ms is None else self.stop_ms / 1000


class ExecutionEvent(_Event):
    detail_type: str = Field(alias="detail-type")
    detail: ExecutionDetail
