"""One text and the kind of place that it came from → evidence. Structure is parsed, not searched.

The kinds are those of ``Where``. JSON of a known shape becomes status, codes and ``key=value``
facts; wrappers that SDKs put around a FailureReason are taken off.
"""

import ast
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from everstep.contracts.events import TERMINAL_JOB_STATUSES
from everstep.contracts.records import Outcome
from everstep.policy.evidence import Evidence, LogLine


class Where(StrEnum):
    """Kinds of input, in the words of the data that they are studied from."""

    LOG = "CloudWatch log"
    API = "exception from API call"
    REASON = "FailureReason of DescribeTrainingJob"
    STATUS = "DescribeTrainingJob status"
    KUBERNETES = "Kubernetes event or pod status"
    EVENT = "EventBridge event"


_SDK = re.compile(
    r"(?s)^(?:[\w.]+: )?(?:Error for|Error training) ?\w* ?\w* [\w-]+: (?:Failed|Stopped)"
    r"[.,]? Reason: (.*?)(?:\.? Check troubleshooting guide.*)?$"
)
_REASON = re.compile(
    r"(?s)^(?!\w+Error:).{0,300}?\b(?:Failure|Failed)? ?Reason[\"']?: +[\"']?"
    r"(?=(?:Client|Algorithm|InternalServer|Capacity|ResourceLimit)\w*: )(.*)"
)
"""Whoever wrapped a FailureReason, its prefix is one of the service's."""
_TAG = re.compile(
    r"^(?:\[\d+,\d+\]<std\w+>:? ?|\([\w ,.-]{0,60}pid=\d+[^)]{0,60}\) ?"
    r"|\[(?:rank|Rank |default)\d+\]:? ?"
    r"|\S+ std(?:out|err) [FP] |(?:algo|worker|node|host)-\d+ ?\| ?|\d+: (?=\S)){1,4}"
)
"""Whoever printed a line: mpirun, Ray, torchrun, a container's runtime, compose, srun."""
_BOTO = re.compile(
    r"(?s)(?:^|[\w.]{1,80}: |\s)An error occurred \(([\w.:-]+)\) when calling the (\w+) operation"
    r"(?: \([^)]*\))?:? ?(.*)"
)
_SHORT_BOTO = re.compile(r"(?s)(?:^|[\w.]{1,80}: )An error occurred \(([\w.:-]+)\):? ?(.*)")
_CUT_BOTO = re.compile(r"(?s)^(\w+)\) when calling the (\w+) operation(?: \([^)]*\))?:? ?(.*)")
_JAVA = re.compile(
    r"(?s)^(?:[\w.$]+: )?(.*?) ?\(Service: ([\w ]+); Status Code: \d+; Error Code: ([\w.]+)"
)
_GO = re.compile(r"(?s)operation error [\w ]+: (\w+), .*(?:, |api error )([A-Z]\w+): (.*)$")
_MODULE = re.compile(r"^(?:[a-z_]\w*\.)+(?=[A-Z])")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z][a-z])|_+(?=[A-Za-z])")
_FIELD = re.compile(
    r"[\"']?\b(?:(?P<word>TrainingJobStatus|SecondaryStatus)[\"']?\s*[:=|]\s*[\"']?(?P<is>\w+)"
    r"|(?P<text>StatusMessage|FailureReason)[\"']?\s*[:=|]\s*[\"']?(?P<says>[^\"'\n,}|]+))"
)
"""A field of DescribeTrainingJob where it was printed as YAML, a table or a Python dict."""
_CONSOLE = re.compile(r"^(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d )?([A-Z]\w+) - (.*?)\.*\s*$")
_DESCRIBED = re.compile(r"^\s*(?:-\s+)?\"?([A-Za-z][\w /-]{0,40})\"?\s*:\s+(\S.*)$")
_CONDITION = re.compile(r"^\s*([A-Z]\w{2,40})\s+(True|False|Unknown)\s")
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[ T_](\d\d:\d\d:\d\d(?:[.,]\d{1,6})?)(Z|[+-]\d\d:?\d\d)?")
_OVER = re.compile(
    r"(?i)max\w*(runtime|wait|pending)\w* ?exceeded"
    r"|exceeded (?:the )?max\w*(runtime|wait|pending)"
)
_STOPPED = frozenset(
    {"Stopped", "MaxRuntimeExceeded", "MaxWaitTimeExceeded", "MaxPendingTimeExceeded"}
)
_ENDED = frozenset({"Failed", "Completed"})


