"""Why an attempt ended, and what may happen next: the vocabulary, not the rules.

The rules are in ``everstep.policy.rules`` (evidence → class) and
``everstep.policy.retry`` (class and history → decision).
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from everstep.contracts.user_pattern import checked_pattern


class FailureClass(StrEnum):
    """Every way an attempt can end other than by finishing its work."""

    BAD_CONFIG = "bad_config"
    BAD_DATA = "bad_data"
    BUDGET = "budget"
    CAPACITY = "capacity"
    COMMUNICATION_HANG = "communication_hang"
    DIVERGED = "diverged"
    EXPORT_FAILED = "export_failed"
    """Training is done and its checkpoint is there; what the spec asked for after it is not."""
    HANG = "hang"
    IDLE = "idle"
    INCOMPLETE = "incomplete"
    INFRASTRUCTURE = "infrastructure"
    INTERRUPTED = "interrupted"
    MAX_RUNTIME = "max_runtime"
    OUT_OF_MEMORY_GPU = "out_of_memory_gpu"
    OUT_OF_MEMORY_HOST = "out_of_memory_host"
    QUOTA = "quota"
    STORAGE_TRANSIENT = "storage_transient"
    STRAGGLER = "straggler"
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


class Rung(StrEnum):
    """The restart ladder, lowest first: which kind of restart leads to the next attempt."""

    IN_JOB = "in_job"
    """The trainer's launcher starts its workers again: seconds."""
    SERVICE_REPAIR = "service_repair"
    """SageMaker restarts the same job: RetryStrategy, spot."""
    WARM_HOSTS = "warm_hosts"
    """A new job on the hosts of the last one, kept as a warm pool: a minute or two."""
    NEW_HOSTS = "new_hosts"
    """A new job, the pool ended first."""
    ELSEWHERE = "elsewhere"
    """The spec's next target."""


class StopReason(StrEnum):
    """Why *Everstep* stopped a job. SageMaker has no such field, so we record our own."""

    HANG = "hang"
    IDLE = "idle"
    STRAGGLER = "straggler"
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
    """Id of the rule in ``policy.rules`` that matched."""
    rank: int | None = None
    step: int | None = None
    hint: str = ""
    confidence: float = 1.0
    """0 to 1: below 0.7 the cause line is worth a person's look before it is believed."""
    time_epoch: float | None = None
    """When the cause was printed or sent, where that is known."""


class UserRule(BaseModel):
    """A rule of the user's own (``[[rules]]`` in config), asked before the built-in ones."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, use_attribute_docstrings=True
    )

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
    pattern: Annotated[str, Field(min_length=3, max_length=300), AfterValidator(checked_pattern)]
    """A regular expression, searched in each line; of ``reason`` matched at the start."""
    failure_class: FailureClass = Field(alias="class")
    action: Action | None = None
    """The class's own where it is absent."""
    hint: str = Field(default="", max_length=200)
    source: Literal["log", "reason", "event"] = "log"


RULES_BYTES = 2048
"""A Lambda function's whole environment holds 4 KB."""


def rules_problem(rules: list[UserRule]) -> str | None:
    """Why these rules cannot be carried to the Classify function, or None."""
    ids = [rule.id for rule in rules]
    if twice := sorted({x for x in ids if ids.count(x) > 1}):
        return f"used twice: {', '.join(twice)}"
    size = sum(len(x.model_dump_json(by_alias=True, exclude_defaults=True)) for x in rules)
    if size > RULES_BYTES:
        return f"take {size} bytes, more than {RULES_BYTES}: shorten patterns and hints"
    return None


class Decision(BaseModel):
    """The outcome of ``policy.retry.decide``. ``wait_seconds`` precedes the next attempt."""

    model_config = ConfigDict(frozen=True)

    kind: DecisionKind
    reason: str
    wait_seconds: int = 0
    target: int = 0
    """Index into ``spec.compute`` for the next attempt."""
    spends_attempt: bool = True
    rung: Rung | None = None
    """How the next attempt is restarted. None where there is none, or it is not a restart."""
    gives_up_as: FailureClass | None = None
    """The class that the run ends with, where it is not the last failure's own."""

    def of(self, failure: Failure) -> Failure:
        """What the run gives up with: the last failure, under the decision's own class if it has
        one."""
        if self.gives_up_as is None:
            return failure
        return failure.model_copy(update={"failure_class": self.gives_up_as, "hint": ""})
