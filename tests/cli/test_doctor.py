"""``everstep doctor``: what each check makes of an answer, and of none."""

import json
from collections import defaultdict
from datetime import UTC, datetime
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError
from typer.testing import CliRunner

from everstep import __version__
from everstep.cli import doctor
from everstep.cli.doctor_checks import (
    Look,
    account,
    efa,
    image,
    offering,
    quotas,
    stacks,
    version,
)
from everstep.cli.main import app
from everstep.contracts import names
from stacks.definition import definition
from tests.cli import watched

NOW = 1_796_000_000.0


class Asked:
    """A cloud whose clients answer what they are told."""

    env, region, emulated = "dev", "us-east-1", False

    def __init__(self, **clients: Any) -> None:
        self._clients, self.outputs = clients, {names.OUTPUT_VERSION: __version__}

    def machines(self) -> dict[str, str]:
        return {"Research": "arn"}

    def client(self, service: str) -> Any:
        return self._clients[service.replace("-", "_")]

    def clock(self) -> float:
        return NOW


def look(cloud: Any, config: dict[str, Any] | None = None, **more: Any) -> Look:
    return Look(cloud, {"account": "1"} if config is None else config, **more)


def caller(number: str = "1", behind: float = 0.0) -> Any:
    date = format_datetime(datetime.fromtimestamp(NOW - behind, UTC), usegmt=True)
    answer = {
        "Account": number,
        "Arn": "arn:aws:iam::1:user/me",
        "ResponseMetadata": {"HTTPHeaders": {"date": date}},
    }
    return Asked(sts=SimpleNamespace(get_caller_identity=lambda: answer))


def states(findings: Any) -> dict[str, str]:
    return {one.check: one.state for one in findings}


@pytest.mark.parametrize(
    ("behind", "state"), [(0, "ok"), (-31, "warn"), (31, "warn"), (241, "fail"), (-3600, "fail")]
)
def test_a_wrong_clock_is_told_before_it_breaks_signatures(behind: float, state: str) -> None:
    assert states(account(look(caller(behind=behind)))) == {"account": "ok", "clock": state}


def test_another_account_than_configs_is_a_failure() -> None:
    assert states(account(look(caller("2"))))["account"] == "fail"
    assert states(account(look(caller("2"), {})))["config"] == "warn"


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "Call")


def test_stacks_by_their_status() -> None:
    statuses = dict(
        zip(
            names.STACKS,
            ["CREATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "ROLLBACK_COMPLETE",
             "UPDATE_IN_PROGRESS", "DELETE_FAILED", None],
            strict=True,
        )
    )  # fmt: skip

    def describe(StackName: str) -> Any:
        status = statuses[StackName.removeprefix("everstep-dev-")]
        if status is None:
            raise refused("ValidationError")
        return {"Stacks": [{"StackStatus": status}]}

    found = list(stacks(look(Asked(cloudformation=SimpleNamespace(describe_stacks=describe)))))
    assert [one.state for one in found] == ["ok", "warn", "fail", "warn", "fail", "fail"]
    assert all(one.fix for one in found[1:])


def test_an_older_deploy_is_told() -> None:
    cloud = Asked()
    assert states(version(look(cloud))) == {"version": "ok"}
    cloud.outputs = {}
    assert states(version(look(cloud))) == {"version": "warn"}


GROUP = "sg-1"
REGISTRY = "1.dkr.ecr.us-east-1.amazonaws.com/everstep-dev"
TEAM = watched.TEAM.model_copy(update={"image_repository": REGISTRY, "security_groups": [GROUP]})
DIGEST = "sha256:" + "a" * 64


def deployed(**clients: Any) -> Asked:
    """With a state machine of the team, as the stack writes it."""
    text = json.dumps(definition(defaultdict(str), TEAM.model_dump()))
    answer = {"definition": text}
    machine = SimpleNamespace(describe_state_machine=lambda stateMachineArn: answer)
    return Asked(stepfunctions=machine, **clients)


@pytest.mark.parametrize(
    ("named", "wanted", "code", "state"),
    [
        ("trainer:stable", {"imageTag": "stable"}, None, "ok"),
        ("trainer", {"imageTag": "latest"}, None, "ok"),
        (f"trainer@{DIGEST}", {"imageDigest": DIGEST}, None, "ok"),
        (f"trainer:stable@{DIGEST}", {"imageDigest": DIGEST}, None, "ok"),
        (f"{REGISTRY}/trainer:stable", {"imageTag": "stable"}, None, "ok"),
        (f"{REGISTRY}/trainer@{DIGEST}", {"imageDigest": DIGEST}, None, "ok"),
        ("trainer:gone", {"imageTag": "gone"}, "ImageNotFoundException", "fail"),
        (f"trainer@{DIGEST}", {"imageDigest": DIGEST}, "ImageNotFoundException", "fail"),
        (f"{REGISTRY}/trainer:1", {"imageTag": "1"}, "RepositoryNotFoundException", "fail"),
        ("1.dkr.ecr/other:1", None, "never asked", "warn"),
    ],
)
def test_the_specs_image(
    named: str, wanted: dict[str, str] | None, code: str | None, state: str
) -> None:
    asked: list[Any] = []

    def describe(repositoryName: str, imageIds: list[dict[str, str]]) -> None:
        asked.append((repositoryName, imageIds))
        if code:
            raise refused(code)

    spec = watched.run().spec
    spec = spec.model_copy(update={"trainer": spec.trainer.model_copy(update={"image": named})})
    cloud = deployed(ecr=SimpleNamespace(describe_images=describe))
    (found,) = image(look(cloud, spec=spec))
    assert (found.check, found.state) == ("image", state)
    assert asked == ([("everstep-dev/trainer", [wanted])] if wanted else [])
    assert ("everstep-dev-trainer" in found.fix) == (state == "fail")


