"""Why an attempt ended, and what may happen next: the vocabulary, not the rules.

The rules are in ``everstep.policy.classify`` (evidence → class) and
``everstep.policy.retry`` (class and history → decision).
"""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class FailureClass(StrEnum):
    """Every way an attempt can end other than by finishing its work."""

    BAD_CONFIG = "bad_config"
    BAD_DATA = "bad_data"
    CAPACITY = "capacity"
    COMMUNICATION_HANG = "communication_hang"
    DIVERGED = "diverged"
    HANG = "hang"
    INCOMPLETE = "incomplete"
    INFRASTRUCTURE = "infrastructure"
    INTERRUPTED = "interrupted"
    MAX_RUNTIME = "max_runtime"
    OUT_OF_MEMORY_GPU = "out_of_memory_gpu"
    OUT_OF_MEMORY_HOST = "out_of_memory_host"
    QUOTA = "quota"
    STORAGE_TRANSIENT = "storage_transient"
    THROTTLING = "throttling"
    UNKNOWN = "unknown"
    USER_CODE = "user_code"
    USER_STOP = "user_stop"

    @property
    def error_name(self) -> str:
        """The Step Functions error a run gives up with, e.g. ``OutOfMemoryGpu``."""
        return "".join(part.capitalize() for part in self.value.split("_"))


class Action(StrEnum):
    """What a class asks for, before history and budget are looked at."""

    WAIT = "wait"
    RETRY_SAME = "retry_same"
    RETRY_BACKOFF = "retry_backoff"
    RETRY_REPLACE_NODE = "retry_replace_node"
    CONTINUE_AS_NEW = "continue_as_new"
    DO_NOT_RETRY = "do_not_retry"


class DecisionKind(StrEnum):
    """What happens next to the run."""

    DONE = "done"
    WAIT = "wait"
    RETRY = "retry"
    RETRY_ELSEWHERE = "retry_elsewhere"
    CONTINUE = "continue"
    GIVE_UP = "give_up"


class StopReason(StrEnum):
    """Why *Everstep* stopped a job. SageMaker has no such field, so we record our own."""

    HANG = "hang"
    START_TIMEOUT = "start_timeout"
    EXECUTION_STOPPED = "execution_stopped"
    ORPHAN = "orphan"
    BUDGET = "budget"


class Failure(BaseModel):
    """A classified failure. ``cause`` is one redacted line, the first cause."""

    model_config = ConfigDict(frozen=True)

    failure_class: FailureClass
    action: Action
    cause: str
    rule: str
    """Id of the rule in ``policy.classify`` that matched."""
    rank: int | None = None
    step: int | None = None
    hint: str = ""


class Decision(BaseModel):
    """The outcome of ``policy.retry.decide``. ``wait_seconds`` precedes the next attempt."""

    model_config = ConfigDict(frozen=True)

    kind: DecisionKind
    reason: str
    wait_seconds: int = 0
    target: int = 0
    """Index into ``spec.compute`` for the next attempt."""
    spends_attempt: bool = True
