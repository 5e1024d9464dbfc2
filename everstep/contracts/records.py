"""Rows of the runs table: key ``run_id`` + ``item`` (``run``, ``launch#00001``, ``export#00001``).

The sparse index ``active`` (key ``active``, sort ``run_id``) holds only what the watchdog must
look at: jobs that may still run (``active`` = ``launch``, exports too) and runs that wait for room
(``waiting``). Handlers write with conditions; a row is never deleted.
"""

import json
import re
from enum import StrEnum
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from everstep.contracts.failures import Decision, Failure, Rung, StopReason
from everstep.contracts.payloads import Team
from everstep.contracts.progress import Phase
from everstep.contracts.run_spec import Group, RunSpec

RUN_ITEM = "run"
LAUNCH_PREFIX = "launch#"
EXPORT_PREFIX = "export#"
ACTIVE_INDEX = "active"


def launch_item(number: int) -> str:
    return f"{LAUNCH_PREFIX}{number:05d}"


def export_item(number: int) -> str:
    return f"{EXPORT_PREFIX}{number:05d}"


def job_name(run_id: str, launch: int) -> str:
    return f"{run_id}-{launch:05d}"


def parse_job_name(name: str) -> tuple[str, int] | None:
    """(run id, launch) of one of our job names; None for anyone else's."""
    run_id, _, number = name.rpartition("-")
    return (run_id, int(number)) if run_id and len(number) == 5 and number.isdigit() else None


def export_job_name(run_id: str, number: int) -> str:
    """Two digits, four at most: never a launch's name, whatever the run is called."""
    return f"{run_id}-export-{number:02d}"


_EXPORT_JOB = re.compile(r"(.+)-export-(\d{2,4})", re.ASCII)


def job_row(name: str) -> tuple[str, str] | None:
    """(run id, item) of the row that one of our jobs belongs to; None for anyone else's."""
    if launch := parse_job_name(name):
        return launch[0], launch_item(launch[1])
    match = _EXPORT_JOB.fullmatch(name)
    return (match[1], export_item(int(match[2]))) if match else None


class RunStatus(StrEnum):
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    GAVE_UP = "gave_up"
    STOPPED = "stopped"


class Waiting(BaseModel):
    """A run that waits for quota or capacity on one token state."""

    reason: str
    task_token: str
    since_epoch: float
    hold_seconds: int = 0
    """Not woken before: a refusal that the quotas' arithmetic does not explain comes again."""
    step: dict[str, Any]
    """The payload that the state was entered with, to go on with."""


class DataTask(BaseModel):
    """A move of data between the file system and S3, by a task of FSx."""

    model_config = ConfigDict(frozen=True)

    since_epoch: float
    number: int = 1
    """Of the try."""
    task_id: str | None = None
    done: bool = False
    given_up: bool = False


class OwnLustre(BaseModel):
    """A file system made for this run alone."""

    model_config = ConfigDict(frozen=True)

    since_epoch: float
    file_system_id: str | None = None
    mount: str | None = None
    subnet: str | None = None
    link: str | None = None
    """Id of its data repository association."""
    gib: int | None = None
    made_epoch: float | None = None
    """When FSx took the order: it is paid for from then on."""
    number: int = 1
    """Of tries: FSx may fail to make one, for want of capacity."""
    earlier_gib_hours: float = 0.0
    """Of those that the run had before this one."""
    ready: bool = False
    given_up: bool = False
    deleted_epoch: float | None = None

    @property
    def here(self) -> bool:
        """It may exist, and is meant to."""
        return self.deleted_epoch is None


class Adopted(BaseModel):
    """A job made elsewhere, and the request that makes it again."""

    model_config = ConfigDict(frozen=True)

    job: str
    arn: str
    created_epoch: float
    request: dict[str, Any]
    """CreateTrainingJob's input but for the name, with the owner's own tags."""
    withheld: list[tuple[str, str]] = Field(default_factory=list)
    """(section, name) of values that look like secrets: not in this table, read from the first
    job again at each launch."""


class PinnedImage(BaseModel):
    """What an image's name meant when the run first asked."""

    model_config = ConfigDict(frozen=True)

    uri: str
    """``registry/repository@sha256:…``."""
    critical_findings: int | None = None
    """Of the registry's scan. None: there was none yet."""


class Run(BaseModel):
    """One run. Times are epoch seconds."""

    run_id: str
    execution_arn: str
    team: Team
    spec: RunSpec
    status: RunStatus = RunStatus.RUNNING
    created_epoch: float
    images: dict[str, PinnedImage] | None = None
    """By the name that the spec gives: the same for every job of the run, until a person redrives
    it. None: not looked up yet."""
    redrive_count: int = 0
    """The execution's redrives that GiveUp has already acted on."""
    attempts_reset_at_launch: int = 0
    """Launches up to this one no longer count against the retry limits: a person redrove."""
    successor: str | None = None
    """The execution that goes on with this run, from before it is started: see ContinueAsNew."""
    budget_warned: bool | None = None
    waiting: Waiting | None = None
    waited_seconds: float = 0.0
    adopted: Adopted | None = None
    """Set where the run began as a job made elsewhere: ``spec`` then only holds its limits."""
    preload: DataTask | None = None
    release: DataTask | None = None
    own_lustre: OwnLustre | None = None
    final_step: int | None = None
    export_uri: str | None = None
    model_package_arn: str | None = None
    failure: Failure | None = None
    """Why the run ends without a launch to blame: a quota that cannot fit, a wait that ran out."""
    note: str | None = None

    @model_validator(mode="after")
    def _size_of_a_row_without(self) -> Self:
        """A row that an older handler wrote: the size was the spec's."""
        own = self.own_lustre
        if own is not None and own.file_system_id is not None and own.gib is None:
            self.own_lustre = own.model_copy(update={"gib": self.spec.data.scratch_gib})
        return self

    @property
    def ended(self) -> bool:
        """Nothing happens to it any more by itself."""
        return self.status in (RunStatus.DONE, RunStatus.GAVE_UP, RunStatus.STOPPED)


