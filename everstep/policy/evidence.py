"""What is known of an attempt that ended, gathered by others and read by ``classify``."""

from pydantic import BaseModel, Field

from everstep.contracts.env import FailureFile
from everstep.contracts.failures import StopReason
from everstep.contracts.records import Outcome


class LogLine(BaseModel):
    """One line of one host's log, or one event."""

    time_epoch: float
    host: str = ""
    text: str


class Evidence(BaseModel):
    """Everything that is known of an attempt that ended."""

    stop_reason: StopReason | None = None
    stop_detail: str | None = None
    outcome: Outcome | None = None
    failure_file: FailureFile | None = None
    log: list[LogLine] = Field(default_factory=list)
    events: list[LogLine] = Field(default_factory=list)
    """Of Kubernetes, HyperPod, spot and AWS Health: JSON or text as they came. Only of texts given
    to ``everstep classify``: a SageMaker training job has none."""
    incomplete: str | None = None
    """What VerifyOutcome missed in a job that was Completed."""
    state_error: str = ""
    state_cause: str = ""
    last_step: int | None = None
    alone: bool = False
    """One text and nothing else: no run behind it whose history could settle a doubt."""
