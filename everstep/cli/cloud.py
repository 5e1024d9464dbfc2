"""Where an environment's things are, from its stacks' outputs, and the clients to reach them."""

import os
import time
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any, NamedTuple

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as NoConnection

from everstep.cli.errors import NOT_FOUND, fail
from everstep.contracts import names
from everstep.contracts.records import (
    EXPORT_PREFIX,
    LAUNCH_PREFIX,
    RUN_ITEM,
    Launch,
    Run,
    from_item,
    job_name,
    launch_item,
)
from everstep.policy.goodput import StepTime
from everstep.report.steps import step_lines, times

LOG_GROUP = "/aws/sagemaker/TrainingJobs"
TRIES, READ_SECONDS = 3, 20.0
"""botocore's own would wait five minutes for a server that takes connections and says nothing."""
BUSY = frozenset(
    {
        "InternalServerError",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestTimeout",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
"""Codes of refusals that pass."""


class LogEvent(NamedTuple):
    """One line of one host: ``time`` in epoch seconds, ``host`` as its stream is called."""

    time: float
    host: str
    text: str
    id: str


def error_code(error: ClientError) -> str:
    """AWS's word for what went wrong, ``ThrottlingException``."""
    return str(error.response.get("Error", {}).get("Code", ""))


def passes(error: ClientError | BotoCoreError) -> bool:
    """Whether the same question may be answered later."""
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return error_code(error) in BUSY or status >= 500
    return isinstance(error, HTTPClientError | NoConnection)


def default_env() -> str:
    """``EVERSTEP_ENV``; else the emulator's where an endpoint is set, else ``dev``."""
    return os.environ.get("EVERSTEP_ENV") or (
        "local" if os.environ.get("AWS_ENDPOINT_URL") else "dev"
    )


class Cloud:
    """One environment: AWS, or the emulator. ``session`` carries region and credentials.

    ``endpoint`` is an emulator of this machine: no proxy of the environment is asked for it.
    """

    def __init__(
        self,
        env: str,
        session: boto3.Session | None = None,
        endpoint: str | None = None,
        clock: Callable[[], float] = time.time,
        tries: int = TRIES,
        read_timeout: float = READ_SECONDS,
    ):
        self.env, self.clock, self._endpoint = env, clock, endpoint
        # AWS_REGION is the AWS CLI's; boto3 reads AWS_DEFAULT_REGION alone.
        self._session = session or boto3.Session(region_name=os.environ.get("AWS_REGION"))
        self._config = Config(
            retries={"mode": "adaptive", "max_attempts": tries},
            connect_timeout=5,
            read_timeout=read_timeout,
            s3={"addressing_style": "path"}
            if endpoint or os.environ.get("AWS_ENDPOINT_URL")
            else None,
            # botocore looks into the environment only where this is None
            proxies={} if endpoint else None,
        )
        self.client = cache(self._client)

    @property
    def can_ask(self) -> bool:
        """There are credentials, or an emulator that needs none of anybody's."""
        emulated = self._endpoint or os.environ.get("AWS_ENDPOINT_URL")
        return bool(emulated) or self._session.get_credentials() is not None

    def _client(self, service: str) -> Any:
        try:
            return self._session.client(  # type: ignore[call-overload]
                service, endpoint_url=self._endpoint, config=self._config
            )
        except ValueError as error:  # botocore's, of AWS_ENDPOINT_URL or an odd region
            fail(str(error), "AWS_ENDPOINT_URL is a URL: `everstep local env`", NOT_FOUND)

    @property
    def emulated(self) -> bool:
        """An emulator of this machine, not AWS."""
        return bool(self._endpoint or os.environ.get("AWS_ENDPOINT_URL"))

    @property
    def region(self) -> str | None:
        return self._session.region_name

    @cached_property
    def outputs(self) -> dict[str, str]:
        """Every output of the environment's stacks."""
        found: dict[str, str] = {}
        for part in ("storage", "control-plane"):
            stack = names.stack_name(self.env, part)
            try:
                answer = self.client("cloudformation").describe_stacks(StackName=stack)
            except ClientError as error:
                if error_code(error) != "ValidationError":
                    raise
                fail(
                    f"environment {self.env!r} is not deployed here: no stack {stack!r}",
                    f"cdk deploy --all -c env={self.env}; or name another with --env",
                    NOT_FOUND,
                )
            for output in answer["Stacks"][0].get("Outputs", []):
                found[output["OutputKey"]] = output["OutputValue"]
        return found

    def machines(self) -> dict[str, str]:
        """ARNs of the state machines by the team's construct id."""
        return {
            key.removeprefix(names.OUTPUT_MACHINE): value
            for key, value in self.outputs.items()
            if key.startswith(names.OUTPUT_MACHINE)
        }

    def machine_arn(self, team: str | None) -> str:
        """The team's state machine; the only one where no team is named."""
        machines = self.machines()
        wanted = names.construct_id(team) if team else next(iter(machines), "")
        if wanted not in machines or (team is None and len(machines) > 1):
            prefix = names.machine_name(self.env, "")
            teams = sorted(arn.rpartition(":")[2].removeprefix(prefix) for arn in machines.values())
            what = f"team {team!r} is none" if team else "which team's is not said"
            fail(f"{what}; there are {', '.join(teams)}", "name one with --team")
        return machines[wanted]

    def find_run(self, run_id: str) -> Run | None:
        """None for a run whose spec was refused, or is not looked at yet, or that never was."""
        item = self._query(run_id, RUN_ITEM)
        return from_item(Run, item[0]) if item else None

    def run(self, run_id: str) -> Run:
        found = self.find_run(run_id)
        if found is None:
            fail(
                f"there is no run {run_id!r} in environment {self.env!r}",
                "`everstep list` shows those there are; of one whose spec was refused, or is not "
                f"read yet, `everstep watch {run_id}` says more",
                NOT_FOUND,
            )
        return found

    def launches(self, run_id: str) -> list[Launch]:
        return [from_item(Launch, item) for item in self._query(run_id, LAUNCH_PREFIX)]

    def exports(self, run_id: str) -> list[Launch]:
        """Tries to export the final weights."""
        return [from_item(Launch, item) for item in self._query(run_id, EXPORT_PREFIX)]

    def _query(self, run_id: str, prefix: str) -> list[dict[str, str]]:
        pages = (
            self.client("dynamodb")
            .get_paginator("query")
            .paginate(
                TableName=self.outputs[names.OUTPUT_TABLE],
                ConsistentRead=True,
                KeyConditionExpression="run_id = :r AND begins_with(#i, :p)",
                ExpressionAttributeNames={"#i": "item"},
                ExpressionAttributeValues={":r": {"S": run_id}, ":p": {"S": prefix}},
            )
        )
        return [{k: v["S"] for k, v in i.items()} for page in pages for i in page["Items"]]

    def log_events(self, job: str, since: float = 0.0, pattern: str = "") -> list[LogEvent]:
        """Of every host of a job, from ``since`` (epoch seconds) on, in order of time."""
        request = {"filterPattern": pattern} if pattern else {}
        try:
            pages = (
                self.client("logs")
                .get_paginator("filter_log_events")
                .paginate(
                    logGroupName=LOG_GROUP,
                    logStreamNamePrefix=f"{job}/",
                    startTime=max(0, int(since * 1000)),
                    **request,
                )
            )
            events = [e for page in pages for e in page["events"]]
        except ClientError as error:
            if error_code(error) == "ResourceNotFoundException":
                return []  # no job has logged in this account yet
            raise
        found = [
            LogEvent(
                e["timestamp"] / 1000,
                e["logStreamName"].removeprefix(f"{job}/"),
                e["message"],
                e["eventId"],
            )
            for e in events
        ]
        return sorted(found, key=lambda event: event.time)

    def log_lines(self, run_id: str, launch: int) -> list[tuple[float, str, str]]:
        """(epoch seconds, host, text) of every host of a launch, in order of time."""
        # An adopted run's first launch has its owner's name.
        row = self._query(run_id, launch_item(launch))
        job = from_item(Launch, row[0]).job_name if row else job_name(run_id, launch)
        return [(e.time, e.host, e.text) for e in self.log_events(job)]

    def steps(self, run_id: str, launch: int) -> list[StepTime]:
        """The step lines of a launch."""
        lines = step_lines((at, text) for at, _, text in self.log_lines(run_id, launch))
        return times({launch: lines})[launch]
