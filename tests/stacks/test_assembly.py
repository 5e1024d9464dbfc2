"""Every environment synthesises, without credentials, with no finding left."""

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from aws_cdk import App, Stack, Validations
from aws_cdk import aws_s3 as s3
from cdk_nag import AwsSolutionsChecks

from everstep.contracts.names import construct_id, handler_folder
from everstep.contracts.payloads import HANDLER_STATES, RULE_HANDLERS
from stacks.config import CONFIG_FOLDER, ROOT, check, environments
from stacks.proof.options import asked_for

from .conftest import Synthesised, synthesise

BUNDLE_LIMIT = 300 * 1024
HANDLERS = [*(handler_folder(state) for state in HANDLER_STATES), *RULE_HANDLERS]


def test_there_are_the_environments_that_the_docs_name() -> None:
    assert {"local", "dev", "prod"} <= set(environments())


@pytest.mark.parametrize("env", [env for env in environments() if env != "prod"])
def test_environment_has_no_finding_and_needs_no_lookup(env: str, tmp_path: Path) -> None:
    found = synthesise(env, tmp_path / env)
    assert found.report == []
    assert found.missing == []


def test_prod_has_no_finding_and_needs_no_lookup(prod: Synthesised) -> None:
    assert prod.report == []
    assert prod.missing == []
    _cfn_lint(prod)


def test_what_no_environment_turns_on_has_no_finding_either(more: Synthesised) -> None:
    assert more.report == []
    template = more.template("network")
    template.resource_count_is("AWS::EC2::NatGateway", 1)
    assert all(not subnet["MapPublicIpOnLaunch"] for subnet in more.resources("AWS::EC2::Subnet"))
    (file_system,) = more.resources("AWS::FSx::FileSystem")
    assert file_system["LustreConfiguration"]["EfaEnabled"] is True
    _cfn_lint(more)


def test_an_imported_vpc_with_a_tiered_file_system_in_its_second_zone(tmp_path: Path) -> None:
    raw = asked_for("guest")
    config, problems = check(raw)
    assert problems == []
    found = synthesise("prod", tmp_path / "imported", config)
    assert found.report == []
    for kind in ("VPC", "Subnet", "VPCEndpoint", "FlowLog", "RouteTable"):
        assert found.resources(f"AWS::EC2::{kind}") == []
    assert {group["VpcId"] for group in found.resources("AWS::EC2::SecurityGroup")} == {
        raw["network"]["vpc_id"]
    }
    (file_system,) = found.resources("AWS::FSx::FileSystem")
    assert file_system["SubnetIds"] == [raw["network"]["subnet_ids"]["us-east-1b"]]
    assert file_system["StorageType"] == "INTELLIGENT_TIERING"
    assert file_system["LustreConfiguration"]["ThroughputCapacity"] == 4000
    # FSx takes no link on this kind.
    assert found.resources("AWS::FSx::DataRepositoryAssociation") == []
    _cfn_lint(found)


def test_a_scratch_file_system_takes_neither_key_nor_throughput(tmp_path: Path) -> None:
    raw = tomllib.loads((CONFIG_FOLDER / "dev.toml").read_text())
    raw["file_system"] = {"deployment": "SCRATCH_2", "capacity_gib": 4800}
    config, problems = check(raw)
    assert problems == []
    found = synthesise("dev", tmp_path / "scratch", config)
    assert found.report == []
    (file_system,) = found.resources("AWS::FSx::FileSystem")
    assert "KmsKeyId" not in file_system
    assert set(file_system["LustreConfiguration"]) == {"DeploymentType", "DataCompressionType"}
    _cfn_lint(found)


def _cfn_lint(found: Synthesised) -> None:
    templates = [str(path) for path in found.folder.glob("*.template.json")]
    ran = subprocess.run(
        [str(Path(sys.executable).parent / "cfn-lint"), *templates],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout


def test_findings_would_be_seen(tmp_path: Path) -> None:
    app = App(outdir=str(tmp_path))
    s3.Bucket(Stack(app, "Bad"), "Open")
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    with pytest.raises(RuntimeError, match="AwsSolutions-S10"):
        app.synth()


def test_wrong_environment_is_said_without_a_traceback() -> None:
    ran = subprocess.run(
        [sys.executable, "app.py"],
        cwd=ROOT,
        env={**os.environ, "CDK_CONTEXT_JSON": json.dumps({"env": "prdo"})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert "no such environment (got 'prdo')" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_names_have_one_spelling() -> None:
    for state in HANDLER_STATES:
        assert construct_id(handler_folder(state)) == state


def test_lock_names_no_registry() -> None:
    assert "http" not in (ROOT / "package-lock.json").read_text().replace("https://github.com", "")


# --- the bundle -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bundle(prod: Synthesised) -> Path:
    (folder,) = [path for path in prod.folder.glob("asset.*") if (path / "lambdas").is_dir()]
    return folder


def test_the_image_is_built_from_what_its_dockerfile_copies(prod: Synthesised) -> None:
    (folder,) = [path for path in prod.folder.glob("asset.*") if (path / "containers").is_dir()]
    for image in ("trainer", "dlc"):
        text = (folder / "containers" / f"{image}.Dockerfile").read_text()
        lines = re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE)
        copied = [name for line in lines for name in line.split() if "--from" not in line]
        assert {"trainer", "everstep/contracts", "everstep/policy/__init__.py"} <= set(copied)
        assert all((folder / name).exists() for name in copied)
    assert not (folder / "lambdas").exists()


def test_bundle_holds_what_handlers_import_and_nothing_else(bundle: Path, tmp_path: Path) -> None:
    files = [path for path in bundle.rglob("*") if path.is_file()]
    names = {str(path.relative_to(bundle)) for path in files}
    allowed = ("everstep/contracts/", "everstep/policy/", "everstep/report/", "lambdas/")
    assert all(name.startswith(allowed) or name == "everstep/__init__.py" for name in names)
    assets = {name for name in names if name.startswith("everstep/report/assets/")}
    assert all(name.endswith((".py", "py.typed")) for name in names - assets), names
    assert len(assets) == 5
    assert not [name for name in names if "test" in name.split("/")[-1].split("_")]
    assert {f"lambdas/{handler}/handler.py" for handler in HANDLERS} <= names
    archive = tmp_path / "bundle.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in files:
            file.write(path, path.relative_to(bundle))
    assert archive.stat().st_size <= BUNDLE_LIMIT


_IMPORT = """
import importlib, sys
bundle, handlers = sys.argv[1], sys.argv[2:]
ALLOWED = set(sys.stdlib_module_names) | {"everstep", "lambdas", "aws_lambda_powertools",
    "pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection",
    "jmespath", "boto3", "botocore", "s3transfer", "dateutil", "six", "urllib3"}
class OnlyTheLayer:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in ALLOWED and not name.startswith("_sysconfigdata"):
            raise ModuleNotFoundError(f"not in the layer: {name}", name=name)
sys.meta_path.insert(0, OnlyTheLayer())
sys.path.insert(0, bundle)
for handler in handlers:
    module = importlib.import_module(f"lambdas.{handler}.handler")
    assert module.__file__.startswith(bundle), module.__file__
    assert callable(module.handler)
"""


def test_every_handler_imports_from_the_bundle_with_the_layers_packages(bundle: Path) -> None:
    env = {**os.environ, "AWS_DEFAULT_REGION": "us-east-1", "POWERTOOLS_SERVICE_NAME": "everstep"}
    ran = subprocess.run(
        [sys.executable, "-P", "-c", _IMPORT, str(bundle), *HANDLERS],
        cwd=bundle,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
