"""Every environment in every kind of region: synthesised without a finding, or refused in words."""

import copy
import json
import tomllib
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from aws_cdk import App, Environment

from stacks.config import CONFIG_FOLDER, check, environments
from stacks.config_rules import KNOWN_ENDPOINTS
from stacks.network import NetworkStack
from stacks.regions import REGIONS

from .conftest import flatten, synthesise, unpriced, untagged

WHERE = (
    "us-east-1", "us-west-2", "eu-west-1", "ap-northeast-1", "us-gov-west-1", "cn-north-1",
)  # fmt: skip
USED = (
    "sagemaker", "stepfunctions", "lambda", "dynamodb", "fsx", "ecr", "events", "sqs", "sns",
    "kms", "logs", "cloudwatch", "xray", "service-quotas",
)  # fmt: skip


def moved(env: str, region: str) -> dict[str, Any]:
    """An environment's config with nothing changed but where it is."""
    raw = copy.deepcopy(tomllib.loads((CONFIG_FOLDER / f"{env}.toml").read_text()))
    raw["network"]["zones"] = [region + zone[-1] for zone in raw["network"]["zones"]]
    for part in ("file_system", "planned"):
        if "zone" in raw.get(part, {}):
            raw[part]["zone"] = region + raw[part]["zone"][-1]
    for team in raw["teams"]:
        partition = REGIONS[region]
        roles = team.get("adopt_job_roles", [])
        team["adopt_job_roles"] = [role.replace("arn:aws:", f"arn:{partition}:") for role in roles]
    return raw | {"region": region}


@pytest.mark.everywhere
@pytest.mark.parametrize("region", WHERE)
@pytest.mark.parametrize("env", environments())
def test_every_environment_everywhere(env: str, region: str, tmp_path: Path) -> None:
    raw = moved(env, region)
    config, problems = check(raw)
    if "budget" in raw and REGIONS[region] != "aws":
        assert [str(p.path) for p in problems] == ["budget"]
        assert f"AWS Budgets cannot be used from {region}" in str(problems[0])
        del raw["budget"]
        config, problems = check(raw)
    assert config is not None, problems
    found = synthesise(env, tmp_path, config)
    assert found.report == []
    assert found.missing == []
    assert unpriced(found) == set()
    assert untagged(found) == []
    for other in {"aws", "aws-cn", "aws-us-gov"} - {REGIONS[region]}:
        for part, template in found.templates.items():
            text = json.dumps([r.get("Properties") for r in template["Resources"].values()])
            assert f"arn:{other}:" not in text, (part, other)


OTHERWISE_NAMED = {
    "cn-north-1": {
        "ecr.api", "ecr.dkr", "fsx", "lambda", "monitoring", "sagemaker.api", "sagemaker.runtime",
        "sqs", "states", "sts", "xray",
    },
    "us-gov-west-1": set(),
}  # fmt: skip
"""Endpoints whose names begin with ``cn.``: what EC2 listed there to the CDK's authors."""


@pytest.mark.parametrize("region", OTHERWISE_NAMED)
def test_every_known_endpoint_has_the_name_that_it_has_there(region: str) -> None:
    raw = moved("dev", region)
    raw["network"]["interface_endpoints"] = list(KNOWN_ENDPOINTS)
    config, problems = check(raw)
    assert config is not None, problems
    app = App(context={"@aws-cdk/core:enablePartitionLiterals": True})
    env = Environment(account=config.account, region=region)
    NetworkStack(app, "all", env_name="all", config=config, env=env)
    resources = app.synth().get_stack_by_name("all").template["Resources"].values()
    made = {
        flatten(resource["Properties"]["ServiceName"])
        for resource in resources
        if resource["Type"] == "AWS::EC2::VPCEndpoint"
        and resource["Properties"]["VpcEndpointType"] == "Interface"
    }
    assert len(KNOWN_ENDPOINTS) == 20
    assert made == {
        f"{'cn.' if name in OTHERWISE_NAMED[region] else ''}com.amazonaws.{region}.{name}"
        for name in KNOWN_ENDPOINTS
    }


def test_regions_are_those_that_botocore_knows() -> None:
    session = botocore.session.get_session()
    for service in USED:
        known = {
            region: partition
            for partition in ("aws", "aws-cn", "aws-us-gov")
            for region in session.get_available_regions(service, partition)
        }
        assert known == REGIONS, service


@pytest.mark.parametrize(
    ("region", "change", "path", "words"),
    [
        (
            "cn-north-1", {"file_system": {"deployment": "SCRATCH_2", "capacity_gib": 1200}},
            "file_system.deployment", "no SCRATCH_2 in cn-north-1",
        ),
        (
            "us-gov-west-1",
            {"file_system": {"storage": "INTELLIGENT_TIERING", "throughput_mbps": 4000}},
            "file_system.storage", "not known to exist in us-gov-west-1",
        ),
        ("cn-northwest-1", {}, "lambdas.powertools_layer", "publishes no layer in cn-northwest-1"),
        (
            "us-gov-west-1",
            {"lambdas": {"powertools_layer": "arn:aws:lambda:x:017000801446:layer:P:1"}},
            "lambdas.powertools_layer", "write {publisher}",
        ),
        (
            "cn-north-1", {"budget": {"monthly_usd": 9}, "alarm_email": "a@example.com"},
            "budget", "set a budget in the console",
        ),
    ],
)  # fmt: skip
def test_what_a_region_lacks_is_refused_with_that_reason(
    region: str, change: dict[str, Any], path: str, words: str
) -> None:
    _, problems = check(moved("dev", region) | change)
    assert [(p.path, True) for p in problems] == [(path, words in str(p)) for p in problems]
