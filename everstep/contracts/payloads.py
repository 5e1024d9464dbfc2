"""What travels between the states. Small on purpose: everything else is in the runs table.

Every payload carries a schema version: handlers accept the present one and the one before.
"""

import json
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1


class State(StrEnum):
    """States of the machine. The handler of ``CheckQuota`` lives in ``lambdas/check_quota``."""

    VALIDATE_SPEC = "ValidateSpec"
    CHECK_QUOTA = "CheckQuota"
    WAIT_FOR_ROOM = "WaitForRoom"
    PREPARE_STORAGE = "PrepareStorage"
    PLAN_ATTEMPT = "PlanAttempt"
    LAUNCH_ATTEMPT = "LaunchAttempt"
    INSPECT_ATTEMPT = "InspectAttempt"
    CLASSIFY = "Classify"
    DECIDE = "Decide"
    VERIFY_OUTCOME = "VerifyOutcome"
    EXPORT_MODEL = "ExportModel"
    VERIFY_EXPORT = "VerifyExport"
    REGISTER_MODEL = "RegisterModel"
    RELEASE_STORAGE = "ReleaseStorage"
    FINISH = "Finish"
    GIVE_UP = "GiveUp"
    CONTINUE_AS_NEW = "ContinueAsNew"
    # States without a handler.
    NEXT = "Next"
    BACKOFF = "Backoff"
    REFUSE_SPEC = "RefuseSpec"
    DONE = "Done"


HANDLER_STATES = tuple(list(State)[: list(State).index(State.NEXT)])
RULE_HANDLERS = (
    "on_job_event",
    "on_execution_event",
    "watchdog",
    "quota_report",
    "write_report",
)


class Team(BaseModel):
    """Who the state machine belongs to: literals in its definition, never from the input."""

    model_config = ConfigDict(frozen=True)

    name: str
    job_role_arn: str
    data_uri: str
    """``s3://bucket/team`` below which ``spec.data.prefix`` lies."""
    checkpoint_uri: str
    output_uri: str
    image_repository: str
    """Registry host and path that ``spec.trainer.image`` is looked up in."""
    subnets: dict[str, list[str]] = Field(default_factory=dict)
    """Training subnets by Availability Zone."""
    security_groups: list[str] = Field(default_factory=list)
    kms_key_arn: str | None = None
    file_system_id: str | None = None
    file_system_path: str | None = None
    """Mount name and folder below which ``spec.data.prefix`` lies."""
    file_system_checkpoints: str | None = None
    """Mount name and folder of checkpoints, one folder a run. None: none are kept there."""
    file_system_zone: str | None = None
    lustre_group: str | None = None
    """Security group of file systems that runs make for themselves. None: they may not."""
    model_package_group: str | None = None
    remote_debug: bool = False
    """Its job role may open Session Manager's channels: ``service.remote_debug`` can be asked for.
    """
    adopt_job_roles: list[str] = Field(default_factory=list)
    """Roles of jobs made elsewhere that this team's machine may take over."""
    tags: dict[str, str] = Field(default_factory=dict)
    """Of the environment, for cost allocation: every job and file system of a run has them too."""


class Start(BaseModel):
    """What ValidateSpec gets: the execution's raw input beside the machine's own literals."""

    schema_version: int = SCHEMA_VERSION
    execution_arn: str
    execution_name: str
    team: Team
    input: Any = None


class Step(BaseModel):
    """The payload of every other state: a pointer to the run, and where to go."""

    model_config = ConfigDict(extra="ignore")

    schema_version: int = SCHEMA_VERSION
    run_id: str
    execution_arn: str
    launch: int = 0
    """The newest launch made; PlanAttempt makes ``launch + 1``, whichever time it is run."""
    export: int = 0
    """The newest export job planned, once training is done."""
    heartbeat_seconds: int = 300
    wait_seconds: int = 0
    rounds: int = 0
    """Times that Classify sent this launch back to InspectAttempt: each wait is longer."""
    hold_seconds: int = 0
    """For WaitForRoom: the least wait."""
    next: State | None = None
    after: State | None = None
    """For Backoff: where the wait leads. CheckQuota where an older payload does not say."""
    image: str | None = None
    """For WaitForRoom: the image that is waited for. None where quota or capacity is."""
    message: str | None = None
    """For RefuseSpec: the text that a person reads as the execution's cause."""

    def to(self, state: State, **changes: Any) -> dict[str, Any]:
        """The payload that goes on to ``state``."""
        return self.model_copy(update={"next": state, **changes}).model_dump(mode="json")

    def later(self, seconds: int, state: State, **changes: Any) -> dict[str, Any]:
        """The payload that goes on to ``state`` after a wait. No loop may be without one."""
        return self.to(State.BACKOFF, wait_seconds=max(1, seconds), after=state, **changes)


class TokenStep(Step):
    """A state that waits: WaitForRoom, LaunchAttempt, InspectAttempt, ExportModel."""

    task_token: str


class StateError(BaseModel):
    """Step Functions' error output."""

    Error: str = ""
    Cause: str = ""

    @property
    def said(self) -> str:
        """``Error: message``, as SageMaker writes its own reasons. A handler's cause is JSON."""
        try:
            message = json.loads(self.Cause)["errorMessage"]
        except (ValueError, TypeError, KeyError):
            message = self.Cause
        return f"{self.Error}: {message}"


class FailedStep(Step):
    """What Classify gets after LaunchAttempt or InspectAttempt failed, or the outcome was wrong.
    VerifyExport gets it after ExportModel."""

    error: StateError | None = None


class ContinueStep(Step):
    """ContinueAsNew starts the next execution with what this one was started with."""

    execution_input: Any = None


class GiveUpStep(Step):
    """GiveUp reads how often the execution was redriven to know a person said: go on."""

    redrive_count: int = 0
