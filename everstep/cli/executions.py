"""Step Functions as the commands need it: start, stop, look at, redrive, list."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

from botocore.exceptions import ClientError

from everstep.cli.cloud import Cloud, error_code
from everstep.cli.output import say
from everstep.cli.refusal import DENIED
from everstep.contracts import names
from everstep.contracts.run_id import next_execution_name

MOST_NAMES = 20
"""Names of continuations that are tried: as ContinueAsNew does."""


class Execution(NamedTuple):
    """One execution, as DescribeExecution shows it."""

    arn: str
    status: str
    error: str = ""
    cause: str = ""
    redrivable: bool = False
    why_not: str = ""
    """Step Functions' own words where it is not redrivable."""

    @property
    def name(self) -> str:
        return self.arn.rpartition(":")[2]

    @property
    def running(self) -> bool:
        return self.status in ("RUNNING", "PENDING_REDRIVE")


class Listed(NamedTuple):
    """One row of ListExecutions."""

    name: str
    arn: str
    status: str
    started: datetime
    team: str


def execution_arn(machine_arn: str, name: str) -> str:
    return f"{machine_arn.replace(':stateMachine:', ':execution:')}:{name}"


def machine_of(execution: str) -> str:
    return execution.rpartition(":")[0].replace(":execution:", ":stateMachine:")


def start(cloud: Cloud, machine_arn: str, name: str, given: Any) -> str | None:
    """The execution's ARN; the running one of this name and input. None where the name is burnt."""
    try:
        answer = cloud.client("stepfunctions").start_execution(
            stateMachineArn=machine_arn, name=name, input=json.dumps(given)
        )
    except ClientError as error:
        if error_code(error) == "ExecutionAlreadyExists":
            return None
        raise
    return str(answer["executionArn"])


def start_next(cloud: Cloud, execution: str, given: Any) -> str | None:
    """The execution that goes on with a run: ``-c01`` of ``run``, ``-c02`` of ``run-c01``. Names
    that are burnt are passed over; None where there is no end of them."""
    name = execution.rpartition(":")[2]
    for _ in range(MOST_NAMES):
        name = next_execution_name(name)
        if arn := start(cloud, machine_of(execution), name, given):
            return arn
    return None


def describe(cloud: Cloud, arn: str) -> Execution | None:
    """None where its history is gone (ninety days after its end), or it never was."""
    try:
        found = cloud.client("stepfunctions").describe_execution(executionArn=arn)
    except ClientError as error:
        if error_code(error) == "ExecutionDoesNotExist":
            return None
        raise
    return Execution(
        arn,
        found["status"],
        found.get("error", ""),
        found.get("cause", ""),
        found.get("redriveStatus") == "REDRIVABLE",
        found.get("redriveStatusReason", ""),
    )


def find(cloud: Cloud, run_id: str) -> Execution | None:
    """The run's first execution, whichever team's: for a run that has no row (yet). Raises the
    denial of someone who may ask no machine at all."""
    denied: list[ClientError] = []
    machines = cloud.machines()
    for machine in machines.values():
        try:
            found = describe(cloud, execution_arn(machine, run_id))
        except ClientError as error:
            if error_code(error) not in DENIED:
                raise
            denied.append(error)  # another team's: not for a researcher of this one
            continue
        if found:
            return found
    if denied and len(denied) == len(machines):
        raise denied[-1]
    return None


def stop(cloud: Cloud, arn: str) -> None:
    cloud.client("stepfunctions").stop_execution(
        executionArn=arn, error="UserStop", cause="everstep stop"
    )


def redrive(cloud: Cloud, arn: str) -> None:
    cloud.client("stepfunctions").redrive_execution(executionArn=arn)


def definition_changed(cloud: Cloud, arn: str) -> bool:
    """Whether a deploy has changed the state machine since the execution began: a redrive would go
    on by the old definition."""
    client = cloud.client("stepfunctions")
    then = client.describe_state_machine_for_execution(executionArn=arn)["definition"]
    now = client.describe_state_machine(stateMachineArn=machine_of(arn))["definition"]
    return bool(json.loads(then) != json.loads(now))


def listed(cloud: Cloud, team: str | None) -> Iterator[Listed]:
    """Executions of one team's machine, or of all, each machine's newest first."""
    machines = cloud.machines()
    if team is not None:
        machines = {names.construct_id(team): cloud.machine_arn(team)}
    for machine in machines.values():
        pages = (
            cloud.client("stepfunctions")
            .get_paginator("list_executions")
            .paginate(stateMachineArn=machine, PaginationConfig={"PageSize": 100})
        )
        owner = machine.rpartition(":")[2].removeprefix(names.machine_name(cloud.env, ""))
        try:
            for one in (e for page in pages for e in page["executions"]):
                yield Listed(
                    one["name"], one["executionArn"], one["status"], one["startDate"], owner
                )
        except ClientError as error:
            if error_code(error) not in DENIED or len(machines) == 1:
                raise
            say(f"team {owner}: its runs are not yours to list")
