"""The table asked of one line, and all lines of an attempt asked of the table."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from everstep.policy.alive import (
    as_alive,
    gave_up,
    is_calm,
    is_progress,
    revived,
    survived,
    tells_of_trouble,
)
from everstep.policy.evidence import Evidence
from everstep.policy.reading import (
    event_parts,
    facts,
    parse_json,
    said,
    spelled,
    unwrap,
    without_sdk,
)
from everstep.policy.rule import Role, Rule, Source
from everstep.policy.rules import RULES

TEXT_LENGTH = 8192
"""No cause line needs more, and no pattern should meet a megabyte."""
SURE = 0.5
"""Words that say more of an exception than that it is one."""
WORDY_LINES = 500
"""The last ones: where no line has a known form, so many are searched for words."""
STEPS_AFTER = 2
"""One line of another rank may come late."""
ANY_EXCEPTION = 1_000_000

_CAUSES = frozenset(f"words:{x}" for x in ("gpu-memory", "memory", "disk", "nan", "gpu"))
"""What a victim's words never speak of."""
_NUMBER = re.compile(r"\d+")
_NUMBERED = re.compile(
    r"(?i)code|stat|err|\brc\b|xid|signal|exit|http|attempt|retr|\b0 |[=:]\s*0\b"
)
_AWS = re.compile(
    r"boto|sagemaker|s3transfer|error occurred \(|Service: |operation error|Reason|^\s*{"
)
"""Whose codes are AWS's: another library's ``Unsupported`` is not."""
_CLUSTER = re.compile(
    r"\bpods? \\?\"|\bkubelet\b|-scheduler\b|\bkarpenter\b|\bkueue\b|_controller\.go:|-controller\b"
    r"|\bcluster-autoscaler\b|\bnode(?:pool|claim)\b"
)
"""Who speaks of pods in a log says it in the words of its events."""
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


def alike(line: str) -> str:
    """Ranks say the same but for numbers, which mean something only beside some words."""
    line = line[:TEXT_LENGTH]
    return line if _NUMBERED.search(line) else _NUMBER.sub("0", line)


class Table:
    """``alone``: of one text, which may be a controller's; a job's own log is no cluster's."""

    def __init__(self, extra: Sequence[Rule], alone: bool) -> None:
        self._of = {
            source: tuple(r for r in (*extra, *RULES) if r.source is source) for source in Source
        }
        self._own, self._alone = bool(extra), alone
        self._asked: dict[str, Rule | None] = {}

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
        key = line if self._own else alike(line)
        if key not in self._asked:
            rule = self._of_line(line)
            self._asked[key] = rule if rule is None else as_alive(line[:TEXT_LENGTH], rule)
        return self._asked[key]

    def sure(self, line: str) -> Rule | None:
        """What its words say without much doubt, of a line whose form alone says little."""
        rule = self.find(Source.WORDS, line)
        return rule if rule is not None and rule.confidence >= SURE else None

    def of_reason(self, reason: str) -> Rule | None:
        """Of a FailureReason or an API's error, whose code may be one that nobody listed."""
        rule = self.find(Source.REASON, reason)
        if rule is not None and rule.id == "api-other" and (words := self.sure(spelled(reason))):
            return words._replace(role=rule.role)
        return rule

    def of_words(self, line: str) -> Rule | None:
        """What its words say, where no rule knows its form."""
        rule = self.find(Source.WORDS, spelled(line[:TEXT_LENGTH]))
        return rule if rule is None else as_alive(line[:TEXT_LENGTH], rule)

    def _of_line(self, line: str) -> Rule | None:
        """A line of a log may hold an API error or a FailureReason in its wrapper, or be JSON."""
        vague = self.find(Source.LOG, line)
        heard = self._alone and (vague is None or vague.role >= Role.VICTIM)
        if heard and _CLUSTER.search(line) and (rule := self.find(Source.EVENT, line)):
            return rule
        if vague is not None and vague.id != "python":
            return vague
        bare = unwrap(line[:TEXT_LENGTH])
        if bare != line and _AWS.search(line) and (rule := self.of_reason(bare)):
            return rule
        if parse_json(line) and (rule := self.find(Source.EVENT, facts(line))):
            return rule
        if vague and (words := self.sure(line.partition(": ")[2])):
            return words._replace(role=vague.role)  # its name may be anyone's: CapacityError
        return vague


