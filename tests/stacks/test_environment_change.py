"""What a change of config does to stacks that are there: nothing that holds data is lost, and what
config/README.md says of taking something away can be deployed, stack by stack."""

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App

from everstep.contracts.names import STACKS, stack_name
from stacks.assembly import EverstepApp
from stacks.config import CONFIG_FOLDER, ROOT, check

from .conftest import Synthesised

Templates = dict[str, dict[str, Any]]
USERS_FIRST = ("observability", "access", "control-plane")
DATA = {
    "AWS::DynamoDB::Table",
    "AWS::ECR::Repository",
    "AWS::FSx::FileSystem",
    "AWS::KMS::Key",
    "AWS::S3::Bucket",
}


def _changed(folder: Path, change: Callable[[dict[str, Any]], Any]) -> Templates:
    raw = tomllib.loads((CONFIG_FOLDER / "prod.toml").read_text())
    change(raw)
    config, problems = check(raw)
    assert config is not None, problems
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    app = App(outdir=str(folder), context=context, analytics_reporting=False)
    EverstepApp(app, "prod", config)
    app.synth()
    return {
        part: json.loads((folder / f"{stack_name('prod', part)}.template.json").read_text())
        for part in STACKS
    }


def _no_file_system(raw: dict[str, Any]) -> None:
    del raw["file_system"]
    raw["planned"]["data_mode"] = "s3"


def _exports(template: dict[str, Any]) -> set[str]:
    outputs = template.get("Outputs", {}).values()
    return {one["Export"]["Name"] for one in outputs if "Export" in one}


def _imports(template: dict[str, Any]) -> set[str]:
    return set(re.findall(r'"Fn::ImportValue": "([^"]+)"', json.dumps(template)))


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw["teams"].pop(0),
        _no_file_system,
        lambda raw: raw["network"]["zones"].pop(),
    ],
    ids=["a team less", "no file system", "a zone less"],
)
def test_what_is_taken_away_can_be_deployed_users_first(
    prod: Synthesised, tmp_path: Path, change: Callable[[dict[str, Any]], Any]
) -> None:
    deployed, wanted = dict(prod.templates), _changed(tmp_path, change)
    order = (*USERS_FIRST, *(part for part in STACKS if part not in USERS_FIRST), *STACKS)
    for part in order:
        offered = set().union(*(_exports(template) for template in deployed.values()))
        assert _imports(wanted[part]) <= offered, part
        gone = _exports(deployed[part]) - _exports(wanted[part])
        others = [template for name, template in deployed.items() if name != part]
        assert not gone & set().union(*map(_imports, others)), part
        deployed[part] = wanted[part]


def test_another_team_changes_nothing_that_holds_data(prod: Synthesised, tmp_path: Path) -> None:
    wanted = _changed(tmp_path, lambda raw: raw["teams"].insert(0, {"name": "first"}))
    for part, template in prod.templates.items():
        for name, resource in template["Resources"].items():
            if resource.get("DeletionPolicy") == "Retain" or resource["Type"] in DATA:
                now = wanted[part]["Resources"][name]
                for what in ("Properties", "DeletionPolicy", "UpdateReplacePolicy"):
                    assert now.get(what) == resource.get(what), name


def test_the_stack_policy_protects_what_holds_data(prod: Synthesised) -> None:
    policy = json.loads((CONFIG_FOLDER / "stack-policy.json").read_text())
    allow, deny = policy["Statement"]
    assert (allow["Effect"], allow["Action"]) == ("Allow", "Update:*")
    assert (deny["Effect"], deny["Action"]) == ("Deny", ["Update:Replace", "Update:Delete"])
    assert set(deny["Condition"]["StringEquals"]["ResourceType"]) == DATA
    resources = [r for t in prod.templates.values() for r in t["Resources"].values()]
    assert {r["Type"] for r in resources} >= DATA
    for resource in resources:
        if resource["Type"] in DATA:
            assert resource["DeletionPolicy"] == resource["UpdateReplacePolicy"] == "Retain"
