"""Teams of a config: names that can stand beside each other, and roles that are theirs to adopt."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from everstep.contracts.names import construct_id, machine_name
from everstep.contracts.problems import Problem
from stacks.file_system_rules import CHECKPOINTS, EXPORTS
from stacks.regions import partition_of

RESERVED = {
    CHECKPOINTS.strip("/"): "/checkpoints of the file system holds every team's checkpoints",
    EXPORTS.strip("/"): "/exports of the file system holds every team's exports",
}
OURS = "everstep-"
LONGEST_ROLE = 64
"""IAM's, without the path."""
ENVIRONMENT_BYTES = 4096
"""Of a Lambda function's whole environment: AWS's quota, which nobody can raise."""
FIXED_BYTES = 900
"""Of it: names, ARNs and figures that every environment has, and the field names."""


def team_problems(sections: Mapping[str, Any]) -> Iterator[Problem]:
    names = [team.name for team in sections.get("teams") or []]
    ids = [construct_id(name) for name in names]
    for i, name in enumerate(names):
        if name in RESERVED:
            yield Problem(
                path=f"teams.{i}.name",
                value=name,
                message=f"is reserved: {RESERVED[name]}",
                hint="choose another name",
            )
        if ids[i] in ids[:i]:
            other = names[ids.index(ids[i])]
            yield Problem(
                path=f"teams.{i}.name",
                value=name,
                message="is given twice"
                if other == name
                else f"is too like {other!r}: both are {ids[i]} in the templates",
                hint="a team is a state machine, a job role and a prefix: names are unique",
            )
    yield from _adopted(sections)
    yield from _carried(sections)


def _adopted(sections: Mapping[str, Any]) -> Iterator[Problem]:
    account, partition = sections.get("account"), partition_of(sections.get("region") or "")
    given: dict[str, str] = {}
    for i, team in enumerate(sections.get("teams") or []):
        for j, role in enumerate(team.adopt_job_roles):
            path, (name, place) = f"teams.{i}.adopt_job_roles.{j}", _name_and_place(role)
            if role in given:
                yield Problem(
                    path=path,
                    value=role,
                    message=f"is already named by team {given[role]}",
                    hint="a failed job is taken over by one team",
                )
            given.setdefault(role, team.name)
            if account and place != (partition, account):
                yield Problem(
                    path=path,
                    value=role,
                    message=f"is not a role of account {account} in partition {partition}",
                    hint="SageMaker takes a role of the account that the job runs in",
                )
            if name.startswith(OURS):
                yield Problem(
                    path=path,
                    value=role,
                    message="is a role that Everstep makes: its jobs are runs already, and another "
                    "team's role would reach that team's data",
                    hint="name the role of jobs that are made elsewhere",
                )
            if len(name) > LONGEST_ROLE:
                yield Problem(
                    path=path,
                    value=role,
                    message=f"its name has {len(name)} characters, IAM takes {LONGEST_ROLE}",
                    hint="copy the role's ARN from the IAM console",
                )


def _name_and_place(arn: str) -> tuple[str, tuple[str, str]]:
    parts = arn.split(":")
    return arn.rpartition("/")[2], (parts[1], parts[4])


def _carried(sections: Mapping[str, Any]) -> Iterator[Problem]:
    """What each function carries in its environment: roles, prices, rules, the runbook."""
    region, account = sections.get("region") or "", sections.get("account") or ""
    arn = f"arn:{partition_of(region)}:states:{region}:{account}:stateMachine:"
    adopters = {
        role: arn + machine_name("x" * 12, team.name)
        for team in sections.get("teams") or []
        for role in team.adopt_job_roles
    }
    rules = sections.get("rules") or []
    parts = {
        "adopt_job_roles": len(json.dumps(adopters)) if adopters else 0,
        "prices_usd": len(json.dumps(sections.get("prices_usd") or {})),
        "rules": sum(len(r.model_dump_json(by_alias=True, exclude_defaults=True)) for r in rules),
        "runbook_url": len(sections.get("runbook_url") or ""),
    }
    room = ENVIRONMENT_BYTES - FIXED_BYTES
    if sum(parts.values()) > room:
        largest = max(parts, key=lambda part: parts[part])
        yield Problem(
            path=f"teams.*.{largest}" if largest == "adopt_job_roles" else largest,
            value=parts[largest],
            message=f"{', '.join(f'{k} {v}' for k, v in parts.items() if v)} bytes: together more "
            f"than the {room} that a Lambda function's environment has for them",
            hint="fewer or shorter ones; a second environment for other teams",
        )
