"""Handlers need only the bundle and the Powertools layer; batches fail one record at a time."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from everstep.contracts.failures import FailureClass
from everstep.contracts.names import handler_folder
from everstep.contracts.payloads import HANDLER_STATES, RULE_HANDLERS, State
from lambdas.aws import services as module
from tests.lambdas.test_half_runs import RUN, event_of_a_failed_job
from tests.lambdas.world import World

ROOT = Path(__file__).parents[2]
HANDLERS = [*map(handler_folder, HANDLER_STATES), *RULE_HANDLERS]
BUNDLE = [
    "everstep/__init__.py",
    "everstep/contracts",
    "everstep/policy",
    "everstep/report",
    "lambdas",
]
LAYER = [
    "boto3",
    "botocore",
    "s3transfer",
    "jmespath",
    "dateutil",
    "six",
    "urllib3",
    "aws_lambda_powertools",
    "typing_extensions",
    "pydantic",
    "pydantic_core",
    "annotated_types",
    "typing_inspection",
]
IMPORT_ALL = """
import importlib, sys
sys.path[:0] = sys.argv[1:3]
for name in sys.argv[3:]:
    handler = importlib.import_module(f"lambdas.{name}.handler").handler
    assert callable(handler), name
outside = [m for m in ("torch", "aws_cdk", "moto", "everstep.cli", "trainer") if m in sys.modules]
assert not outside, outside
"""


def test_every_handler_imports_with_nothing_but_the_bundle_and_the_layer(tmp_path: Path) -> None:
    bundle, layer = tmp_path / "bundle", tmp_path / "layer"
    for place in BUNDLE:
        (bundle / place).parent.mkdir(parents=True, exist_ok=True)
        (bundle / place).symlink_to(ROOT / place)
    layer.mkdir()
    for name in LAYER:
        spec = importlib.util.find_spec(name)
        assert spec is not None, name
        assert spec.origin is not None, name
        origin = Path(spec.origin)
        source = origin.parent if origin.name == "__init__.py" else origin
        (layer / source.name).symlink_to(source)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", IMPORT_ALL, str(bundle), str(layer), *HANDLERS],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={
            "AWS_DEFAULT_REGION": "us-east-1",
            "PATH": os.environ["PATH"],
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )
    assert done.returncode == 0, done.stderr


def test_every_state_and_rule_has_its_folder_and_every_folder_its_state() -> None:
    folders = {p.parent.name for p in (ROOT / "lambdas").glob("*/handler.py")}
    assert folders == set(HANDLERS)


@pytest.mark.parametrize("name", list(FailureClass))
def test_the_runbook_has_a_section_for_each_class(name: FailureClass) -> None:
    text = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    _, found, rest = text.partition(f"\n## {name}\n")
    assert found
    section = rest.partition("\n## ")[0]
    for words in ("What it means.", "What Everstep did.", "What you should do."):
        assert words in section


def test_a_batch_fails_only_the_record_that_failed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lambdas.on_job_event.handler import handler

    event_of_a_failed_job(world)
    monkeypatch.setattr(module, "_services", world.services())
    good = {
        "detail-type": "SageMaker Training Job State Change",
        "detail": {"TrainingJobName": f"{RUN}-00001", "TrainingJobStatus": "Failed"},
    }
    bodies = {"bad": "no event at all", "good": json.dumps(good)}
    answer = handler(
        {
            "Records": [
                {"messageId": name, "body": body, "eventSource": "aws:sqs"}
                for name, body in bodies.items()
            ]
        },
        SimpleNamespace(),
    )
    assert answer == {"batchItemFailures": [{"itemIdentifier": "bad"}]}
    assert world.machine.answers["T1"]["Error"] == "JobFailed"


def test_a_handler_parses_its_payload_and_answers_with_the_next_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lambdas.check_quota.handler import handler

    world.put_run()
    monkeypatch.setattr(module, "_services", world.services())
    event: dict[str, Any] = world.payload(launch=3, unknown_key="of a later release")
    answer = handler(event, None)
    assert (answer["next"], answer["launch"]) == (State.PLAN_ATTEMPT, 3)
    assert json.loads(json.dumps(answer)) == answer
