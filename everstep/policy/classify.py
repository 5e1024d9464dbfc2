"""Evidence → failure class. The rules are data (``rules``); the order of asking is the policy.

1. our own recorded stop reason; 2. status, secondary status and transitions; 3. the prefix of
FailureReason before its first colon; 4. a class that the trainer's failure file names; 5. all that
was printed or sent as an event, where a cause on any rank outranks every symptom and victim however
loud, and among equals the earliest line wins.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from everstep.contracts.failures import Action, Failure, FailureClass, StopReason
from everstep.contracts.progress import parse_line
from everstep.policy.alive import as_alive, tells_of_trouble
from everstep.policy.evidence import Evidence, LogLine
from everstep.policy.patterns import NCCL_INFO
from everstep.policy.reading import event_parts, facts, parse_json, said, unwrap, without_sdk
from everstep.policy.redact import redact
from everstep.policy.rule import DEFAULTS, PAID, Role, Rule, Source
from everstep.policy.rules import RULES

__all__ = ["ACTIONS", "Evidence", "Explanation", "Finding", "LogLine", "classify", "explain"]

F, A = FailureClass, Action
CAUSE_LENGTH = 300
TEXT_LENGTH = 8192
"""No cause line needs more, and no pattern should meet a megabyte."""
WORDY_LINES = 500
"""The last ones: where no line has a known form, so many are searched for words."""
ANY_EXCEPTION = 1_000_000

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
    StopReason.BUDGET: (F.BUDGET, A.DO_NOT_RETRY, "raise the spec's budget and start {run_id}-cNN"),
    StopReason.IDLE: (F.IDLE, A.RETRY_SAME, "steps were said to be done, and no GPU did any"),
    StopReason.STRAGGLER: (F.STRAGGLER, A.RETRY_REPLACE_NODE, "one rank held all others up"),
}

_ALIVE = frozenset({"InProgress", "Stopping"})
_AWS = re.compile(
    r"boto|sagemaker|s3transfer|error occurred \(|Service: |operation error|Reason|^\s*{"
)
"""Whose codes are AWS's: another library's ``Unsupported`` is not."""
_RANK = re.compile(r"\[[Rr]ank ?(\d{1,6})\]|\brank=(\d{1,6})\b|\bRank (\d{1,6}),|^\[1,(\d{1,6})\]<")
_TORCHRUN_RANK = re.compile(r"^\s*rank\s*: (\d{1,6}) \(local_rank")


class Finding(NamedTuple):
    """One rule that matched. Fields in the order in which findings outrank each other."""

    stage: int
    role: Role
    time: float
    order: int
    rule: Rule
    text: str
    rank: int | None = None


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
    for findings in _stages(evidence, _Table(extra)):
        if findings:
            return _failure(evidence, min(findings, key=_precedence))
    return _failure(evidence, _unknown(evidence))


def explain(evidence: Evidence, extra: Sequence[Rule] = ()) -> Explanation:
    """The same answer, with every other finding that it outranked."""
    evidence = _of_last_start(evidence)
    found = sorted((f for x in _stages(evidence, _Table(extra)) for f in x), key=_precedence)
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


class _Table:
    def __init__(self, extra: Sequence[Rule]) -> None:
        self._of = {
            source: tuple(r for r in (*extra, *RULES) if r.source is source) for source in Source
        }

    def find(self, source: Source, text: str) -> Rule | None:
        """The first rule of the source that matches."""
        text = text[:TEXT_LENGTH]
        search = re.match if source is Source.REASON else re.search
        for rule in self._of[source]:
            match = search(rule.pattern, text, re.DOTALL)
            if match is not None and rule.test(match):
                return rule
        return None

    def of_line(self, line: str) -> Rule | None:
        """The rule of a line; of one that is being mended or is no error, as the job is alive."""
        rule = self._of_line(line)
        return rule if rule is None else as_alive(line[:TEXT_LENGTH], rule)

    def of_words(self, line: str) -> Rule | None:
        """What its words say, where no rule knows its form."""
        rule = self.find(Source.WORDS, line)
        return rule if rule is None else as_alive(line[:TEXT_LENGTH], rule)

    def _of_line(self, line: str) -> Rule | None:
        """A line of a log may hold an API error or a FailureReason in its wrapper, or be JSON."""
        vague = self.find(Source.LOG, line)
        if vague is not None and vague.id != "python":
            return vague
        bare = unwrap(line[:TEXT_LENGTH])
        if bare != line and _AWS.search(line) and (rule := self.find(Source.REASON, bare)):
            return rule
        if parse_json(line) and (rule := self.find(Source.EVENT, facts(line))):
            return rule
        return vague


def _stages(evidence: Evidence, table: _Table) -> Iterator[list[Finding]]:
    yield _by_stop_reason(evidence)
    yield _by_status(evidence, table)
    reason = _by_reason(evidence, table)
    yield [f for f in reason if f.role is Role.CAUSE]
    yield _by_word(evidence, table)
    yield [*_by_text(evidence, table), *(f for f in reason if f.role is not Role.CAUSE)]


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


def _by_status(evidence: Evidence, table: _Table) -> list[Finding]:
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


def _by_reason(evidence: Evidence, table: _Table) -> list[Finding]:
    reason = evidence.outcome.failure_reason if evidence.outcome else ""
    rule = table.find(Source.REASON, unwrap(reason[:TEXT_LENGTH])) if reason else None
    if rule is None:
        return []
    stage = 2 if rule.role is Role.CAUSE else 4
    return [Finding(stage, rule.role, math.inf, 0, rule, reason)]


def _by_word(evidence: Evidence, table: _Table) -> list[Finding]:
    file = evidence.failure_file
    if file is None or file.failure_class not in set(F):
        return []
    name, cause = FailureClass(str(file.failure_class)), f"{file.kind}: {file.message}"
    rule = table.of_line(cause)
    hint = rule.hint if rule is not None and rule.failure_class == name else ""
    own = Rule(Source.LOG, "failure-file", name, "", ACTIONS[name], hint, 0.95)
    return [Finding(3, Role.CAUSE, file.time_epoch, 0, own, cause, file.rank)]


def _by_text(evidence: Evidence, table: _Table) -> list[Finding]:
    found = []
    for order, (time, text, rank) in enumerate(_lines(evidence)):
        if '{"everstep"' in text or NCCL_INFO in text[:TEXT_LENGTH]:
            continue  # progress is no failure, whatever its loss is
        rule = table.of_line(said(text))
        if rule is not None:
            # At one time, a form that is known outranks an exception of any name.
            place = order + ANY_EXCEPTION * (rule.id == "python")
            found.append(Finding(4, rule.role, time, place, rule, text, rank))
    if raised := _raised(evidence, table):
        found.append(raised)
    for event in evidence.events:
        for order, text in enumerate(event_parts(event.text[:TEXT_LENGTH])):
            rule = table.find(Source.EVENT, facts(text)) or next(
                (r for line in text.splitlines() if (r := table.of_line(line))), None
            )
            if rule is not None:
                found.append(Finding(4, rule.role, event.time_epoch, order, rule, text))
    if all(f.role > Role.MURMUR for f in found):
        found += _by_words(evidence, table)
    return found


def _by_words(evidence: Evidence, table: _Table) -> Iterator[Finding]:
    """Last of all, and only then: it is slow, and trusts single words."""
    lines = [*_lines(evidence)][-WORDY_LINES:]
    lines += [(x.time_epoch, y, None) for x in evidence.events for y in x.text.splitlines()]
    for order, (time, text, rank) in enumerate(lines):
        if '{"everstep"' not in text and NCCL_INFO not in text[:TEXT_LENGTH]:
            rule = table.of_words(said(text))
            if rule is not None:
                yield Finding(4, rule.role, time, order, rule, text, rank)


def _raised(evidence: Evidence, table: _Table) -> Finding | None:
    """The first rank's traceback is a cause, whatever its exception is called."""
    file = evidence.failure_file
    text = f"{file.kind}: {file.message}" if file is not None and file.traceback else ""
    if file is None or not text or table.of_line(text) is not None:
        return None
    rule = next(r for r in RULES if r.id == "python")
    return Finding(4, rule.role, file.time_epoch, -1, rule, text, file.rank)