class Outcome(BaseModel):
    """How a job ended, read from DescribeTrainingJob once it is terminal. Redacted."""

    model_config = ConfigDict(frozen=True)

    status: str
    secondary_status: str
    failure_reason: str = ""
    transitions: list[str] = Field(default_factory=list)
    message: str = ""
    """StatusMessage of the last transition."""
    started_epoch: float | None = None
    ended_epoch: float | None = None
    billable_seconds: int = 0
    training_seconds: int | None = None
    """TrainingTimeInSeconds. None: not said, or written down by an older handler."""


class ExportPlan(BaseModel):
    """What makes a launch's row an export's: the same job mechanism, with other numbers."""

    checkpoint: str
    uri: str
    volume_gib: int
    after_launch: int
    """The launch whose outcome was verified: where the payload goes on."""
    first: int
    """Number of the first try of this series; earlier ones no longer count: a person redrove."""


class Launch(BaseModel):
    """One training job made, or tried to be made, for a run: to train, or to export."""

    run_id: str
    launch: int
    job_name: str
    execution_arn: str
    target: int = 0
    """Index into ``spec.compute``."""
    subnet: str | None = None
    instance_type: str
    nodes: int
    groups: list[Group] = Field(default_factory=list)
    """Hosts beside the nodes that train."""
    resume_checkpoint: str | None = None
    resume_step: int = 0
    planned_epoch: float
    rung: Rung | None = None
    """The restart that this launch is. None for the first."""
    max_runtime_seconds: int | None = None
    """Shorter than the spec's where the budget leaves less: then ``budget_bound``."""
    budget_bound: bool = False
    bounded_by: str | None = None
    """Why it is shorter where it is not the budget: a training plan that ends."""
    spent_gpu_hours: float = 0.0
    spent_usd: float | None = None
    """By the run before this launch, so that the watchdog need not read the history."""
    straggler_stops: int = 0
    """How often this run was restarted for a slow rank already."""
    inspections: int = 0
    """Times InspectAttempt waited again, in this execution: see ``policy.turns``."""
    task_token: str | None = None
    created: bool = False
    """CreateTrainingJob was accepted (by whichever invocation)."""
    phase: Phase | None = None
    phase_since_epoch: float | None = None
    last_step: int | None = None
    first_step_epoch: float | None = None
    progress_epoch: float | None = None
    started_epoch: float | None = None
    """TrainingStartTime: SageMaker bills from here."""
    training_epoch: float | None = None
    """The container was started (first time)."""
    loaded_epoch: float | None = None
    """The trainer said that it had resumed, or began its first step (first time)."""
    settled_epoch: float | None = None
    """The outcome was written down."""
    service_restarts: int = 0
    step_times: list[float] = Field(default_factory=list)
    """Seconds of the newest steps."""
    slow_rank: int | None = None
    slow_ratio: float | None = None
    slow_reports: int = 0
    slow_epoch: float | None = None
    stop_reason: StopReason | None = None
    stop_detail: str | None = None
    outcome: Outcome | None = None
    committed_step: int | None = None
    """Newest committed checkpoint when the launch was classified or verified."""
    failure: Failure | None = None
    decision: Decision | None = None
    export: ExportPlan | None = None

    @property
    def plan(self) -> ExportPlan:
        """Of an export's row."""
        assert self.export is not None, self.job_name
        return self.export

    @property
    def item(self) -> str:
        """Sort key of its row."""
        return export_item(self.launch) if self.export else launch_item(self.launch)

    @property
    def where(self) -> str:
        """Its machines, for people: ``4 × ml.p5.48xlarge``, and each group beside them."""
        hosts = [(self.nodes, self.instance_type)]
        hosts += [(group.count, group.instance_type) for group in self.groups]
        return " + ".join(f"{count} × {kind}" for count, kind in hosts)

    @property
    def spent_attempt(self) -> bool:
        """Capacity and quota failures burn a name, not an attempt."""
        return self.decision is None or self.decision.spends_attempt


RecordT = TypeVar("RecordT", Run, Launch)


def to_item(record: Run | Launch) -> dict[str, str]:
    """A DynamoDB item: the keys, and each field that is not None as a JSON string of its own.

    One attribute a field lets handlers that race (watchdog, job event, launch) set theirs with
    a condition and lose nothing of each other's.
    """
    return {
        "run_id": record.run_id,
        "item": item_of(record),
        **encode(record, set(type(record).model_fields)),
    }


def item_of(record: Run | Launch) -> str:
    return RUN_ITEM if isinstance(record, Run) else record.item


def encode(record: Run | Launch, fields: set[str]) -> dict[str, str]:
    """Attributes of the named fields, without those that are None."""
    dumped = record.model_dump(mode="json", include=fields - {"run_id"}, exclude_none=True)
    return {name: json.dumps(value) for name, value in dumped.items()}


def from_item(kind: type[RecordT], item: dict[str, Any]) -> RecordT:
    """The inverse of ``to_item``; attributes that are no field (an index's key) are left out."""
    fields = {k: json.loads(v) for k, v in item.items() if k in kind.model_fields and k != "run_id"}
    return kind.model_validate({**fields, "run_id": item["run_id"]})