def by_text(evidence: Evidence, table: Table) -> list[Finding]:
    found = []
    for order, (time, text, rank) in enumerate(_lines(evidence)):
        if '{"everstep"' in text or is_calm(text[:TEXT_LENGTH]):
            continue  # progress is no failure, whatever its loss is
        rule = table.of_line(said(text))
        if rule is not None:
            # At one time, a form that is known outranks an exception of any name.
            place = order + ANY_EXCEPTION * (rule.id == "python")
            found.append(Finding(4, rule.role, time, place, rule, text, rank))
    if evidence.alone:
        found = _survived(evidence, found)
    if raised := _raised(evidence, table):
        found.append(raised)
    for event in evidence.events:
        for order, text in enumerate(event_parts(event.text[:TEXT_LENGTH])):
            rule = (
                table.find(Source.EVENT, facts(text))
                or (table.of_reason(unwrap(text)) if '"errorCode"' in text else None)
                or next((r for line in text.splitlines() if (r := table.of_line(line))), None)
            )
            if rule is not None:
                found.append(Finding(4, rule.role, event.time_epoch, order, rule, text))
    if all(f.role >= Role.VICTIM for f in found):
        found += _by_words(evidence, table)
    return _ended(evidence, found) if evidence.alone else found


def _survived(evidence: Evidence, found: list[Finding]) -> list[Finding]:
    """What steps were made after, and nothing else was said: a text that ends with them."""
    steps = [i for i, (_, text, _) in enumerate(_lines(evidence)) if is_progress(text)]
    last = max((f.order % ANY_EXCEPTION for f in found), default=0)
    if len([i for i in steps if i > last]) < STEPS_AFTER:
        return found
    return [f._replace(role=Role.ALIVE, rule=survived(f.rule)) for f in found]


def _ended(evidence: Evidence, found: list[Finding]) -> list[Finding]:
    """What was tried again, or done without, is what it ended of where a later line says so."""
    if not found or any(f.role is not Role.ALIVE for f in found):
        return found
    last = max(f.order % ANY_EXCEPTION for f in found)
    later = [x for i, (_, x, _) in enumerate(_lines(evidence)) if i > last]
    if not any(tells_of_trouble(x[:TEXT_LENGTH]) or gave_up(x[:TEXT_LENGTH]) for x in later):
        return found
    return [f._replace(role=Role.MURMUR, rule=revived(f.rule)) for f in found]


def _by_words(evidence: Evidence, table: Table) -> Iterator[Finding]:
    """Last of all, and only then: it is slow, and trusts single words."""
    lines = [*_lines(evidence)][-WORDY_LINES:]
    lines += [(x.time_epoch, y, None) for x in evidence.events for y in x.text.splitlines()]
    heard = set[str]()
    for order, (time, text, rank) in enumerate(lines):
        if (key := alike(said(text))) in heard:
            continue
        heard.add(key)
        if '{"everstep"' not in text and not is_calm(text[:TEXT_LENGTH]):
            rule = table.of_words(said(text))
            known = table.of_line(said(text))
            if rule is None or (known is not None and known.confidence >= SURE):
                continue
            if rule.role is Role.MURMUR and rule.id in _CAUSES:
                rule = rule._replace(role=Role.SYMPTOM)
            yield Finding(4, rule.role, time, order, rule, text, rank)


def _raised(evidence: Evidence, table: Table) -> Finding | None:
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
