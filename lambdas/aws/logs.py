"""A job's log lines in CloudWatch Logs."""

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from everstep.policy.classify import LogLine
from everstep.policy.watchdog import Line

GROUP = "/aws/sagemaker/TrainingJobs"
PROGRESS_PATTERN = '"everstep"'
TAIL_LINES = 200
MAX_STREAMS = 64
"""Of a job of thousands of hosts not all are read: the failure file says which rank began."""


class JobLogs:
    def __init__(self, client: Any) -> None:
        self._client = client

    def progress(self, job: str, since_epoch: float) -> Iterator[Line]:
        """Progress lines of any host after a time, oldest first. Read when first asked for."""
        try:
            pages = self._client.get_paginator("filter_log_events").paginate(
                logGroupName=GROUP,
                logStreamNamePrefix=f"{job}/",
                filterPattern=PROGRESS_PATTERN,
                startTime=int(since_epoch * 1000),
            )
            events = [event for page in pages for event in page["events"]]
        except ClientError as error:
            if _is_missing(error):
                return
            raise
        lines = (Line(e["timestamp"] / 1000, e["message"]) for e in events)
        yield from sorted(lines, key=lambda line: line.time_epoch)

    def told(self, job: str, since_epoch: float) -> Iterator[tuple[float, str]]:
        """(epoch seconds, text) of progress lines, in no order. A page at a time is held: a run of
        months has a million of them."""
        try:
            pages = self._client.get_paginator("filter_log_events").paginate(
                logGroupName=GROUP,
                logStreamNamePrefix=f"{job}/",
                filterPattern=PROGRESS_PATTERN,
                startTime=int(since_epoch * 1000),
            )
            for page in pages:
                yield from ((e["timestamp"] / 1000, e["message"]) for e in page["events"])
        except ClientError as error:
            if not _is_missing(error):
                raise

    def any_line(self, job: str, since_epoch: float) -> bool:
        """Whether any host said anything at all. A group that is not there is no answer: True."""
        try:
            pages = self._client.get_paginator("filter_log_events").paginate(
                logGroupName=GROUP,
                logStreamNamePrefix=f"{job}/",
                startTime=int(since_epoch * 1000),
                PaginationConfig={"MaxItems": 1},
            )
            return any(page["events"] for page in pages)
        except ClientError as error:
            if _is_missing(error):
                return True
            raise

    def tail(self, job: str) -> list[LogLine]:
        """The last lines of each host, in order of time."""
        try:
            pages = self._client.get_paginator("describe_log_streams").paginate(
                logGroupName=GROUP,
                logStreamNamePrefix=f"{job}/",
                PaginationConfig={"MaxItems": MAX_STREAMS},
            )
            streams = [stream for page in pages for stream in page["logStreams"]]
        except ClientError as error:
            if _is_missing(error):
                return []
            raise
        lines = []
        for stream in streams:
            name = stream["logStreamName"]
            host = name.removeprefix(f"{job}/")
            events = self._client.get_log_events(
                logGroupName=GROUP, logStreamName=name, limit=TAIL_LINES, startFromHead=False
            )["events"]
            lines += [
                LogLine(time_epoch=e["timestamp"] / 1000, host=host, text=e["message"])
                for e in events
            ]
        return sorted(lines, key=lambda line: line.time_epoch)


def _is_missing(error: ClientError) -> bool:
    return error.response["Error"]["Code"] == "ResourceNotFoundException"
