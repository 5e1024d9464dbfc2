"""Evidence → failure class. Rules are data; the order in which they are asked is the policy.

1. our own recorded stop reason; 2. status and secondary status; 3. the prefix of FailureReason
before its first colon; 4. the trainer's failure file; 5. text, where a cause on any rank outranks
every victim however loud, and among causes the earliest line wins.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pydantic import BaseModel, Field

from everstep.contracts.env import FailureFile
from everstep.contracts.failures import Action, Failure, FailureClass, StopReason
from everstep.contracts.progress import parse_line
from everstep.contracts.records import Outcome
from everstep.policy.redact import redact

F, A = FailureClass, Action
CAUSE_LENGTH = 300
TEXT_LENGTH = 8192
"""No cause line needs more, and no pattern should meet a megabyte."""


class LogLine(BaseModel):
    """One line of one host's log."""

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
    incomplete: str | None = None
    """What VerifyOutcome missed in a job that was Completed."""
    state_error: str = ""
    state_cause: str = ""
    last_step: int | None = None


class Rule(NamedTuple):
    """``pattern`` is searched in the text of its kind; the hint is for a person."""

    id: str
    pattern: str
    failure_class: FailureClass
    action: Action
    hint: str = ""
    victim: bool = False


STOP_REASONS: dict[StopReason, tuple[FailureClass, Action, str]] = {
    StopReason.HANG: (F.HANG, A.RETRY_SAME, "nothing stepped: see the last log lines of each rank"),
    StopReason.START_TIMEOUT: (F.INFRASTRUCTURE, A.RETRY_REPLACE_NODE, ""),
    StopReason.EXECUTION_STOPPED: (F.USER_STOP, A.DO_NOT_RETRY, "redrive the execution to go on"),
    StopReason.ORPHAN: (F.USER_STOP, A.DO_NOT_RETRY, "its execution was no longer running"),
    StopReason.BUDGET: (F.USER_STOP, A.DO_NOT_RETRY, "raise the spec's budget to go on"),
}

# Matched against "<secondary status>" and the transitions of a job that is Stopped.
STOPPED: tuple[Rule, ...] = (
    Rule("stopped-max-runtime", r"MaxRuntimeExceeded", F.MAX_RUNTIME, A.CONTINUE_AS_NEW),
    Rule(
        "stopped-spot-wait", r"Interrupted.*MaxWaitTimeExceeded", F.INTERRUPTED, A.CONTINUE_AS_NEW
    ),
    Rule("stopped-max-wait", r"MaxWaitTimeExceeded", F.CAPACITY, A.RETRY_BACKOFF),
    # Only as the last word: after a reclaim that the service cured, Stopped is someone's stop.
    Rule("stopped-spot", r"Interrupted$", F.INTERRUPTED, A.RETRY_SAME),
)

_AWS_TROUBLE = (
    r"(?:Throttling|ThrottlingException|ThrottledException|TooManyRequests\w*|RequestLimitExceeded"
    r"|ProvisionedThroughputExceeded\w*|ServiceUnavailable\w*|InternalFailure|RequestTimeout\w*)"
)

# Matched at the start of FailureReason, or of an API error written the same way.
PREFIXES: tuple[Rule, ...] = (
    Rule(
        "api-trouble",
        rf"(?:[\w.]*ClientError: An error occurred \()?{_AWS_TROUBLE}\b",
        F.THROTTLING,
        A.RETRY_BACKOFF,
    ),
    Rule(
        "api-unreachable",
        r"(?:EndpointConnection|ConnectTimeout|ReadTimeout|ConnectionClosed"
        r"|HTTPClient|SSL)Error\b|Lambda\.\w+|Sandbox\.Timedout|FormerJobRunning\b",
        F.THROTTLING,
        A.RETRY_BACKOFF,
        "the control plane could not reach AWS, or had to wait",
    ),
    Rule("capacity", r"CapacityError\b", F.CAPACITY, A.RETRY_BACKOFF),
    Rule("no-capacity", r"InsufficientInstanceCapacity\b", F.CAPACITY, A.RETRY_BACKOFF),
    Rule(
        "internal",
        r"InternalServerError\b",
        F.INFRASTRUCTURE,
        A.RETRY_SAME,
        "the service lost a host or a part of itself",
    ),
    Rule(
        "not-in-region",
        r"ResourceLimitExceeded:.*not available in this region",
        F.BAD_CONFIG,
        A.DO_NOT_RETRY,
        "choose a type that the region offers",
    ),
    Rule("limit", r"ResourceLimitExceeded\b", F.QUOTA, A.WAIT, "ask for a quota increase"),
    Rule(
        "job-stuck",
        r"ResourceInUse\b",
        F.BAD_CONFIG,
        A.DO_NOT_RETRY,
        "a job of this name exists and is not ours: choose another run id",
    ),
    Rule(
        "client-memory",
        r"ClientError:.*[Oo]ut [Oo]f [Mm]emory",
        F.OUT_OF_MEMORY_HOST,
        A.DO_NOT_RETRY,
        "use a type with more host memory",
    ),
    Rule(
        "client-disk",
        r"ClientError:.*[Ii]nsufficient disk space",
        F.BAD_CONFIG,
        A.DO_NOT_RETRY,
        "raise compute.volume_gib",
    ),
    Rule(
        "client",
        r"ClientError\b",
        F.BAD_CONFIG,
        A.DO_NOT_RETRY,
        "the request itself is refused: image, role, data or command",
    ),
    Rule(
        "refused",
        r"(ValidationException|AccessDenied\w*|ResourceNotFound\w*)\b",
        F.BAD_CONFIG,
        A.DO_NOT_RETRY,
        "the request itself is refused: read the cause",
    ),
)

