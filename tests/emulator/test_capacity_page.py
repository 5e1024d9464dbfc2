"""docs/capacity.md: its commands are run on the emulator, its specs are checked."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from everstep.cli.errors import CliError
from everstep.cli.main import app
from everstep.contracts.check import check_spec

from .conftest import REGION, Cloud, unique

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "capacity.md").read_text()
COMMANDS = [
    line for block in re.findall(r"```console\n(.*?)```", PAGE, re.S) for line in block.splitlines()
]
SPECS = re.findall(r"```json\n(.*?)```", PAGE, re.S)
P5 = ["--instance-type", "ml.p5.48xlarge", "--nodes", "4", "--days", "2"]


@pytest.fixture(autouse=True)
def _here(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": cloud.endpoint,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(ROOT)


def _capacity(*words: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(app, ["capacity", *words, "--json"])
    if result.exception is not None:
        raise result.exception
    return list(json.loads(result.stdout))


@pytest.mark.parametrize("text", SPECS)
def test_every_spec_of_the_page_is_accepted(text: str) -> None:
    smallest = {
        "model": "tiny",
        "data": "d",
        "stop": {"steps": 1},
        "compute": [{"instance_type": "ml.m5.large"}],
    }
    assert check_spec({**smallest, **json.loads(text)})[1] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_page_runs(command: str) -> None:
    program, *words = shlex.split(command)
    assert program == "everstep"
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "create-training-plan" in result.stdout


def test_the_page_has_both() -> None:
    assert len(COMMANDS) >= 3
    assert len(SPECS) >= 5


def test_what_is_printed_buys_the_plan_that_the_spec_names(cloud: Cloud) -> None:
    (report,) = _capacity(*P5)
    soonest, later = report["offerings"]
    assert soonest["blocks"][0]["start"] < later["blocks"][0]["start"]
    assert (later["hours"], later["usable_hours"], later["fee"]) == (48, 47.5, 192.0)
    assert (soonest["usable_hours"], soonest["longest_job_hours"]) == (47, 23.5)
    assert later["fee_per_usable_instance_hour"] == pytest.approx(192 / 47.5 / 4)
    words = shlex.split(later["purchase_command"])
    assert words[:4] == ["aws", "sagemaker", "create-training-plan", "--region"]
    given = dict(zip(words[3::2], words[4::2], strict=True))
    made = cloud("sagemaker").create_training_plan(
        TrainingPlanName=given["--training-plan-name"],
        TrainingPlanOfferingId=given["--training-plan-offering-id"],
    )
    (place,) = later["spec"]["compute"]
    assert place["training_plan_arn"] == made["TrainingPlanArn"]
    assert place["nodes"] == 4


def test_searching_buys_nothing(cloud: Cloud) -> None:
    def plans() -> set[str]:
        found = cloud("sagemaker").list_training_plans()["TrainingPlanSummaries"]
        return {plan["TrainingPlanName"] for plan in found}

    before = plans()
    _capacity(*P5)
    assert plans() == before


def test_price_or_start_comes_first() -> None:
    by_price = _capacity(*P5, "--by", "price")[0]["offerings"]
    by_start = _capacity(*P5)[0]["offerings"]
    assert [x["offering_id"] for x in by_price] == [x["offering_id"] for x in reversed(by_start)]


def test_the_quotas_held_there_are_said() -> None:
    (report,) = _capacity(*P5)
    held = report["quotas"][REGION]
    assert held["ml.p5.48xlarge for training job usage"] == 0
    assert held["ml.p5.48xlarge for spot training job usage"] == 0
    reserved = "Number of ml.p5.48xlarge instances in reserved capacity across training plans"
    assert held[f"{reserved} per Region"] == 64


def test_a_region_that_refuses_is_named_and_stops_no_other(cloud: Cloud) -> None:
    kind = "ml.p5e.48xlarge"
    name = f"Number of {kind} instances in reserved capacity across training plans per Region"
    cloud.control.quota(name, 0)
    try:
        (report,) = _capacity("--instance-type", kind, "--nodes", "1", "--days", "1")
    finally:
        cloud.control.quota(name, 64)
    assert report["offerings"] == []
    assert "ResourceLimitExceeded" in report["not_searched"][REGION]


def test_every_named_region_is_asked_once() -> None:
    regions = ["--region", REGION, "--region", "us-west-2", "--region", REGION]
    (report,) = _capacity(*P5, *regions)
    assert [x["region"] for x in report["offerings"]].count("us-west-2") == 2
    assert len(report["offerings"]) == 4
    assert set(report["quotas"]) == {REGION, "us-west-2"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "say what to look for"),
        (["examples/tiny.json", *P5], "say what to look for"),
        (["--instance-type", "ml.p5.48xlarge"], "needs --nodes and --days"),
        (["examples/tiny.json"], "no training plan holds"),
        (["--instance-type", "ml.p5.48xlarge", "--nodes", "3", "--days", "1"], "--nodes 4"),
        (["--instance-type", "ml.p5.48xlarge", "--nodes", "128", "--days", "1"], "several plans"),
        (["--instance-type", "ml.p5.48xlarge", "--nodes", "1", "--days", "183"], "182 whole days"),
        (["--instance-type", "ml.g5.48xlarge", "--nodes", "1", "--days", "1"], "holds this type"),
        (["--instance-type", "ml.p5.49xlarge", "--nodes", "1", "--days", "1"], "ml.p5.48xlarge"),
        ([*P5, "--region", "us-mars-1"], "has no SageMaker"),
    ],
)
def test_what_cannot_be_looked_for_ends_in_a_sentence(words: list[str], said: str) -> None:
    with pytest.raises(CliError) as refused:
        _capacity(*words)
    assert said in f"{refused.value} {refused.value.hint}"


def test_a_spec_that_runs_for_days_needs_a_plan_of_one_more(tmp_path: Path) -> None:
    spec = {
        "model": "tiny",
        "data": "d",
        "compute": [{"instance_type": "ml.p4d.24xlarge"}, {"instance_type": "ml.g5.48xlarge"}],
        "stop": {"steps": 1, "max_runtime_hours": 48},
    }
    path = tmp_path / f"{unique('spec')}.json"
    path.write_text(json.dumps(spec))
    (report,) = _capacity(str(path))
    assert (report["instance_type"], report["nodes"], report["days"]) == ("ml.p4d.24xlarge", 1, 3)
