"""Evidence → failure class. The rules are data (``rules``); the order of asking is the policy.

1. our own recorded stop reason; 2. status, secondary status and transitions; 3. the prefix of
FailureReason before its first colon; 4. a class that the trainer's failure file names; 5. all that
was printed or sent as an event, where a cause on any rank outranks every symptom and victim however
loud, and among equals the earliest line wins.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from everstep.contracts.failures import Action, Failure, FailureClass, StopReason
from everstep.contracts.progress import parse_line
from everstep.policy.alive import tells_of_trouble
from everstep.policy.evidence import Evidence, LogLine
from everstep.policy.findings import TEXT_LENGTH, Finding, Table, by_text
from everstep.policy.reading import unwrap
from everstep.policy.redact import redact
from everstep.policy.rule import DEFAULTS, PAID, Role, Rule, Source

__all__ = ["ACTIONS", "Evidence", "Explanation", "Finding", "LogLine", "classify", "explain"]

F, A = FailureClass, Action
CAUSE_LENGTH = 300
ACTIONS: dict[FailureClass, Action] = {
    **{name: action for name, (action, _) in DEFAULTS.items()},
    # A run has a history: whether an exception comes again is found out, once. See retry.
    F.USER_CODE: A.RETRY_SAME,
    # The trainer went back as often as it may, on the same hosts: one of them may be ill.
    F.DIVERGED: A.RETRY_REPLACE_NODE,
}
"""What a class asks for where the trainer named it and no rule says more."""

STOP_REASONS: dict[StopReason, tuple[FailureClass, Action, str]] = {
    StopReason.HANG: (F.HANG, A.RETRY_SAME, "nothing stepped: see the last log lines of each rank"),
    StopReason.START_TIMEOUT: (F.INFRASTRUCTURE, A.RETRY_REPLACE_NODE, ""),
    StopReason.EXECUTION_STOPPED: (F.USER_STOP, A.DO_NOT_RETRY, "redrive the execution to go on"),
    StopReason.ORPHAN: (F.USER_STOP, A.DO_NOT_RETRY, "its execution was no longer running"),
    StopReason.BUDGET: (F.BUDGET, A.DO_NOT_RETRY, DEFAULTS[F.BUDGET][1]),
    StopReason.IDLE: (F.IDLE, A.RETRY_SAME, "steps were said to be done, and no GPU did any"),
    StopReason.STRAGGLER: (F.STRAGGLER, A.RETRY_REPLACE_NODE, "one rank held all others up"),
}

_ALIVE = frozenset({"InProgress", "Stopping"})

WORDS = {name: name for name in FailureClass} | {F.USER_STOP: F.UNKNOWN}
"""A class in the words of the shared data of messages, which knows no stop by a person."""


class Explanation(NamedTuple):
    """``findings``: what was considered, the winner first. Texts are redacted."""

    failure: Failure
    findings: list[Finding]


STAGES = ("our own stop", "status", "prefix of the reason", "the trainer's word", "text")


def classify(evidence: Evidence, extra: Sequence[Rule] = ()) -> Failure:
    """The class, the action that it asks for, and one redacted cause line.

    ``extra`` are the user's rules: asked before the built-in ones of the same source.
    """
    evidence = _of_last_start(evidence)
    for findings in _stages(evidence, Table(extra, evidence.alone)):
        if findings:
            return _failure(evidence, min(findings, key=_precedence))
    return _failure(evidence, _unknown(evidence))


def explain(evidence: Evidence, extra: Sequence[Rule] = ()) -> Explanation:
    """The same answer, with every other finding that it outranked."""
    evidence = _of_last_start(evidence)
    found = sorted(
        (f for x in _stages(evidence, Table(extra, evidence.alone)) for f in x), key=_precedence
    )
    found = found or [_unknown(evidence)]
    shown = [f._replace(text=_one_line(f.text)) for f in found]
    return Explanation(_failure(evidence, found[0]), shown)


def _of_last_start(evidence: Evidence) -> Evidence:
    """Without what was logged before the last restart in the job: that was survived."""
    log = evidence.log
    said = [i for i, x in enumerate(log) if (p := parse_line(x.text)) and p.everstep == "restart"]
    if not said:
        return evidence
    last = (log[said[-1]].time_epoch, said[-1])
    kept = [line for i, line in enumerate(log) if (line.time_epoch, i) > last]
    return evidence.model_copy(update={"log": kept})


def _precedence(finding: Finding) -> tuple[int, int, float, int]:
    return finding[:4]


def _stages(evidence: Evidence, table: Table) -> Iterator[list[Finding]]:
    yield _by_stop_reason(evidence)
    yield _by_status(evidence, table)
    reason = _by_reason(evidence, table)
    yield [f for f in reason if f.role is Role.CAUSE]
    yield _by_word(evidence, table)
    yield [*by_text(evidence, table), *(f for f in reason if f.role is not Role.CAUSE)]


def _own(
    stage: int, rule_id: str, name: FailureClass, action: Action, text: str, hint: str = ""
) -> list[Finding]:
    rule = Rule(Source.STATUS, rule_id, name, "", action, hint, 1.0)
    return [Finding(stage, Role.CAUSE, 0.0, 0, rule, text)]


def _by_stop_reason(evidence: Evidence) -> list[Finding]:
    why = evidence.stop_reason
    if why is None:
        return []
    name, action, hint = STOP_REASONS[why]
    cause = evidence.stop_detail or f"Everstep stopped the job: {why}"
    return _own(0, f"stop:{why}", name, action, cause, hint)


def _by_status(evidence: Evidence, table: Table) -> list[Finding]:
    outcome = evidence.outcome
    if outcome is None:
        return []
    if outcome.status == "Completed":
        if evidence.alone:
            return _own(1, "completed", F.UNKNOWN, A.WAIT, "the job says Completed")
        return _by_own_stop(evidence.log) or _own(
            1,
            "incomplete",
            F.INCOMPLETE,
            A.RETRY_SAME,
            evidence.incomplete or "the job says Completed without the final checkpoint",
            "a trainer that ends early must leave a final checkpoint: see docs/trainer-contract.md",
        )
    if outcome.status != "Stopped" and outcome.status not in _ALIVE:
        return []
    trail = " ".join([*outcome.transitions, outcome.secondary_status])
    rule = table.find(Source.STATUS, f"{outcome.status}: {trail} | {outcome.message}")
    if rule is None:
        return []
    text = f"job {outcome.status}, {outcome.secondary_status or trail}"
    if rule.id == "stopped":
        text = "the job was stopped by someone"
    elif outcome.message:
        text = f"{text.rstrip(', ')}: {outcome.message}"
    return [Finding(1, rule.role, 0.0, 0, rule, text)]


def _by_own_stop(log: list[LogLine]) -> list[Finding]:
    """A trainer that saved and ended in good time says why in a ``stopped`` line."""
    for line in reversed(log):
        progress = parse_line(line.text)
        if progress is not None and progress.everstep == "stopped":
            if (progress.model_extra or {}).get("reason") == "deadline":
                text = "the trainer saved and ended before its deadline"
                return _own(1, "own-stop", F.MAX_RUNTIME, A.CONTINUE_AS_NEW, text)
            text = "the trainer was told to end, and saved"
            return _own(1, "own-stop", F.INTERRUPTED, A.RETRY_SAME, text)
    return []


def _by_reason(evidence: Evidence, table: Table) -> list[Finding]:
    reason = evidence.outcome.failure_reason if evidence.outcome else ""
    rule = table.of_reason(unwrap(reason[:TEXT_LENGTH])) if reason else None
    if rule is None:
        return []
    stage = 2 if rule.role is Role.CAUSE else 4
    return [Finding(stage, rule.role, math.inf, 0, rule, reason)]


def _by_word(evidence: Evidence, table: Table) -> list[Finding]:
    file = evidence.failure_file
    if file is None or file.failure_class not in set(F):
        return []
    name, cause = FailureClass(str(file.failure_class)), f"{file.kind}: {file.message}"
    rule = table.of_line(cause)
    hint = rule.hint if rule is not None and rule.failure_class == name else ""
    own = Rule(Source.LOG, "failure-file", name, "", ACTIONS[name], hint, 0.95)
    return [Finding(3, Role.CAUSE, file.time_epoch, 0, own, cause, file.rank)]


def _unknown(evidence: Evidence) -> Finding:
    """Honest: no rule matched. Alone, what tells of no trouble may be of a job that is alive."""
    texts = [x.text for x in (*evidence.log, *evidence.events)] if evidence.alone else []
    trouble = [x for x in texts if tells_of_trouble(x[:TEXT_LENGTH])]
    reason = evidence.outcome.failure_reason if evidence.outcome else evidence.state_cause
    text = next(iter([*trouble[::-1], *texts[::-1]]), "") or reason or evidence.state_error
    if not evidence.alone:
        action = A.RETRY_SAME
    elif evidence.outcome is None and (evidence.events or not trouble):
        action = A.WAIT
    else:
        action = A.DO_NOT_RETRY
    hint = DEFAULTS[F.UNKNOWN][1]
    rule = Rule(Source.LOG, "unknown", F.UNKNOWN, "", action, hint, 0.3)
    return Finding(5, Role.VICTIM, math.inf, 0, rule, text or "no cause was found")


def _failure(evidence: Evidence, finding: Finding) -> Failure:
    rule, name = finding.rule, finding.rule.failure_class
    action, hint = DEFAULTS[name]
    action = rule.action or action
    if not evidence.alone:
        if rule.in_run is not None:
            name, action = rule.in_run
        if finding.stage == 4:  # also of a FailureReason that repeats what the program wrote
            name, action = _of_a_run(name, action)
    timed = 0 < finding.time < math.inf
    return Failure(
        failure_class=name,
        action=action,
        cause=_one_line(finding.text),
        rule=rule.id,
        hint=rule.hint or hint,
        rank=finding.rank,
        step=evidence.last_step,
        confidence=rule.confidence,
        time_epoch=finding.time if timed else None,
    )


def _of_a_run(name: FailureClass, action: Action) -> tuple[FailureClass, Action]:
    """A job that is over is not waited for, and its own log cannot ask for a free attempt."""
    if name in PAID:
        name = PAID[name]
        return name, DEFAULTS[name][0]
    return name, ACTIONS[name] if action is A.WAIT else action


def _one_line(text: str) -> str:
    line = " ".join(redact(text[:TEXT_LENGTH]).split())
    return line if len(line) <= CAUSE_LENGTH else line[: CAUSE_LENGTH - 1] + "…"
