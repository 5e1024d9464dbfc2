"""Change is safe: nothing to deploy twice, an upgrade in mid-run, a destroy that keeps data.

An emulator of its own: it is taken down to what is retained.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from everstep.cli.local import local_cloud
from everstep.contracts.names import OUTPUT_CHECKPOINTS, STACKS, function_name, stack_name
from everstep.contracts.records import job_name
from tests.scenarios.lab import QUOTA, QUOTA_VALUE, ROOT, Lab, deployed
from tests.scenarios.test_control_plane import check_arrived

pytestmark = [pytest.mark.scenario, pytest.mark.slow]

STATEFUL = {
    "AWS::DynamoDB::Table",
    "AWS::CloudFormation::Stack",
    "AWS::ECR::Repository",
    "AWS::FSx::DataRepositoryAssociation",
    "AWS::FSx::FileSystem",
    "AWS::KMS::Key",
    "AWS::Logs::LogGroup",
    "AWS::S3::Bucket",
    "AWS::SageMaker::ModelPackageGroup",
    "AWS::StepFunctions::StateMachine",
}
"""What may be left, and all of which is; buckets keep their policies, keys their aliases not. The
network's stack, since the file system's interfaces are in its subnets."""

STEPS = 60

FILE_SYSTEM = """[file_system]
capacity_gib = 1200
throughput_mbps_per_tib = 125
checkpoints = true"""


@pytest.fixture(scope="module")
def own_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with deployed(tmp_path_factory.mktemp("change"), {QUOTA: QUOTA_VALUE}) as lab:
        yield lab


@pytest.fixture(scope="module")
def next_version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository with another handler bundle, and an environment whose data is retained."""
    tree = tmp_path_factory.mktemp("next") / "everstep"
    tree.mkdir()
    for name in ("app.py", "cdk.json"):
        shutil.copy(ROOT / name, tree)
    for name in ("stacks", "everstep", "lambdas", "config"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "node_modules").symlink_to(ROOT / "node_modules")
    handler = tree / "lambdas" / "decide" / "handler.py"
    handler.write_text(handler.read_text() + "\nNEXT_VERSION = True\n")
    local = tree / "config" / "local.toml"
    text = local.read_text().replace('removal = "destroy"', 'removal = "retain"')
    local.write_text(text.replace("[[teams]]", f"{FILE_SYSTEM}\n\n[[teams]]", 1))
    return tree


