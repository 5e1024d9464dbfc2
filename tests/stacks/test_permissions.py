"""Least privilege, read from the templates."""

import json
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from everstep.contracts.names import construct_id, handler_folder
from everstep.contracts.payloads import HANDLER_STATES, RULE_HANDLERS
from stacks.config import CONFIG_FOLDER, check
from stacks.grants import GRANTS
from stacks.wildcards import WILDCARDS, reason_for

from .conftest import Synthesised, flatten, synthesise


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _policies(prod: Synthesised) -> Iterator[tuple[str, dict[str, Any]]]:
    """(policy's logical id, statement) over all identity policies."""
    for template in prod.templates.values():
        for name, resource in template["Resources"].items():
            if resource["Type"] == "AWS::IAM::Policy":
                for statement in resource["Properties"]["PolicyDocument"]["Statement"]:
                    yield name, statement


def test_every_wildcard_has_a_reason(prod: Synthesised, more: Synthesised) -> None:
    unexplained = [
        (name, actions, resource)
        for name, statement in (*_policies(prod), *_policies(more))
        for resource in map(flatten, _list(statement["Resource"]))
        if "*" in resource and not reason_for(resource, actions := _list(statement["Action"]))
    ]
    assert unexplained == []


def test_no_action_is_a_wildcard(prod: Synthesised) -> None:
    assert [s for _, s in _policies(prod) if any("*" in a for a in _list(s["Action"]))] == []


def test_no_explained_wildcard_is_left_over(prod: Synthesised, more: Synthesised) -> None:
    used = {
        (flatten(resource), action)
        for _, statement in (*_policies(prod), *_policies(more))
        for resource in _list(statement["Resource"])
        for action in _list(statement["Action"])
    }
    for known in WILDCARDS:
        assert any(reason_for(r, [a]) == known.reason for r, a in used if "*" in r), known


def test_passing_a_role_is_for_sagemaker_and_the_job_roles_only(prod: Synthesised) -> None:
    passing = [(n, s) for n, s in _policies(prod) if "iam:PassRole" in _list(s["Action"])]
    assert len(passing) == 2
    for (name, statement), handler in zip(passing, ("LaunchAttempt", "ExportModel"), strict=True):
        assert handler in name
        assert statement["Condition"] == {
            "StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}
        }
        assert all("JobRole" in flatten(resource) for resource in _list(statement["Resource"]))


def test_no_managed_policy(prod: Synthesised) -> None:
    assert all("ManagedPolicyArns" not in role for role in prod.resources("AWS::IAM::Role"))


def test_there_is_a_row_for_each_handler() -> None:
    handlers = {*(handler_folder(state) for state in HANDLER_STATES), *RULE_HANDLERS}
    assert set(GRANTS) == handlers


@pytest.mark.parametrize("handler", GRANTS)
def test_a_handler_may_do_what_its_row_says(prod: Synthesised, handler: str) -> None:
    allowed = {
        action
        for name, statement in _policies(prod)
        if name.startswith(f"Handlers{construct_id(handler)}Role")
        for action in _list(statement["Action"])
    }
    wanted = {action for use in GRANTS[handler] for action in use.actions}
    own = {
        "logs:CreateLogStream", "logs:PutLogEvents", "xray:PutTraceSegments",
        "xray:PutTelemetryRecords",
    }  # fmt: skip
    from_queue = {action for action in allowed if action.startswith("sqs:")}
    keys = {action for action in allowed if action.startswith("kms:")}
    assert allowed == wanted | own | from_queue | keys
    assert bool(from_queue) == (handler in ("on_job_event", "on_execution_event", "write_report"))
    assert keys <= {"kms:Decrypt", "kms:GenerateDataKey", "kms:DescribeKey"}


