"""Is a line one of a job that goes on? A warning, a retry, a word of trouble that tells of none."""

import re

from everstep.contracts.failures import Action, FailureClass
from everstep.policy.patterns import (
    CALM,
    GARBAGE,
    GAVE_UP,
    MACHINE,
    NCCL_INFO,
    PROGRESS,
    RETRYING,
    WARNING,
)
from everstep.policy.rule import DEFAULTS, Role, Rule

F, A = FailureClass, Action

_TROUBLE = re.compile(r"(?i)error|exception|fail|abort|killed|fatal|exit|crash|denied|traceback")
_CALM, _WARNING, _MACHINE = re.compile(CALM), re.compile(WARNING), re.compile(MACHINE)
_RETRYING, _GAVE_UP = re.compile(RETRYING), re.compile(GAVE_UP)
_PROGRESS = re.compile(PROGRESS)
_PASSING = frozenset(
    {F.STORAGE_TRANSIENT, F.THROTTLING, F.CAPACITY, F.INFRASTRUCTURE, F.COMMUNICATION_HANG}
)
"""What a program may mend by trying again."""
_MENDABLE = _PASSING | {F.BAD_CONFIG, F.BAD_DATA, F.USER_CODE, F.OUT_OF_MEMORY_GPU, F.UNKNOWN}
"""What it may also survive: a warning of it is no end."""


def as_alive(line: str, rule: Rule) -> Rule:
    """The rule, but last of all and without an action, where the line tells of no end.

    A program that tries again, or that only warns, goes on; what breaks hardware under it is logged
    at any level. In a run that ended, the line may still be the best that there is. A person's own
    rule is believed as it is.
    """
    if rule.id.startswith("user:"):
        return rule
    murmur = rule.role is Role.MURMUR
    if _GAVE_UP.search(line):
        return rule
    passing = rule.failure_class in _PASSING
    warned = _WARNING.search(line) is not None and not _MACHINE.search(line)
    if rule.failure_class not in _MENDABLE and not murmur:
        alive = warned and _RETRYING.search(line) is not None
    elif murmur:
        alive = warned or bool(_RETRYING.search(line) or _CALM.search(line))
    elif passing and _RETRYING.search(line):
        alive = True
    else:
        alive = warned and not (rule.failure_class is F.INFRASTRUCTURE and rule.role is Role.CAUSE)
    if not alive:
        return rule
    return survived(rule)


def survived(rule: Rule) -> Rule:
    """The rule as one of a job that goes on: it asks for nothing."""
    known = rule.failure_class in _PASSING - {F.COMMUNICATION_HANG} and rule.role is not Role.MURMUR
    return rule._replace(
        role=Role.ALIVE,
        failure_class=rule.failure_class if known else F.UNKNOWN,
        action=A.WAIT,
        in_run=rule.in_run or (rule.failure_class, rule.action or DEFAULTS[rule.failure_class][0]),
    )


def is_progress(line: str) -> bool:
    """A step of training, whatever words are in it."""
    return _PROGRESS.search(line) is not None


def is_calm(line: str) -> bool:
    """Printed by a job at work, beside an error and without one."""
    return NCCL_INFO in line or GARBAGE in line or is_progress(line)


def tells_of_trouble(line: str) -> bool:
    """By its words, unless they are of none: ``0 errors``, ``error=0.12``, a warning, a retry."""
    if _WARNING.search(line) or is_calm(line):
        return False
    if _RETRYING.search(line) and not _GAVE_UP.search(line):
        return False
    return bool(_TROUBLE.search(_CALM.sub("", line)))