def _cdk(
    lab: Lab, tree: Path, *arguments: str, env: str = "local"
) -> subprocess.CompletedProcess[str]:
    from everstep.cli.deploy import with_node

    return subprocess.run(
        [
            str(ROOT / "node_modules/.bin/cdk"),
            *arguments,
            "--context",
            f"env={env}",
            "--no-notices",
        ],
        cwd=tree,
        env=with_node(lab.environ),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def _everstep(lab: Lab, tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "everstep.cli.main", *arguments, "--env", "local", "--json"],
        cwd=tree,
        env={**lab.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def _json(ran: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return dict(json.loads(ran.stdout))


def test_a_second_deploy_has_nothing_to_change(own_lab: Lab) -> None:
    ran = _cdk(own_lab, ROOT, "diff", "--fail", "--method", "template")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Number of stacks with differences: 0" in ran.stdout + ran.stderr


def test_a_run_that_was_started_before_an_upgrade_arrives_after_it(
    own_lab: Lab, next_version: Path
) -> None:
    functions = own_lab.cloud.client("lambda")
    name = function_name("local", "decide")

    def version() -> str:
        alias = functions.get_alias(FunctionName=name, Name="live")
        return str(alias["FunctionVersion"])

    before = version()
    # It goes on for as long as the upgrade takes, and is told to hurry after that.
    arn = own_lab.start("upgraded", own_lab.foreign(800, 0.5, FOREIGN_HURRIES="1"))
    own_lab.at_step("upgraded", 1, 3)
    ran = _cdk(own_lab, next_version, "deploy", "--all", "--require-approval", "never")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert version() != before
    assert own_lab.execution(arn)["status"] == "RUNNING", "the upgrade took longer than the run"
    own_lab.put(f"{own_lab.cloud.run('upgraded').team.checkpoint_uri}/upgraded/hurry", "now")
    assert own_lab.end(arn, 300)["status"] == "SUCCEEDED"
    check_arrived(own_lab, "upgraded", 800, launches=1)


@pytest.mark.parametrize("mode", ["file", "fastfile", "fsx", "s3"])
def test_a_run_arrives_on_each_way_to_data(own_lab: Lab, tiny: dict[str, Any], mode: str) -> None:
    """After the upgrade, which brought a file system."""
    spec = {
        **tiny,
        "data": {"prefix": tiny["data"], "mode": mode},
        "stop": {**tiny["stop"], "steps": 4},
    }
    arn = own_lab.start(f"data-{mode}", spec)
    assert own_lab.end(arn)["status"] == "SUCCEEDED"
    (channel,) = own_lab.job(f"data-{mode}", 1).get("InputDataConfig") or [None]
    assert (channel is None) == (mode == "s3")
    if channel:
        assert ("FileSystemDataSource" in channel["DataSource"]) == (mode == "fsx")
    assert own_lab.weights(f"data-{mode}") == own_lab.weights("data-file")


def test_a_killed_host_costs_steps_and_nothing_else_with_everything_on_lustre(
    own_lab: Lab, tiny: dict[str, Any]
) -> None:
    """Metadata imported before, checkpoints told of in S3 and exported after; the model too."""
    spec = {**tiny, "stop": {**tiny["stop"], "steps": STEPS}, "finish": {"export": True}}
    whole = own_lab.start("on-s3", spec)
    assert own_lab.end(whole)["status"] == "SUCCEEDED"
    data = {"prefix": tiny["data"], "mode": "fsx", "preload": True}
    lustre = {**spec["checkpoint"], "storage": "fsx", "export": True}
    arn = own_lab.start("on-lustre", {**spec, "data": data, "checkpoint": lustre})
    own_lab.until(lambda: _told(own_lab, "on-lustre"), "a committed checkpoint")
    own_lab.control.kill_host(job_name("on-lustre", 1), "algo-2")
    assert own_lab.end(arn)["status"] == "SUCCEEDED"
    first, second = own_lab.launches("on-lustre")
    assert second.resume_step == first.committed_step
    assert second.resume_step >= 10
    assert own_lab.view("on-lustre").losses == own_lab.view("on-s3").losses
    assert own_lab.weights("on-lustre") == own_lab.weights("on-s3")
    run = own_lab.cloud.run("on-lustre")
    assert run.preload is not None
    assert run.release is not None
    assert (run.preload.done, run.release.done) == (True, True)
    newest = own_lab.final_checkpoint("on-lustre").rpartition("/")[2]
    exported = f"{run.team.checkpoint_uri}/on-lustre/{newest}"
    assert own_lab.digest(exported) == own_lab.weights("on-s3")
    assert json.loads(own_lab.object(f"{run.export_uri}/export.json"))["step"] == STEPS


def _told(lab: Lab, run_id: str) -> list[str]:
    """Keys below a run's checkpoint prefix."""
    bucket = lab.cloud.outputs[OUTPUT_CHECKPOINTS]
    found = lab.cloud.client("s3").list_objects_v2(Bucket=bucket, Prefix=f"research/{run_id}/")
    return [item["Key"] for item in found.get("Contents", [])]


@pytest.fixture(scope="module")
def destroyed(own_lab: Lab, next_version: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `everstep destroy` says that it would do, and what it says that it did."""
    told = _json(_everstep(own_lab, next_version, "destroy"))
    assert told["destroyed"] is False
    refused = _everstep(own_lab, next_version, "destroy", "--yes")
    assert refused.returncode != 0
    assert "protected against deletion: everstep-local-observability" in refused.stderr
    for part in STACKS:
        own_lab.cloud.client("cloudformation").update_termination_protection(
            StackName=stack_name("local", part), EnableTerminationProtection=False
        )
    return told, _json(_everstep(own_lab, next_version, "destroy", "--yes"))


def _left(done: dict[str, Any], kind: str) -> set[str]:
    return {one["name"] for one in done["left"] if one["type"] == kind}


def _buckets(lab: Lab) -> set[str]:
    found = {bucket["Name"] for bucket in lab.cloud.client("s3").list_buckets()["Buckets"]}
    return {name for name in found if not name.startswith("cdk-")}


def test_destroy_leaves_exactly_the_data_and_says_so(
    own_lab: Lab, destroyed: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    cloud, (told, done) = own_lab.cloud, destroyed
    assert done == {**told, "destroyed": True}
    assert {one["type"] for one in done["left"]} == STATEFUL
    stacks = cloud.client("cloudformation").describe_stacks()["Stacks"]
    ours = {stack_name("local", part) for part in STACKS}
    network = {stack_name("local", "network")}
    assert {stack["StackName"] for stack in stacks} & ours == network
    assert _left(done, "AWS::CloudFormation::Stack") == network
    assert _buckets(own_lab) == _left(done, "AWS::S3::Bucket")
    assert set(cloud.client("dynamodb").list_tables()["TableNames"]) == _left(
        done, "AWS::DynamoDB::Table"
    )
    assert cloud.client("lambda").list_functions()["Functions"] == []
    assert cloud.client("sqs").list_queues().get("QueueUrls", []) == []
    checkpoints = cloud.client("s3").list_objects_v2(
        Bucket=done["existing"]["checkpoint_bucket"], Prefix="research/upgraded/"
    )
    assert checkpoints["KeyCount"] > 0


def _network(lab: Lab) -> str:
    """The left VPC, as config imports it."""
    pages = lab.cloud.client("cloudformation").get_paginator("list_stack_resources")
    resources = [
        one
        for page in pages.paginate(StackName=stack_name("local", "network"))
        for one in page["StackResourceSummaries"]
    ]
    of = {
        kind: [r["PhysicalResourceId"] for r in resources if r["ResourceType"] == kind]
        for kind in ("AWS::EC2::VPC", "AWS::EC2::Subnet")
    }
    subnets = lab.cloud.client("ec2").describe_subnets(SubnetIds=of["AWS::EC2::Subnet"])["Subnets"]
    zones = ", ".join(f'"{s["AvailabilityZone"]}" = "{s["SubnetId"]}"' for s in subnets)
    return f'vpc_id = "{of["AWS::EC2::VPC"][0]}"\nsubnet_ids = {{ {zones} }}\n'


def test_another_environment_goes_on_with_what_was_left(
    own_lab: Lab,
    next_version: Path,
    tiny: dict[str, Any],
    destroyed: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    """A stack renamed, or moved: with the section that destroy prints, nothing is lost."""
    left = destroyed[1]
    local = (next_version / "config" / "local.toml").read_text()
    section = "\n".join(f'{field} = "{value}"' for field, value in left["existing"].items())
    moved = local.replace("training_mask", f"{_network(own_lab)}training_mask", 1)
    (next_version / "config" / "moved.toml").write_text(f"{moved}\n[existing]\n{section}\n")
    ran = _cdk(own_lab, next_version, "deploy", "--all", "--require-approval", "never", env="moved")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert _buckets(own_lab) == _left(left, "AWS::S3::Bucket"), "none was made"

    endpoint = own_lab.environ["AWS_ENDPOINT_URL"]
    cloud = local_cloud(endpoint, own_lab.environ, "moved")
    after = Lab(cloud, own_lab.control, own_lab.environ, own_lab.work)
    assert after.cloud.run("on-lustre").final_step == STEPS
    assert after.weights("on-lustre") == after.weights("on-s3")
    spec = {
        **tiny,
        "data": {"prefix": tiny["data"], "mode": "fsx"},
        "checkpoint": {**tiny["checkpoint"], "storage": "fsx"},
        "stop": {**tiny["stop"], "steps": 4},
    }
    assert after.end(after.start("moved", spec))["status"] == "SUCCEEDED"
    assert after.weights("moved") == after.weights("data-file")
