"""SageMaker training jobs: make, look, stop, and settle what has ended."""

from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import ClientError
from pydantic import BaseModel, Field

from everstep.contracts.events import TAG_EXECUTION, TERMINAL_JOB_STATUSES
from everstep.contracts.failures import StopReason
from everstep.contracts.payloads import State, Step
from everstep.contracts.records import Launch, Outcome
from everstep.policy.redact import redact
from lambdas.aws.machine import Machine
from lambdas.aws.store import Store

NOT_CREATED = "NotCreated"


class Job(BaseModel):
    """What DescribeTrainingJob said. Times are epoch seconds."""

    arn: str
    status: str
    secondary_status: str
    secondary_since: float
    created_epoch: float
    outcome: Outcome
    metrics: dict[str, float] = Field(default_factory=dict)
    """The last value of each, as SageMaker read them from the log."""

    @property
    def terminal(self) -> bool:
        return self.status in TERMINAL_JOB_STATUSES


class LaunchRefused(Exception):
    """CreateTrainingJob said no; the outcome is recorded, the state machine classifies it."""


class Jobs:
    def __init__(
        self, client: Any, store: Store, machine: Machine, clock: Callable[[], float]
    ) -> None:
        self._client, self._store, self._machine, self._clock = client, store, machine, clock

    def describe(self, name: str) -> Job | None:
        """None when there is no such job."""
        answer = self.described(name)
        return None if answer is None else job_of(answer)

    def of(self, launch: Launch) -> Job | None:
        """The launch's own job. Until it is known to be made, a job of its name may be another's,
        which is never settled and never stopped: the tag tells."""
        job = self.describe(launch.job_name)
        if job is None or launch.created or self._is_ours(job, launch):
            return job
        return None

    def described(self, name: str) -> dict[str, Any] | None:
        """DescribeTrainingJob's whole answer."""
        try:
            return dict(self._client.describe_training_job(TrainingJobName=name))
        except ClientError as error:
            if _is_missing(error):
                return None
            raise

    def tags(self, arn: str) -> dict[str, str]:
        pages = self._client.get_paginator("list_tags").paginate(ResourceArn=arn)
        return {tag["Key"]: tag["Value"] for page in pages for tag in page["Tags"]}

    def create(self, launch: Launch, request: dict[str, Any]) -> bool:
        """Make the job; False where an earlier invocation made it. Raises LaunchRefused."""
        try:
            self._client.create_training_job(**request)
            return True
        except ClientError as error:
            code = error.response["Error"]["Code"]
            # Whatever it says: an earlier invocation may have made it, and died before saying so.
            if self.of(launch) is not None:
                return False
            reason = redact(f"{code}: {error.response['Error'].get('Message', '')}")
            outcome = Outcome(status=NOT_CREATED, secondary_status=code, failure_reason=reason)
            now = self._clock()
            self._store.update(
                launch, outcome=outcome, settled_epoch=now, absent=["outcome"], active=False
            )
            raise LaunchRefused(reason) from error

    def stop(self, launch: Launch, reason: StopReason, detail: str | None = None) -> None:
        """Say why first, then stop: whoever sees the job end must be able to know. The first reason
        stays; stopping twice is harmless."""
        self._store.update(launch, stop_reason=reason, stop_detail=detail, absent=["stop_reason"])
        if not launch.created and self.of(launch) is None:
            return  # if it is made after all, the watchdog finds the reason
        try:
            self._client.stop_training_job(TrainingJobName=launch.job_name)
        except ClientError as error:
            # Already ended, or never made: settling sees which.
            if error.response["Error"]["Code"] != "ValidationException" and not _is_missing(error):
                raise

    def settle(self, launch: Launch, job: Job) -> bool:
        """If the job has ended: record the outcome once, answer the token. Safe to run any number
        of times, by any handler, in any order. The watchdog looks until all of it is done."""
        if not job.terminal:
            return False
        # The row as it is now: a later invocation of LaunchAttempt may have stored a newer token.
        launch = self._store.once(launch, "outcome", job.outcome, settled_epoch=self._clock())
        if launch.task_token is not None:
            self._answer(launch, launch.task_token, job)
        self._store.update(launch, active=False)
        return True

    def _answer(self, launch: Launch, token: str, job: Job) -> None:
        if job.status == "Completed":
            step = Step(run_id=launch.run_id, execution_arn=launch.execution_arn)
            plan = launch.export
            after = (
                step.to(State.VERIFY_EXPORT, launch=plan.after_launch, export=launch.launch)
                if plan
                else step.to(State.VERIFY_OUTCOME, launch=launch.launch)
            )
            self._machine.succeed(token, after)
        else:
            cause = job.outcome.failure_reason or job.secondary_status
            self._machine.fail(token, f"Job{job.status}", cause)

    def end_warm_pool(self, name: str) -> bool:
        """Stop paying for kept machines. False when no pool was kept for this job."""
        try:
            self._client.update_training_job(
                TrainingJobName=name, ResourceConfig={"KeepAlivePeriodInSeconds": 0}
            )
        except ClientError as error:
            if error.response["Error"]["Code"] == "ValidationException" or _is_missing(error):
                return False
            raise
        return True

    def _is_ours(self, job: Job, launch: Launch) -> bool:
        return self.tags(job.arn).get(TAG_EXECUTION) == launch.execution_arn


def job_of(answer: Mapping[str, Any]) -> Job:
    """DescribeTrainingJob's answer in our words."""
    transitions = answer.get("SecondaryStatusTransitions") or []
    created = answer["CreationTime"].timestamp()
    ended = answer.get("TrainingEndTime") or answer.get("LastModifiedTime")
    started = answer.get("TrainingStartTime")
    return Job(
        arn=answer["TrainingJobArn"],
        status=answer["TrainingJobStatus"],
        secondary_status=answer["SecondaryStatus"],
        secondary_since=transitions[-1]["StartTime"].timestamp() if transitions else created,
        created_epoch=created,
        metrics={m["MetricName"]: m["Value"] for m in answer.get("FinalMetricDataList") or []},
        outcome=Outcome(
            status=answer["TrainingJobStatus"],
            secondary_status=answer["SecondaryStatus"],
            failure_reason=redact(answer.get("FailureReason") or ""),
            transitions=[t["Status"] for t in transitions],
            message=redact(transitions[-1].get("StatusMessage") or "") if transitions else "",
            started_epoch=started.timestamp() if started else None,
            ended_epoch=ended.timestamp() if ended else None,
            billable_seconds=answer.get("BillableTimeInSeconds") or 0,
            training_seconds=answer.get("TrainingTimeInSeconds"),
        ),
    )


def _is_missing(error: ClientError) -> bool:
    """SageMaker has no error code of its own for a job that does not exist: a ValidationException
    with this message, in every region."""
    details = error.response["Error"]
    return details["Code"] in ("ResourceNotFound", "ResourceNotFoundException") or (
        details["Code"] == "ValidationException"
        and "Requested resource not found" in details.get("Message", "")
    )