_LOUD = (
    r"ChildFailed|DistBackend|DistNetwork|DistStore|ProcessGroup|Connection|BrokenPipe|Timeout"
    r"|Rendezvous|ExecuteUserScript|AlgorithmError|[Tt]imed out|closed by|reset by"
    r"|monitoredBarrier|gloo/transport|recvValue|was aborted|more than 1EB memory"
)
_PYTHON = (
    rf"^(?!.*(?:{_LOUD}))\s*(?:\[[\w ]+\]:?\s*)*(?:[\w.]+\.)?"
    r"[A-Z]\w*(?:Error|Exception|Exit|Iteration)(?::|\s*$)"
)
"""The last line of a traceback, behind torch's ``[rank3]:`` too; but no victim's exception."""

# Matched in the failure file's kind and message, in FailureReason's text and in log lines.
TEXTS: tuple[Rule, ...] = (
    Rule(
        "gpu-memory",
        r"(?s)^(?!.*more than 1EB memory).*(?:CUDA out of memory"
        r"|(?:torch\.|cuda\.)OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY"
        r"|Cuda failure 'out of memory'|out_of_memory: CUDA)",
        F.OUT_OF_MEMORY_GPU,
        A.DO_NOT_RETRY,
        "lower train.micro_batch or sequence_length, or shard over more ranks",
    ),
    Rule(
        "host-memory",
        r"oom[-_]kill|Out of memory: Kill|OOMKilled|OOM Killed"
        r"|Cannot allocate memory|(?<!OutOf)MemoryError",
        F.OUT_OF_MEMORY_HOST,
        A.DO_NOT_RETRY,
        "use a type with more host memory",
    ),
    Rule(
        "disk-full",
        r"No space left on device|\[Errno 28\]",
        F.BAD_CONFIG,
        A.DO_NOT_RETRY,
        "raise compute.volume_gib, or keep fewer checkpoints",
    ),
    Rule(
        "shared-memory",
        r"out of shared memory|insufficient shared memory",
        F.BAD_CONFIG,
        A.DO_NOT_RETRY,
        "use fewer data loader workers: SageMaker fixes the size of /dev/shm",
    ),
    Rule(
        "efa-rules",
        r"Unable to insert remote address into address vector",
        F.BAD_CONFIG,
        A.DO_NOT_RETRY,
        "the EFA security group must allow all traffic to itself, in and out",
    ),
    Rule(
        "ecc",
        r"uncorrectable ECC|Xid \(PCI[^)]*\): (?:48|64|71|74|79|95|119|120|154)\b|XID-79",
        F.INFRASTRUCTURE,
        A.RETRY_REPLACE_NODE,
        "a GPU or its link is broken",
    ),
    Rule("gpu-contained", r"Xid \(PCI[^)]*\): (?:63|94)\b", F.INFRASTRUCTURE, A.RETRY_SAME),
    Rule(
        "xid-program",
        r"Xid \(PCI[^)]*\): (?:13|31|43)\b",
        F.USER_CODE,
        A.DO_NOT_RETRY,
        "the program itself made an illegal GPU access",
    ),
    Rule(
        "nan",
        r"(?i)found NaN|loss (?:is|became) (?:nan|inf)|non-finite (?:loss|grad)"
        r"|(?:loss|training) diverged|loss scale already at minimum",
        F.DIVERGED,
        A.DO_NOT_RETRY,
        "lower the learning rate, or skip the batches of that step",
    ),
    Rule(
        "slow-down",
        r"\bSlowDown\b|SLOW_DOWN|reduce your request rate",
        F.STORAGE_TRANSIENT,
        A.RETRY_BACKOFF,
    ),
    Rule(
        "bad-shard",
        r"\b(?:truncated|foreign|missing) shard|HeaderTooLarge",
        F.BAD_DATA,
        A.DO_NOT_RETRY,
        "prepare the dataset anew",
    ),
    Rule("spot-notice", r"Spot Instance Interruption", F.INTERRUPTED, A.RETRY_SAME),
    Rule(
        "python",
        _PYTHON,
        F.USER_CODE,
        A.RETRY_SAME,
        "the trainer raised: read the traceback in the log",
    ),
    Rule(
        "collective",
        r"[Cc]ollective operation timeout|RendezvousTimeout|Timed out waiting \d+ms"
        r"|monitoredBarrier|Watchdog caught collective",
        F.COMMUNICATION_HANG,
        A.RETRY_SAME,
        "one rank stopped answering the others",
        victim=True,
    ),
    Rule(
        "killed",
        r"killed by SIG(?:KILL|TERM)|Signal (?:9|15) \(SIG",
        F.INFRASTRUCTURE,
        A.RETRY_SAME,
        "a process was killed from outside",
        victim=True,
    ),
    Rule(
        "peer-gone",
        r"Connection (?:closed by|reset by|refused)|DistBackendError"
        r"|DistNetworkError|DistStoreError|remote process exited|Broken pipe"
        r"|heartbeat monitor timed out|client socket has timed out|RendezvousConnectionError"
        r"|NCCL communicator was aborted|recvValue failed",
        F.INFRASTRUCTURE,
        A.RETRY_SAME,
        "a peer went away first",
        victim=True,
    ),
)