def _lines(evidence: Evidence) -> Iterator[tuple[float, str, int | None]]:
    file = evidence.failure_file
    if file is not None:
        yield file.time_epoch, f"{file.kind}: {file.message}", file.rank
    block: int | None = None
    for line in evidence.log:
        head = line.text[:TEXT_LENGTH]
        if match := _TORCHRUN_RANK.match(head):
            block = int(match[1])
        elif not head.startswith((" ", "\t")):
            block = None
        yield line.time_epoch, line.text, _rank(head) if block is None else block
    if evidence.outcome is not None:
        # SageMaker repeats the failure file here, without a time: after everything that has one.
        for text in _without_prefix(without_sdk(evidence.outcome.failure_reason)):
            yield math.inf, text, _rank(text)


def _rank(text: str) -> int | None:
    """Whoever printed it: ``[rank3]: …``, ``[Rank 3] …``, ``rank=3``, MPI's ``[1,3]<stdout>``."""
    match = _RANK.search(text[:TEXT_LENGTH])
    return int(next(x for x in match.groups() if x)) if match else None


def _without_prefix(reason: str) -> Iterable[str]:
    """Without the Command, whose arguments are no evidence, and may be secrets."""
    # What is left of an empty reason keeps its prefix: it is all that there is to show.
    text = re.sub(r"^AlgorithmError:\s*(?![,\s]*[Ee]xit [Cc]ode)", "", reason[: 4 * TEXT_LENGTH])
    lines = text.replace('ErrorMessage "', "").splitlines()
    return (line for line in lines if not line.startswith('Command "'))


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