class Pages:
    """Of an EC2 whose lists answer what they are told."""

    def __init__(self, **lists: list[dict[str, Any]]) -> None:
        self._lists = lists

    def get_paginator(self, operation: str) -> Any:
        key = {
            "describe_security_group_rules": "SecurityGroupRules",
            "describe_instance_type_offerings": "InstanceTypeOfferings",
        }[operation]
        return SimpleNamespace(paginate=lambda **_: [{key: []}, {key: self._lists[key]}])


def rule(out: bool, to: str = GROUP, protocol: str = "-1", **more: Any) -> dict[str, Any]:
    return {
        "GroupId": GROUP,
        "IsEgress": out,
        "IpProtocol": protocol,
        "ReferencedGroupInfo": {"GroupId": to},
        **more,
    }


ANYWHERE = {"GroupId": GROUP, "IsEgress": True, "IpProtocol": "-1", "CidrIpv4": "0.0.0.0/0"}


@pytest.mark.parametrize(
    ("rules", "state", "said"),
    [
        ([rule(False), rule(True)], "ok", "sg-1 lets all"),
        ([rule(False)], "fail", "all traffic to itself"),
        ([rule(True)], "fail", "all traffic from itself"),
        ([], "fail", "all traffic from and to itself"),
        ([rule(False), ANYWHERE], "fail", "all traffic to itself"),
        ([rule(False), rule(True, to="sg-2")], "fail", "all traffic to itself"),
        ([rule(False, protocol="tcp"), rule(True)], "fail", "all traffic from itself"),
        ([rule(False, GroupId="sg-2"), rule(True)], "fail", "all traffic from itself"),
    ],
)
def test_hosts_with_efa_must_reach_each_other(
    rules: list[dict[str, Any]], state: str, said: str
) -> None:
    cloud = deployed(ec2=Pages(SecurityGroupRules=rules))
    (found,) = efa(look(cloud, spec=watched.run().spec))
    assert (found.check, found.state) == ("efa", state)
    assert said in found.said
    assert f"16 × {watched.TYPE}" in found.said
    assert ("everstep-dev-network" in found.fix) == (state == "fail")


@pytest.mark.parametrize(
    ("kind", "nodes", "found"),
    [
        (watched.TYPE, 1, ["ok"]),
        ("ml.m5.large", 4, ["ok"]),
        ("ml.g5.xlarge", 4, ["warn"]),
    ],
)
def test_what_needs_no_efa_asks_for_none(kind: str, nodes: int, found: list[str]) -> None:
    spec = watched.run().spec
    (target,) = spec.compute
    target = target.model_copy(update={"instance_type": kind, "nodes": nodes})
    spec = spec.model_copy(update={"compute": [target]})
    assert [one.state for one in efa(look(Asked(), spec=spec))] == found


@pytest.mark.parametrize(
    ("zone", "state"), [("us-east-1a", "ok"), ("us-east-1b", "warn"), (None, "ok")]
)
def test_a_type_is_looked_for_in_its_zone(zone: str | None, state: str) -> None:
    spec = watched.run().spec
    (target,) = spec.compute
    spec = spec.model_copy(update={"compute": [target.model_copy(update={"zone": zone})]})
    cloud = Asked(ec2=Pages(InstanceTypeOfferings=[{"Location": "us-east-1a"}]))
    assert states(offering(look(cloud, spec=spec))) == {"zone": state}


@pytest.mark.parametrize(
    ("held", "used", "state"), [(16, 0, "ok"), (16, 8, "warn"), (8, 0, "fail"), (None, 0, "warn")]
)
def test_quotas_as_check_quota_judges_them(
    monkeypatch: pytest.MonkeyPatch, held: float | None, used: float, state: str
) -> None:
    name = f"{watched.TYPE} for training job usage"
    many = {
        "Longest run time for a training job": 1e9,
        "Maximum number of instances per training job": 100.0,
        "Number of instances across all training jobs": 100.0,
    }
    values = many if held is None else many | {name: held}
    service = SimpleNamespace(values=lambda: values, in_use=lambda: {name: used})
    monkeypatch.setattr("everstep.cli.doctor_checks.Quotas", lambda *_: service)
    spec = watched.run().spec
    cloud = Asked(service_quotas=None, sagemaker=None)
    (found,) = quotas(look(cloud, spec=spec))
    assert found.state == state, found


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (EndpointConnectionError(endpoint_url="https://sts.x"), "network"),
        (NoCredentialsError(), "AWS_PROFILE"),
        (refused("ExpiredToken"), "log in again"),
    ],
)
def test_without_an_answer_it_ends_at_once_and_clearly(error: Exception, said: str) -> None:
    def ask() -> None:
        raise error

    cloud = Asked(sts=SimpleNamespace(get_caller_identity=ask))
    found = list(doctor.examine(look(cloud)))
    assert found[0].state == "fail"
    assert said in found[0].fix
    assert all(one.state == "warn" for one in found[1:])
    assert len(found) <= 2


def test_what_one_may_not_see_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(_: Look) -> Any:
        raise refused("AccessDenied")

    checks = {"account": account, "queues": denied, "version": version}
    monkeypatch.setattr(doctor, "CHECKS", checks)
    found = list(doctor.examine(look(caller())))
    assert states(found) == {"account": "ok", "clock": "ok", "queues": "warn", "version": "ok"}


def test_no_network_is_a_result_not_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://localhost:9")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setattr(doctor, "TRIES", 1)
    done = CliRunner().invoke(app, ["doctor", "--json"])
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert [one["check"] for one in found] == ["account", "rest"]
    assert "Could not connect" in found[0]["said"]