def read(text: str, where: Where) -> Evidence:
    """Evidence of one text alone: no history, no other source."""
    match where:
        case Where.LOG:
            return Evidence(alone=True, log=log_lines(text))
        case Where.API | Where.REASON:
            return Evidence(alone=True, outcome=_failed(text))
        case Where.STATUS:
            return Evidence(alone=True, outcome=_status(text))
        case Where.KUBERNETES | Where.EVENT:
            event = parse_json(text)
            detail = event.get("detail") if event else None
            if isinstance(detail, dict) and (kind := _job_status(detail)):
                return Evidence(alone=True, outcome=_described(_as_training(detail, kind)))
            return Evidence(
                alone=True, events=[LogLine(time_epoch=time_of(text) or 0.0, text=text)]
            )


def _job_status(detail: dict[str, Any]) -> str | None:
    """The key of a SageMaker job's status: ``ProcessingJobStatus`` means what Training's does."""
    return next((x for x in detail if re.fullmatch(r"[A-Z]\w*JobStatus", x)), None)


def _as_training(detail: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"SecondaryStatus": detail[kind], **detail, "TrainingJobStatus": detail[kind]}


def log_lines(text: str) -> list[LogLine]:
    """A line without a stamp of its own was printed with the one before."""
    lines, now = [], 0.0
    for line in text.splitlines():
        now = time_of(line) or now
        lines.append(LogLine(time_epoch=now, text=line))
    return lines


def time_of(line: str) -> float | None:
    """The first ISO time near the start of a line; without a zone it is UTC."""
    match = _STAMP.search(line[:200])
    if match is None:
        return None
    day, clock, zone = match.groups()
    try:
        found = datetime.fromisoformat(f"{day}T{clock.replace(',', '.')}{(zone or '+00:00')}")
    except ValueError:
        return None  # looks like a time and is none: the line keeps its place
    return found.replace(tzinfo=found.tzinfo or UTC).timestamp()


DICT_LENGTH = 16_384
"""Python's own parser is not to be given a megabyte."""


def parse_json(text: str) -> dict[str, Any] | None:
    """None for what is not one JSON object."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        if len(text) > DICT_LENGTH:
            return None
        try:
            found = ast.literal_eval(text.strip())  # a dict as Python prints it
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return None
    return found if isinstance(found, dict) else None


def facts(text: str) -> str:
    """``key=value`` pairs of an event's JSON or of ``kubectl describe`` lines, else the text."""
    event = parse_json(text)
    if event is not None:
        return "; ".join(_pairs(event))
    pairs = [
        f"{match[1].replace(' ', '')}={match[2].strip()}"
        for line in text.splitlines()
        if (match := _DESCRIBED.match(line))
    ]
    pairs += [
        f"type={match[1]} status={match[2]}"
        for line in text.splitlines()
        if (match := _CONDITION.match(line))
    ]
    # The order of the keys is the printer's; a condition's type and status belong together.
    return "; ".join([*sorted(pairs, key=_rank_of_key), text])


def spelled(line: str) -> str:
    """``NodeNotReady`` and ``RESOURCE_EXHAUSTED`` as words."""
    return _CAMEL.sub(" ", line)


def event_parts(text: str) -> list[str]:
    """The lines of a table of Kubernetes events, each an event; else the text as one."""
    lines = [x for x in text.splitlines() if x.strip()]
    rows = [x for x in lines if re.match(r"\s*(?:Normal|Warning)\s", x)]
    return rows if len(rows) > 1 and len(rows) == len(lines) else [text]


def _rank_of_key(pair: str) -> int:
    return {"type": 0, "status": 1, "reason": 2}.get(pair.split("=")[0].lower(), 3)