ACTIONS: dict[FailureClass, Action] = {
    F.BAD_CONFIG: A.DO_NOT_RETRY,
    F.BAD_DATA: A.DO_NOT_RETRY,
    F.CAPACITY: A.RETRY_BACKOFF,
    F.COMMUNICATION_HANG: A.RETRY_SAME,
    F.DIVERGED: A.DO_NOT_RETRY,
    F.HANG: A.RETRY_SAME,
    F.INCOMPLETE: A.RETRY_SAME,
    F.INFRASTRUCTURE: A.RETRY_REPLACE_NODE,
    F.INTERRUPTED: A.RETRY_SAME,
    F.MAX_RUNTIME: A.CONTINUE_AS_NEW,
    F.OUT_OF_MEMORY_GPU: A.DO_NOT_RETRY,
    F.OUT_OF_MEMORY_HOST: A.DO_NOT_RETRY,
    F.QUOTA: A.WAIT,
    F.STORAGE_TRANSIENT: A.RETRY_BACKOFF,
    F.THROTTLING: A.RETRY_BACKOFF,
    F.UNKNOWN: A.RETRY_SAME,
    F.USER_CODE: A.RETRY_SAME,
    F.USER_STOP: A.DO_NOT_RETRY,
}
"""What a class asks for where the trainer named it and no rule says more."""


def classify(evidence: Evidence) -> Failure:
    """The class, the action that it asks for, and one redacted cause line."""
    for answer in (_by_stop_reason, _by_status, _by_prefix, _by_text):
        failure = answer(evidence)
        if failure is not None:
            return failure
    reason = evidence.outcome.failure_reason if evidence.outcome else evidence.state_cause
    return _failure(
        evidence,
        F.UNKNOWN,
        A.RETRY_SAME,
        reason or evidence.state_error or "no cause was found",
        "unknown",
        "read the job's log; tell us the line so that it gets a class",
    )


def _failure(
    evidence: Evidence,
    failure_class: FailureClass,
    action: Action,
    cause: str,
    rule: str,
    hint: str = "",
    rank: int | None = None,
) -> Failure:
    line = " ".join(redact(cause[:TEXT_LENGTH]).split())
    if len(line) > CAUSE_LENGTH:
        line = line[: CAUSE_LENGTH - 1] + "…"
    return Failure(
        failure_class=failure_class,
        action=action,
        cause=line,
        rule=rule,
        hint=hint,
        rank=rank,
        step=evidence.last_step,
    )


