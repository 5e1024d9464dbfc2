"""Is a line one of a job that goes on? A warning, a retry, a word of trouble that tells of none."""

import re

from everstep.contracts.failures import Action, FailureClass
from everstep.policy.rule import DEFAULTS, Role, Rule

F, A = FailureClass, Action

RETRYING = (
    r"(?i)\bretrying\b"
    r"|\bwill (?:be )?retr(?:y|ied)|\bre-?try(?:ing)? (?:attempt )?[(#]?\d+"
    r"|\battempt \d+ ?(?:/|of) ?\d+|willretry=1|\bbacking off|\b(?<!out )(?<!after )(?:sleep|wait)"
    r"ing (?:for )?[\d.]+ ?"
    r"(?:m?s|sec\w*)\b|\breconnect(?:ed|ing)|\b(?:trying|tries|retries) again in|wait for recovery"
    r"|connection restored|still (?:waiting|trying)|retry loop|will restart"
    r"|\[W[^\]]*\].*failed to connect"
)
"""A program that is at it itself: the job is alive, unless it says next that it gave up."""
SURVIVED = (
    r"(?i)\bignor(?:ed|ing)\b|\bskipp(?:ed|ing)\b|\bwill continue|\bcontinuing\b|\bgoing on\b"
    r"|\bfall(?:ing|s)? ?back\b|\bgoing to \S+ instead|\busing (?:internal|(?:the )?default|tcp|so"
    r"ckets?)\b|\bdefault(?:ing|s) to\b|\brecovered\b|\bnon-?fatal\b"
)
"""A program that does without what it could not have."""
CORRECTED = (
    r"(?i)^(?!.*(?:exceed|threshold|unhealthy|uncorrect|fail)).*(?:\bcorrect(?:ed|able)\b.{0,30}\b"
    r"err"
    r"|\berr.{0,30}\bcorrect(?:ed|able)\b|severity=Corrected|\bEDAC .* CE )"
)
"""Hardware that mended its own error."""
GAVE_UP = (
    r"(?i)sending sigkill|\baborting\b|\bterminating\b|giv(?:ing|en?) up|gave up|exhausted"
    r"|max(?:imum)? (?:number of )?(?:retries|attempts)|aft"
    r"er "
    r"\d+ (?:re)?(?:tries|attempts)|retries exceeded|no more (?:re)?tries|not retry"
)
PROGRESS = (
    r"(?i)^(?!.*\b(?:nan|inf|error|exception|failed|fatal|aborted|killed|timeout)\b).*\b(?:step"
    r"|iter(?:ation)?|epoch|global_step)s?\b[\"'\]]?[ =:|\[(]*\d[\d,]*"
    r".*(?:\bloss|\blr\b|\btok|\bgrad|samples|it/s|s/it|/sec)"
    r"|^(?!.*\bnan\b).*\d+%\|.*\d+/\d+.*it/?s?\]\s*$"
    r"|^\{'(?:train_|eval_)?loss': [\d.]+[,}]"
)
"""A step was made: by a loop's own line or by tqdm's bar."""
GARBAGE = "more than 1EB memory"
"""What a timed-out collective left behind, not a size that anyone asked for."""
NCCL_INFO = "NCCL INFO "
"""Told beside an error, and just as well without one."""
WARNING = (
    r":\d\d(?:\.\d+)?: [WI] \S+|\[I\d{3,4} \d\d:|\[W\d{3,4} [^\]]*\].*\bc(?:an|ould) potentially |"
    r"^(?:\[\w+\]:?\s*)*[IW]\d{4} \d\d:\d\d:|"
    r"^(?:[\d:,.TZ+ |-]{8,40})?\W{0,3}(?:WARN(?:ING)?|INFO|DEBUG|TRACE|NOTICE)\b"
    r"|^\[[WID]\] |^[\w.]{0,40} ?(?:\[|- )?(?:WARNING|INFO|DEBUG)[\]: -]|\b\w*[Ww]arning: "
    r"|^.{0,60}\[(?:WARN(?:ING)?|INFO|DEBUG)\]|(?i:\blevel[\"=: ]+(?:warn|info|debug))| - (?:WARNI"
    r"NG|INFO|DEBUG) - |\| (?:WARNING|INFO|DEBUG) +\|"
)
"""A logger's own word for what it does not hold for an error."""
MACHINE = (
    r"NVRM|infoROM|\bGPU (?:\d|[0-9A-Fa-f]{4,8}:)|\bS?X[Ii][Dd]|NET/|libfabric|\bkernel: "
    r"|Severity\":\"Fatal|failed to shutdown the rendezvous"
)
"""Drivers and kernels, whose levels say nothing of what becomes of the job."""
_NONE = (
    "".join(
        rf"(?<!{x} )"
        for x in (
            "rank",
            "gpu",
            "device",
            "node",
            "worker",
            "host",
            "process",
            "stage",
            "step",
            "cpu",
            "link",
            "port",
            "replica",
            "shard",
            "attempt",
            "code",
            "core",
        )
    )
    + "0"
)
"""A count of none, not the number of something."""
CALM = (
    r"(?i)\b(?:nan|inf)\b[\w ]{0,20}[:=]\s*0\b|\b(?:can|may|might|could|will) (?:\w+ )?(?:cause"
    rf"|result in|lead to)\b.*|\b(?:no|zero|without|{_NONE}) (?:\w+ ){{0,2}}(?:errors?"
    r"|fail\w*|exceptions?|crash\w*|missing)\b"
    r"|(?:\b|_)errors?\b\W{0,3}\d+\.\d|\b(?:perf|audit): .*|\b(?:errors?|failed|failures?|exceptio"
    r"ns?|exit(?: ?code| status)?"
    r"|\w*err)[\"']?\s*[:=]\s*(?:0\b"
    r"|none|null|false|\d+\.\d)|error[_ -]?(?:rate|bars?|feedback|handl\w+|correct\w+|threshold)"
    r"|(?:squared|absolute|mean|train\w*|eval\w*|test|val\w*|word|top\d) error\b|on[-_]error"
    r"|\[W(?:\d{3,4} | ?\w+\.cpp)|\byou (?:may|might) (?:observe|experience|see|encounter|want)\b.*"
    r"|exit(?:ed)? (?:with )?(?:code |status )?\(?0\b|error[_-]?(?:log|file|dir|path)"
)
"""Words of trouble in a line that tells of none."""

