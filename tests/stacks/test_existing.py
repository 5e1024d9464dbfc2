"""What a former stack left is used by the next one, and owned by none."""

import json
import tomllib
from typing import Any

import pytest

from stacks.config import CONFIG_FOLDER, Config, check

from .conftest import Synthesised, flatten, synthesise

KEY = "arn:aws:kms:us-east-1:444455556666:key/"
EXISTING = {
    "data_bucket": "former-data",
    "checkpoint_bucket": "former-checkpoints",
    "output_bucket": "former-output",
    "data_key": f"{KEY}11111111-1111-1111-1111-111111111111",
    "table": "former-runs",
    "table_key": f"{KEY}22222222-2222-2222-2222-222222222222",
    "file_system_id": "fs-0123456789abcdef0",
    "file_system_mount": "abcdefgh",
}


def _raw(**existing: Any) -> dict[str, Any]:
    raw = tomllib.loads((CONFIG_FOLDER / "prod.toml").read_text())
    subnets = {zone: f"subnet-0123456789abcde{zone[-1]}0" for zone in raw["network"]["zones"]}
    raw["network"] |= {
        "vpc_id": "vpc-0123456789abcdef0", "subnet_ids": subnets, "interface_endpoints": [],
    }  # fmt: skip
    return raw | {"existing": existing}


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Synthesised:
    """prod under another name, with what its stacks left."""
    config, problems = check(_raw(**EXISTING))
    assert problems == []
    assert isinstance(config, Config)
    return synthesise("moved", tmp_path_factory.mktemp("cdk") / "moved", config)


def test_nothing_that_is_there_is_made_again(moved: Synthesised) -> None:
    for kind in (
        "S3::Bucket", "DynamoDB::Table", "FSx::FileSystem", "FSx::DataRepositoryAssociation",
    ):  # fmt: skip
        assert moved.resources(f"AWS::{kind}") == []
    assert moved.report == []
    assert moved.missing == []
    assert "AWS::KMS::Key" not in {
        one["Type"] for one in moved.templates["storage"]["Resources"].values()
    }


def test_runs_are_told_of_it_and_allowed_it(moved: Synthesised) -> None:
    machine, *_ = moved.resources("AWS::StepFunctions::StateMachine")
    start = json.loads(flatten(machine["DefinitionString"]))["States"]["ValidateSpec"]
    team = start["Arguments"]["Payload"]["team"]
    assert team["data_uri"] == "s3://former-data/research"
    assert team["checkpoint_uri"] == "s3://former-checkpoints/research"
    assert team["kms_key_arn"] == EXISTING["data_key"]
    assert team["file_system_id"] == EXISTING["file_system_id"]
    assert team["file_system_path"] == "/abcdefgh/research"
    assert team["file_system_checkpoints"] == "/abcdefgh/checkpoints/research"
    text = json.dumps(moved.templates["control-plane"])
    assert "table/former-runs" in text
    assert "former-checkpoints/research/*" in text
    plan = next(
        policy
        for policy in moved.resources("AWS::IAM::Policy")
        if "PlanAttempt" in str(policy["PolicyName"])
    )
    keys = [
        resource
        for statement in plan["PolicyDocument"]["Statement"]
        if "kms:Decrypt" in statement["Action"]
        for resource in (
            statement["Resource"]
            if isinstance(statement["Resource"], list)
            else [statement["Resource"]]
        )
    ]
    assert EXISTING["table_key"] in keys
    assert EXISTING["data_key"] in keys


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "a bucket without its key": (
        {"data_bucket": "former-data"}, "existing.checkpoint_bucket", "destroy",
    ),
    "a table without its key": ({"table": "former-runs"}, "existing.table_key", "destroy"),
    "a key elsewhere": (
        {"table": "t-1", "table_key": KEY.replace("us-east-1", "eu-west-1") + "1"},
        "existing.table_key", "copy the objects",
    ),
    "no key": ({"data_key": "alias/mine"}, "existing.data_key", "see config"),
    "no bucket's name": ({"data_bucket": "s3://x"}, "existing.data_bucket", "see config"),
    "a typo": ({"datas_bucket": "x"}, "existing.datas_bucket", "did you mean 'data_bucket'"),
    "a file system without its mount name": (
        {"file_system_id": "fs-0123456789abcdef0"}, "existing.file_system_mount", "destroy",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_half_of_it_is_refused(case: str) -> None:
    existing, path, hint = WRONG[case]
    config, problems = check(_raw(**existing))
    assert config is None
    assert [p.path for p in problems if hint in (p.hint or "")][:1] == [path], problems


@pytest.mark.parametrize(
    ("section", "path"), [("file_system", "no [file_system]"), ("network", "network.vpc_id")]
)
def test_a_file_system_is_of_no_use_without(section: str, path: str) -> None:
    raw = _raw(**EXISTING)
    if section == "file_system":
        del raw["file_system"], raw["planned"]
    else:
        del raw["network"]["vpc_id"], raw["network"]["subnet_ids"]
    _, problems = check(raw)
    assert [p.path for p in problems] == ["existing.file_system_id"]
    assert path in f"{problems[0].message} {problems[0].hint}"