def _by_stop_reason(evidence: Evidence) -> Failure | None:
    if evidence.stop_reason is None:
        return None
    failure_class, action, hint = STOP_REASONS[evidence.stop_reason]
    cause = evidence.stop_detail or f"Everstep stopped the job: {evidence.stop_reason}"
    return _failure(evidence, failure_class, action, cause, f"stop:{evidence.stop_reason}", hint)


def _by_status(evidence: Evidence) -> Failure | None:
    outcome = evidence.outcome
    if outcome is None:
        return None
    if outcome.status == "Stopped":
        trail = " ".join([*outcome.transitions, outcome.secondary_status])
        for rule in STOPPED:
            if re.search(rule.pattern, trail):
                cause = f"job Stopped, {outcome.secondary_status or trail}"
                return _failure(
                    evidence, rule.failure_class, rule.action, cause, rule.id, rule.hint
                )
        return _failure(
            evidence,
            F.USER_STOP,
            A.DO_NOT_RETRY,
            "the job was stopped by someone",
            "stopped",
            "redrive the execution to go on",
        )
    if outcome.status == "Completed":
        return _by_own_stop(evidence) or _failure(
            evidence,
            F.INCOMPLETE,
            A.RETRY_SAME,
            evidence.incomplete or "the job says Completed without the final checkpoint",
            "incomplete",
            "a trainer that ends early must leave a final checkpoint: see docs/trainer-contract.md",
        )
    return None


def _by_own_stop(evidence: Evidence) -> Failure | None:
    """A trainer that saved and ended in good time says why in a ``stopped`` line."""
    for line in reversed(evidence.log):
        progress = parse_line(line.text)
        if progress is not None and progress.everstep == "stopped":
            deadline = (progress.model_extra or {}).get("reason") == "deadline"
            return _failure(
                evidence,
                F.MAX_RUNTIME if deadline else F.INTERRUPTED,
                A.CONTINUE_AS_NEW if deadline else A.RETRY_SAME,
                "the trainer saved and ended before its deadline"
                if deadline
                else "the trainer was told to end, and saved",
                "own-stop",
            )
    return None


def _by_prefix(evidence: Evidence) -> Failure | None:
    reason = evidence.outcome.failure_reason if evidence.outcome else ""
    for rule in PREFIXES:
        if re.match(rule.pattern, reason, re.DOTALL):
            return _failure(evidence, rule.failure_class, rule.action, reason, rule.id, rule.hint)
    return None


def _by_text(evidence: Evidence) -> Failure | None:
    """A class that the trainer names, else causes by time, else victims by time."""
    file = evidence.failure_file
    if file is not None and file.failure_class in set(F):
        failure_class = FailureClass(str(file.failure_class))
        cause = f"{file.kind}: {file.message}"
        rule = _rule_of(cause)
        hint = rule.hint if rule is not None and rule.failure_class == failure_class else ""
        return _failure(
            evidence, failure_class, ACTIONS[failure_class], cause, "failure-file", hint, file.rank
        )
    found: list[tuple[bool, float, int, Rule, str, int | None]] = []
    for order, (time, text, rank) in enumerate(_texts(evidence)):
        rule = _rule_of(text)
        if rule is not None:
            found.append((rule.victim, time, order, rule, text, rank))
    if not found:
        return None
    _, _, _, rule, text, rank = min(found, key=lambda f: f[:3])
    return _failure(evidence, rule.failure_class, rule.action, text, rule.id, rule.hint, rank)


def _rule_of(text: str) -> Rule | None:
    return next((r for r in TEXTS if re.search(r.pattern, text[:TEXT_LENGTH])), None)


def _texts(evidence: Evidence) -> Iterator[tuple[float, str, int | None]]:
    file = evidence.failure_file
    if file is not None:
        yield file.time_epoch, f"{file.kind}: {file.message}", file.rank
    yield from ((line.time_epoch, line.text, _rank(line.text)) for line in evidence.log)
    if evidence.outcome is not None:
        # SageMaker repeats the failure file here, without a time: after everything that has one.
        for line in _without_prefix(evidence.outcome.failure_reason):
            yield float("inf"), line, None


def _rank(text: str) -> int | None:
    """torch names the rank in front of what it prints: ``[rank3]: …``, ``[Rank 3] …``."""
    match = re.search(r"\[[Rr]ank ?(\d{1,6})\]", text[:TEXT_LENGTH])
    return int(match[1]) if match else None


def _without_prefix(reason: str) -> Iterable[str]:
    return re.sub(r"^AlgorithmError:\s*", "", reason).replace('ErrorMessage "', "").splitlines()
