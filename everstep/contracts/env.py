"""The environment of each process, parsed once into a model. No other module reads os.environ."""

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from everstep.contracts.failures import FailureClass, UserRule


class ControlEnv(BaseModel):
    """What every Lambda function of the control plane is given by the stack."""

    model_config = ConfigDict(frozen=True)

    table: str
    topic_arn: str
    metrics_namespace: str = "Everstep/local"
    watchdog_period_seconds: int = Field(default=60, gt=0)
    looks_at_once: int = Field(default=16, gt=0, le=32)
    """Runs that one pass of the watchdog looks at beside each other."""
    heartbeat_seconds: int = Field(default=300, gt=0)
    """Heartbeat of a launch's task token: at least five watchdog periods."""
    continue_after_turns: int = Field(default=60, gt=0)
    """Launches and inspections of one execution before the run goes on as a new one."""
    critical_findings: Literal["warn", "refuse"] = "warn"
    """Of an image's scan: told, or the run does not start."""
    runbook_url: str = "docs/runbook.md"
    prices_usd: dict[str, float] = Field(default_factory=dict)
    """On-demand USD per instance-hour by type, from config; a missing one is said, not guessed."""
    adopters: dict[str, str] = Field(default_factory=dict)
    """Job role → state machine of the team that takes failed jobs of that role over."""

    run_file_systems: bool = False
    """Runs may make file systems of their own: the watchdog deletes what they leave."""

    subnet_addresses: int | None = Field(default=None, gt=0)
    """That each training subnet has for hosts. None: a stack of an earlier release does not say."""

    rules: list[UserRule] = Field(default_factory=list)
    """The user's own failure rules, asked before the built-in ones."""

    def runbook(self, failure_class: FailureClass) -> str:
        """The runbook's section on the class: anchors are the classes' own words."""
        return f"{self.runbook_url}#{failure_class}"

    @classmethod
    def parse(cls, environ: Mapping[str, str]) -> Self:
        return cls.model_validate_json(environ["EVERSTEP_CONTROL"])


class TrainerEnv(BaseModel):
    """What a training container is given, beside SageMaker's own files under /opt/ml."""

    model_config = ConfigDict(frozen=True)

    run_id: str = "alone"
    launch: int = 1
    checkpoint_uri: str = "checkpoints"
    """``s3://bucket/prefix`` or a folder. One folder a checkpoint below it: see ``manifest``."""
    checkpoint_record_uri: str | None = None
    """Where each manifest is copied to once it is in place: set where ``checkpoint_uri`` is a
    folder that the control plane cannot read. A copy is removed before its checkpoint is."""
    output_uri: str = "output"
    """Where failure files go: ``{output_uri}/{launch:05d}/failure.json``."""
    data_uri: str | None = None
    """Folder of the run's datasets, where the trainer reads them from S3 itself."""
    resume_from: str | None = None
    """A hint: the newest committed checkpoint when the launch was planned. May be stale."""
    start_from: str | None = None
    """URI of another run's committed checkpoint, to begin from where this run has none."""
    start_with: Literal["weights"] | None = None
    """Of that checkpoint: nothing but the weights, at step 0. None: everything, at its step."""
    max_runtime_seconds: int | None = None
    """Save and exit this long after the container started: the service stops the job soon after."""

    @classmethod
    def parse(cls, environ: Mapping[str, str]) -> Self:
        prefix = "EVERSTEP_"
        given = {
            name: environ[prefix + name.upper()]
            for name in cls.model_fields
            if environ.get(prefix + name.upper())
        }
        return cls.model_validate(given)

    def as_environment(self) -> dict[str, str]:
        """The inverse of ``parse``: what LaunchAttempt puts into the job request."""
        return {
            f"EVERSTEP_{name.upper()}": str(value)
            for name, value in self.model_dump().items()
            if value is not None
        }


class FailureFile(BaseModel):
    """Written by the first failing rank: whole to S3, one line first to /opt/ml/output/failure."""

    model_config = ConfigDict(frozen=True)

    kind: str
    """Exception class, or ``signal``."""
    message: str
    traceback: str = ""
    rank: int = 0
    host: str = ""
    step: int | None = None
    time_epoch: float = 0.0
    failure_class: str | None = None
    """Set where the trainer knows the class itself (``diverged``, ``out_of_memory_gpu`` …)."""
