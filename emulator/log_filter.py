"""FilterLogEvents: by stream prefix and time, without reading what is before it.

moto takes no prefix into account and tests every event of the group, which grows with history.
"""

import re
from bisect import bisect_left
from typing import Any

from moto.logs.models import logs_backends

from emulator.front import Front, NotOurs
from emulator.names import ACCOUNT, REGION, AwsError

_MOST = 10_000
_TERM = re.compile(r'([-?]?)(?:"((?:[^"\\]|\\.)*)"|(\S+))')


class LogFilter:
    """The operation, over moto's store."""

    def register(self, front: Front) -> None:
        """Take it over from moto."""
        front.add("Logs_20140328.FilterLogEvents", self.filter)

    def filter(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Events of matching streams in order of time, then of stream."""
        pattern = parameters.get("filterPattern") or ""
        if pattern.startswith(("{", "[", "%")):
            raise NotOurs
        name = parameters.get("logGroupName") or parameters["logGroupIdentifier"].split(":")[6]
        group = logs_backends[ACCOUNT][REGION].groups.get(name)
        if group is None:
            raise AwsError("ResourceNotFoundException", "The specified log group does not exist.")
        named = parameters.get("logStreamNames")
        prefix = parameters.get("logStreamNamePrefix", "")
        wanted = _wanted(pattern)
        start, end = parameters.get("startTime", 0), parameters.get("endTime", 1 << 62)
        found = [
            (event.timestamp, stream_name, number, event)
            for stream_name, stream in list(group.streams.items())
            if (stream_name in named if named else stream_name.startswith(prefix))
            for number, event in _between(stream.events, start, end)
            if wanted(event.message)
        ]
        found.sort(key=lambda row: row[:3])
        at = int(parameters.get("nextToken") or 0)
        count = min(int(parameters.get("limit") or _MOST), _MOST)
        events = [
            {
                "logStreamName": stream_name,
                "timestamp": event.timestamp,
                "message": event.message,
                "ingestionTime": event.ingestion_time,
                "eventId": f"{event.event_id:056d}",
            }
            for _, stream_name, _, event in found[at : at + count]
        ]
        more = {"nextToken": str(at + count)} if at + count < len(found) else {}
        return {"events": events, "searchedLogStreams": [], **more}


def _between(events: list[Any], start: int, end: int) -> Any:
    first = bisect_left(events, start, key=lambda event: event.timestamp)
    for number in range(first, len(events)):
        if events[number].timestamp > end:
            return
        yield number, events[number]


def _wanted(pattern: str) -> Any:
    """Terms that must all be there, ``?`` terms of which one must, ``-`` terms that must not."""
    terms: dict[str, list[str]] = {"": [], "?": [], "-": []}
    for sign, phrase, word in _TERM.findall(pattern):
        terms[sign].append(phrase.replace('\\"', '"') or word)
    needed, optional, refused = terms[""], terms["?"], terms["-"]

    def test(message: str) -> bool:
        return (
            all(term in message for term in needed)
            and not any(term in message for term in refused)
            and (not optional or any(term in message for term in optional))
        )

    return test