def _pairs(value: Any, key: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        if {"type", "status"} <= set(value):
            yield f"type={value['type']} status={value['status']}"
        for name, inner in value.items():
            yield from _pairs(inner, str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _pairs(inner, key)
    elif value is not None:
        yield f"{key}={value}"


def unwrap(text: str) -> str:
    """A FailureReason without the SDK's words; an API error as ``Code: message [calling Op]``."""
    body = parse_json(text)
    if body is not None:
        return _from_json(body) or text
    text = without_sdk(text)
    if match := _BOTO.search(text):
        if not text.startswith(("AlgorithmError", "InternalServerError", "CapacityError")):
            return f"{match[1]}: {match[3]} [calling {match[2]}]"
        return text
    if match := _SHORT_BOTO.match(text):
        return f"{match[1]}: {match[2]}"
    if match := _CUT_BOTO.match(text):
        return f"{match[1]}: {match[3]} [calling {match[2]}]"
    if match := _JAVA.match(text):
        return f"{match[3]}: {match[1]} [calling {match[2]}]"
    if match := _GO.search(text):
        return f"{match[2]}: {match[3]} [calling {match[1]}]"
    return _MODULE.sub("", _last_of_traceback(text).strip())


def without_sdk(text: str) -> str:
    """A FailureReason without the words that ``wait()`` of the SDK puts around it."""
    match = _SDK.search(text) or _REASON.search(text)
    return match[1] if match else text


def said(line: str) -> str:
    """A line without the tags of whoever passed it on."""
    return _TAG.sub("", line)


def _last_of_traceback(text: str) -> str:
    if not text.startswith("Traceback (most recent call last)"):
        return text
    lines = [x for x in text.splitlines() if x and not x[0].isspace()]
    return lines[-1]


def _from_json(body: dict[str, Any]) -> str:
    """The shapes of boto3, of CreateFleet's ``Errors`` and of the wire's ``__type``."""
    detail = body.get("detail")
    if isinstance(detail, dict) and detail.get("errorCode"):  # an API call told by CloudTrail
        said = detail.get("errorMessage", "")
        return f"{detail['errorCode']}: {said} [calling {detail.get('eventName', '')}]"
    errors = body.get("Errors")
    inner = errors[0] if isinstance(errors, list) and errors else body.get("Error", body)
    if isinstance(spot := body.get("Status"), dict) and "SpotInstanceRequestId" in body:
        inner = spot
    if not isinstance(inner, dict):
        return ""
    codes = ("Code", "ErrorCode", "code", "errorCode", "__type", "aws-error-code", "FailureCode")
    said = ("Message", "ErrorMessage", "message", "errorMessage", "FailureMessage", "FailureReason")
    code = next((str(inner[x]) for x in codes if inner.get(x)), "")
    message = next((str(inner[x]) for x in said if inner.get(x)), "")
    return f"{code.rsplit('#')[-1]}: {message}" if code else message


def _failed(reason: str) -> Outcome:
    return Outcome(status="Failed", secondary_status="Failed", failure_reason=reason)


def _status(text: str) -> Outcome:
    """DescribeTrainingJob in whatever form, the SDK's console, or one StatusMessage."""
    body = parse_json(text) or _printed(text)
    if body is not None:
        return _described(body)
    seen = [match.groups() for line in text.splitlines() if (match := _CONSOLE.match(line))]
    last, message = seen[-1] if seen else ("", text.strip())
    if not seen and message in TERMINAL_JOB_STATUSES | _STOPPED:
        last = message
    elif not seen and (over := _OVER.search(message)):
        kind = (over[1] or over[2]).lower()
        last = "MaxRuntimeExceeded" if kind == "runtime" else "MaxWaitTimeExceeded"
    ended = "Stopped" if last in _STOPPED else last if last in _ENDED else "InProgress"
    return Outcome(
        status=ended,
        secondary_status=last,
        transitions=[status for status, _ in seen],
        message=message,
    )


def _printed(text: str) -> dict[str, Any] | None:
    """The last value of each field; None where no status is among them."""
    found = {
        match["word"] or match["text"]: (match["is"] or match["says"]).strip()
        for match in _FIELD.finditer(text)
    }
    if not {"TrainingJobStatus", "SecondaryStatus"} & found.keys():
        return None
    steps = re.findall(r"[\"']?\bStatus[\"']?\s*[:=]\s*[\"']?(\w+)", text)
    step = {"Status": found.get("SecondaryStatus", ""), "StatusMessage": found.get("StatusMessage")}
    return {**found, "SecondaryStatusTransitions": [*({"Status": x} for x in steps), step]}


def _described(body: dict[str, Any]) -> Outcome:
    steps = body.get("SecondaryStatusTransitions") or []
    steps = [x for x in steps if isinstance(x, dict)]
    secondary = str(body.get("SecondaryStatus") or (steps[-1].get("Status", "") if steps else ""))
    ended = (
        "Stopped" if secondary in _STOPPED else secondary if secondary in _ENDED else "InProgress"
    )
    return Outcome(
        status=str(body.get("TrainingJobStatus") or ended),
        secondary_status=secondary,
        failure_reason=str(body.get("FailureReason") or ""),
        transitions=[str(x.get("Status", "")) for x in steps],
        message=str(steps[-1].get("StatusMessage") or "") if steps else "",
    )
