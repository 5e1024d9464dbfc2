"""What a rule is, and what its class asks for. The rules themselves are in ``rules``."""

from collections.abc import Callable, Iterable
from enum import IntEnum, StrEnum
from re import Match
from typing import NamedTuple

from everstep.contracts.failures import Action, FailureClass, UserRule

F, A = FailureClass, Action


class Source(StrEnum):
    STATUS = "status"
    REASON = "reason"
    EVENT = "event"
    LOG = "log"
    WORDS = "words"


class Role(IntEnum):
    """Who speaks. A lower one outranks a higher one, whenever it spoke."""

    CAUSE = 0
    SYMPTOM = 1
    """Says that it broke, not why: an exit code, a GPU call that came back with an error."""
    VICTIM = 2
    """Was hit by what happened elsewhere, and shouts louder than the cause."""
    MURMUR = 3
    """No form that is known: it only sounds like trouble of a kind."""
    ECHO = 4
    """Says no more than that something ended."""
    ALIVE = 5
    """Is being mended, by whoever prints it: see ``classify``."""


class Rule(NamedTuple):
    """``action`` and ``hint`` are the class's own where the rule says nothing."""

    source: Source
    id: str
    failure_class: FailureClass
    pattern: str
    action: Action | None = None
    hint: str = ""
    confidence: float = 0.9
    role: Role = Role.CAUSE
    in_run: tuple[FailureClass, Action] | None = None
    """What a doubtful rule says of a run of ours, whose history settles the doubt (see retry)."""
    test: Callable[[Match[str]], bool] = lambda match: True
    """For what a pattern cannot say: arithmetic."""


DEFAULTS: dict[FailureClass, tuple[Action, str]] = {
    F.BAD_CONFIG: (A.DO_NOT_RETRY, "the request or its settings cannot work: mend what it names"),
    F.BAD_DATA: (A.DO_NOT_RETRY, "prepare the dataset anew, or mend its path"),
    F.BUDGET: (A.DO_NOT_RETRY, "raise the limit that was met"),
    F.CAPACITY: (A.RETRY_BACKOFF, "add zones or types to compute"),
    F.COMMUNICATION_HANG: (A.RETRY_SAME, "one rank stopped answering the others"),
    F.DIVERGED: (A.DO_NOT_RETRY, "lower the learning rate, or skip the batches of that step"),
    F.EXPORT_FAILED: (A.DO_NOT_RETRY, "mend the cause; training is done and is not repeated"),
    F.HANG: (A.RETRY_SAME, "nothing stepped: see the last log lines of each rank"),
    F.IDLE: (A.RETRY_SAME, "steps were said to be done, and no GPU did any"),
    F.INCOMPLETE: (A.RETRY_SAME, "a trainer must leave a final checkpoint"),
    F.INFRASTRUCTURE: (A.RETRY_REPLACE_NODE, "a host, its GPU or its link failed"),
    F.INTERRUPTED: (A.RETRY_SAME, "the machines were taken away"),
    F.MAX_RUNTIME: (A.CONTINUE_AS_NEW, "the job reached its longest run time"),
    F.OUT_OF_MEMORY_GPU: (A.DO_NOT_RETRY, "lower train.micro_batch or sequence_length, or shard"),
    F.OUT_OF_MEMORY_HOST: (A.DO_NOT_RETRY, "use a type with more host memory"),
    F.QUOTA: (A.WAIT, "ask for a quota increase, or end other jobs"),
    F.STORAGE_TRANSIENT: (A.RETRY_BACKOFF, "storage was too busy or away"),
    F.STRAGGLER: (A.RETRY_REPLACE_NODE, "one rank held all others up"),
    F.THROTTLING: (A.RETRY_BACKOFF, "AWS's API was busy or could not be reached"),
    F.UNKNOWN: (A.RETRY_SAME, "read the job's log; tell us the line so that it gets a class"),
    F.USER_CODE: (A.DO_NOT_RETRY, "the trainer raised: read the traceback in the log"),
    F.USER_STOP: (A.DO_NOT_RETRY, "redrive the execution to go on"),
}

PAID: dict[FailureClass, FailureClass] = {
    F.CAPACITY: F.INFRASTRUCTURE,
    F.QUOTA: F.BAD_CONFIG,
    F.THROTTLING: F.STORAGE_TRANSIENT,
    F.MAX_RUNTIME: F.INTERRUPTED,
}
"""What a job's own log may not claim, since it spends no attempt: what it becomes instead."""


def from_user(rules: Iterable[UserRule]) -> tuple[Rule, ...]:
    """Rules of config. A person wrote them for this account: believed as they are."""
    return tuple(
        Rule(
            Source(rule.source),
            f"user:{rule.id}",
            rule.failure_class,
            rule.pattern,
            rule.action,
            rule.hint,
            1.0,
        )
        for rule in rules
    )
