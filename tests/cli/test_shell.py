"""``everstep shell``: what stands in the way is said; the session goes to AWS's plugin."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from typer.testing import CliRunner

from everstep.cli import shell as command
from everstep.cli.errors import CliError
from everstep.cli.main import app
from everstep.contracts.records import Launch
from everstep.contracts.run_spec import RunSpec

RUN = "research--x"
TARGET = f"sagemaker-training-job:{RUN}-00002_algo-2"
KEYS = {"region_name": "us-east-1", "aws_access_key_id": "t", "aws_secret_access_key": "t"}
SESSION = {"SessionId": "me-1", "TokenValue": "token", "StreamUrl": "wss://stream"}


class Here:
    """A cloud with one run of two launches; clients are botocore's own, with answers put in."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.job = {"TrainingJobStatus": "InProgress", "SecondaryStatus": "Training"}
        self.remote_debug = True
        self.ssm = boto3.client("ssm", **KEYS)
        self.stub = Stubber(self.ssm)
        self.stub.activate()
        monkeypatch.setattr(command, "cloud_of", lambda env: self)

    def run(self, run_id: str) -> Any:
        spec = {
            "model": "tiny",
            "data": "d",
            "stop": {"steps": 1},
            "compute": [{"instance_type": "ml.m5.large", "nodes": 2}],
            "service": {"remote_debug": self.remote_debug},
        }
        return SimpleNamespace(run_id=run_id, spec=RunSpec.model_validate(spec))

    def launches(self, run_id: str) -> list[Launch]:
        return [
            Launch(
                run_id=run_id,
                launch=number,
                job_name=f"{run_id}-{number:05d}",
                execution_arn="e",
                instance_type="ml.m5.large",
                nodes=2,
                planned_epoch=0,
            )
            for number in (1, 2)
        ]

    def client(self, name: str) -> Any:
        if name == "ssm":
            return self.ssm
        meta = SimpleNamespace(region_name="us-east-1")
        return SimpleNamespace(meta=meta, describe_training_job=lambda **_: self.job)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Here:
    return Here(monkeypatch)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in on PATH that writes down what it was given."""
    said, program = tmp_path / "said.json", tmp_path / command.PLUGIN
    program.write_text(
        f"#!{sys.executable}\nimport json, sys\n"
        f"json.dump(sys.argv[1:], open({str(said)!r}, 'w'))\nsys.exit(7)\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    return said


@pytest.fixture
def no_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


def _shell(*words: str) -> Any:
    result = CliRunner().invoke(app, ["shell", RUN, *words])
    if isinstance(result.exception, CliError):
        raise result.exception
    return result


def test_the_session_is_handed_to_the_plugin_and_its_end_is_ours(here: Here, plugin: Path) -> None:
    here.stub.add_response("start_session", SESSION, {"Target": TARGET})
    assert _shell("--host", "2").exit_code == 7
    answer, region, operation, profile, parameters, endpoint = json.loads(plugin.read_text())
    assert json.loads(answer) == SESSION
    assert (region, operation, profile) == ("us-east-1", "StartSession", "")
    assert json.loads(parameters) == {"Target": TARGET}
    assert endpoint == "https://ssm.us-east-1.amazonaws.com"


@pytest.mark.usefixtures("no_plugin")
def test_the_command_is_printed_for_another_machine(here: Here) -> None:
    printed = _shell("--host", "2", "--print").stdout.strip()
    assert printed == f"aws ssm start-session --target {TARGET} --region us-east-1"
    older = _shell("--launch", "1", "--json").stdout
    assert json.loads(older)["target"] == f"sagemaker-training-job:{RUN}-00001_algo-1"


@pytest.mark.usefixtures("no_plugin")
def test_all_that_is_missing_is_said_at_once(here: Here) -> None:
    here.remote_debug = False
    here.job = {"TrainingJobStatus": "Completed", "SecondaryStatus": "Completed"}
    with pytest.raises(CliError) as refused:
        _shell("--host", "3")
    said = str(refused.value)
    for word in ("host 3 is none", "which has 2", "without a way in", "is Completed", "plugin"):
        assert word in said
    assert "--host 1 to 2" in refused.value.hint


@pytest.mark.parametrize(
    ("code", "what", "hint"),
    [
        ("AccessDeniedException", "you lack ssm:StartSession on", "session tag"),
        ("TargetNotConnected", "no agent answers", "ssmmessages"),
        ("InternalServerError", "InternalServerError: ", "--print"),
    ],
)
@pytest.mark.usefixtures("plugin")
def test_a_refusal_of_session_manager_is_a_sentence(
    here: Here, code: str, what: str, hint: str
) -> None:
    here.stub.add_client_error("start_session", code, "no")
    with pytest.raises(CliError, match=what) as refused:
        _shell("--host", "2")
    assert hint in refused.value.hint


def test_a_launch_that_is_none_is_said(here: Here) -> None:
    with pytest.raises(CliError, match="has no launch 9"):
        _shell("--launch", "9", "--print")