def test_job_roles_see_their_own_team_only(prod: Synthesised) -> None:
    for team, other in (("research", "applied"), ("applied", "research")):
        text = [
            flatten(resource)
            for name, statement in _policies(prod)
            if name.startswith(f"JobRole{construct_id(team)}")
            for resource in _list(statement["Resource"])
        ]
        assert any(f"/{team}/*" in resource for resource in text)
        assert not any(f"/{other}/" in resource for resource in text)


def test_job_roles_cannot_touch_the_control_plane(prod: Synthesised) -> None:
    actions = {
        action
        for name, statement in _policies(prod)
        if name.startswith("JobRole")
        for action in _list(statement["Action"])
    }
    services = {action.split(":")[0] for action in actions}
    assert services == {"s3", "kms", "ecr", "logs", "cloudwatch", "ec2", "fsx"}
    assert "s3:DeleteObjectVersion" not in actions


def test_only_sagemaker_of_this_account_takes_a_job_role(prod: Synthesised) -> None:
    prod.template("control-plane").has_resource_properties(
        "AWS::IAM::Role",
        {
            "RoleName": "everstep-prod-research-job",
            "AssumeRolePolicyDocument": {
                "Statement": [
                    {
                        "Action": "sts:AssumeRole",
                        "Condition": {"StringEquals": {"aws:SourceAccount": "444455556666"}},
                        "Effect": "Allow",
                        "Principal": {"Service": "sagemaker.amazonaws.com"},
                    }
                ]
            },
        },
    )


NOTEBOOKS = "arn:aws:iam::444455556666:role/notebook-jobs"


@pytest.fixture(scope="module")
def adopting(tmp_path_factory: pytest.TempPathFactory) -> Synthesised:
    """prod, where one team names a role whose jobs it takes over."""
    raw = tomllib.loads((CONFIG_FOLDER / "prod.toml").read_text())
    raw["teams"][0]["adopt_job_roles"] = [NOTEBOOKS]
    config, problems = check(raw)
    assert problems == []
    return synthesise("prod", tmp_path_factory.mktemp("cdk") / "adopting", config)


def test_adoption_costs_one_role_that_launch_attempt_may_pass_and_nothing_else(
    prod: Synthesised, adopting: Synthesised
) -> None:
    def policies(of: Synthesised) -> list[tuple[str, str]]:
        return sorted((n, json.dumps(s, sort_keys=True)) for n, s in _policies(of))

    more = [found for found in policies(adopting) if found not in policies(prod)]
    ((name, text),) = more
    assert "LaunchAttempt" in name
    assert len(policies(adopting)) == len(policies(prod)) + 1
    assert json.loads(text) == {
        "Sid": "AdoptedRoles",
        "Effect": "Allow",
        "Action": "iam:PassRole",
        "Resource": NOTEBOOKS,
        "Condition": {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
    }
    assert adopting.report == []


def test_only_the_team_that_names_a_role_takes_its_jobs_over(adopting: Synthesised) -> None:
    machines = {
        machine["StateMachineName"]: flatten(machine["DefinitionString"])
        for machine in adopting.resources("AWS::StepFunctions::StateMachine")
    }
    assert NOTEBOOKS in machines["everstep-prod-research"]
    assert NOTEBOOKS not in machines["everstep-prod-applied"]
    environment = flatten(
        next(
            f["Environment"]["Variables"]["EVERSTEP_CONTROL"]
            for f in adopting.resources("AWS::Lambda::Function")
            if f["FunctionName"] == "everstep-prod-OnJobEvent"
        )
    )
    adopters = environment.partition('"adopters":')[2]
    assert NOTEBOOKS in adopters
    assert ":stateMachine:everstep-prod-research" in adopters


def test_only_check_quota_asks_for_more_and_only_of_sagemaker(prod: Synthesised) -> None:
    asking = [
        (name, statement)
        for name, statement in _policies(prod)
        if "servicequotas:RequestServiceQuotaIncrease" in _list(statement["Action"])
    ]
    ((name, statement),) = asking
    assert "CheckQuota" in name
    assert flatten(statement["Resource"]).endswith(":sagemaker/*")