_TROUBLE = re.compile(r"(?i)error|exception|fail|abort|killed|fatal|exit|crash|denied|traceback")
_CALM, _WARNING, _MACHINE = re.compile(CALM), re.compile(WARNING), re.compile(MACHINE)
_RETRYING, _GAVE_UP = re.compile(RETRYING), re.compile(GAVE_UP)
_SURVIVED, _CORRECTED = re.compile(SURVIVED), re.compile(CORRECTED)
_PROGRESS = re.compile(PROGRESS)
_PASSING = frozenset(
    {F.STORAGE_TRANSIENT, F.THROTTLING, F.CAPACITY, F.INFRASTRUCTURE, F.COMMUNICATION_HANG}
)
"""What a program may mend by trying again."""
_MENDABLE = _PASSING | {F.BAD_CONFIG, F.BAD_DATA, F.USER_CODE, F.OUT_OF_MEMORY_GPU, F.UNKNOWN}
"""What it may also survive: a warning of it is no end."""


_SURVIVABLE = _MENDABLE | {F.DIVERGED}
"""What a program may skip and say so: a step that overflowed, a sample, a plugin."""


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
    machine = _MACHINE.search(line) is not None
    if not machine and _SURVIVED.search(line) and rule.failure_class in _SURVIVABLE:
        return survived(rule)
    passing = rule.failure_class in _PASSING
    warned = not machine and _WARNING.search(line) is not None
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


def revived(rule: Rule) -> Rule:
    """A survived rule's own class and action."""
    name, action = rule.in_run or (rule.failure_class, rule.action)
    return rule._replace(failure_class=name, action=action)


def gave_up(line: str) -> bool:
    """A program that tries no longer."""
    return _GAVE_UP.search(line) is not None


def is_progress(line: str) -> bool:
    """A step of training, whatever words are in it."""
    return _PROGRESS.search(line) is not None


def is_calm(line: str) -> bool:
    """Printed by a job at work, beside an error and without one."""
    if NCCL_INFO in line or GARBAGE in line or is_progress(line):
        return True
    return ("orrect" in line or " CE " in line) and _CORRECTED.search(line) is not None


def tells_of_trouble(line: str) -> bool:
    """By its words, unless they are of none: ``0 errors``, ``error=0.12``, a warning, a retry."""
    if _WARNING.search(line) or is_calm(line):
        return False
    if (_RETRYING.search(line) or _SURVIVED.search(line)) and not _GAVE_UP.search(line):
        return False
    return bool(_TROUBLE.search(_CALM.sub("", line)))
