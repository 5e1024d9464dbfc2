"""A job's log lines in CloudWatch Logs."""

from typing import Any

from botocore.exceptions import ClientError

from everstep.policy.classify import LogLine
from everstep.policy.watchdog import Line

GROUP = "/aws/sagemaker/TrainingJobs"
PROGRESS_PATTERN = '"everstep"'
TAIL_LINES = 200
MAX_STREAMS = 64
"""A failing job of thousands of hosts: the hosts that wrote last are read, not all of them."""


class JobLogs:
    def __init__(self, client: Any) -> None:
        self._client = client

    def progress(self, job: str, since_epoch: float) -> list[Line]:
        """Progress lines of any host after a time, oldest first."""
        try:
            pages = self._client.get_paginator("filter_log_events").paginate(
                logGroupName=GROUP, logStreamNamePrefix=f"{job}/", filterPattern=PROGRESS_PATTERN,
                startTime=int(since_epoch * 1000),
            )
            events = [event for page in pages for event in page["events"]]
        except ClientError as error:
            if _is_missing(error):
                return []
            raise
        return [Line(e["timestamp"] / 1000, e["message"]) for e in events]

    def tail(self, job: str) -> list[LogLine]:
        """The last lines of each host, in order of time."""
        try:
            streams = self._client.describe_log_streams(
                logGroupName=GROUP, logStreamNamePrefix=f"{job}/", limit=50
            )["logStreams"][:MAX_STREAMS]
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
                LogLine(time_epoch=e["timestamp"] / 1000, host=host, text=e["message"]) for e in events
            ]
        return sorted(lines, key=lambda line: line.time_epoch)


def _is_missing(error: ClientError) -> bool:
    return error.response["Error"]["Code"] == "ResourceNotFoundException"
