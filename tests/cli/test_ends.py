"""How commands end that something stands in the way of: Ctrl-C, AWS, a full disk, one another."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    NoCredentialsError,
    NoRegionError,
    ProfileNotFound,
)
from typer.testing import CliRunner

from everstep.cli import deploy, executions, local, refusal
from everstep.cli.cloud import Cloud
from everstep.cli.errors import DISK, CliError
from everstep.cli.main import app
from everstep.contracts import names
from tests.cli import watched

ROOT = Path(__file__).parents[2]
RUN = CliRunner()


@pytest.fixture
def hanging() -> Iterator[socket.socket]:
    """Takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(120)
        yield server


def environ(server: socket.socket) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.getsockname()[1]}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }


LONG = [
    ["watch", "run"],
    ["logs", "run", "--follow"],
    ["run", "examples/tiny.json", "--wait"],
    ["retry", "run", "--wait"],
    ["list", "--json"],
    ["report", "run"],
    ["doctor"],
    ["plan", "examples/tiny.json"],
]


@pytest.mark.parametrize("command", LONG, ids=lambda c: c[0])
def test_ctrl_c_ends_with_130_and_no_traceback(command: list[str], hanging: socket.socket) -> None:
    # A shell that runs tests in the background has SIGINT ignored, which children inherit.
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    program += "from everstep.cli.main import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, *command],
        cwd=ROOT,
        env=environ(hanging),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        connection, _ = hanging.accept()  # it has begun to ask
        with connection:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert out == ""
    assert "goes on" in " ".join(err.split())


def test_with_json_an_error_is_json_too(monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "everstep.cli.main", "status", "under_score", "--json"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    told = json.loads(done.stdout)
    assert set(told) == {"error", "hint", "see", "exit_code"}
    assert told["exit_code"] == done.returncode == 2
    assert f"error: {told['error']}" in done.stderr


def test_a_reader_that_closes_the_pipe_is_no_traceback() -> None:
    done = subprocess.run(
        f"{sys.executable} -m everstep.cli.main plan examples/tiny.json --no-quotas --explain"
        " | head -n 1; exit ${PIPESTATUS[0]}",
        shell=True,
        executable="/bin/bash",
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1)  # it may have written all before the pipe was closed
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def said(code: str, message: str = "m") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "Query")


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (said("ExpiredTokenException"), "log in again"),
        (said("ExpiredToken"), "log in again"),
        (said("UnrecognizedClientException"), "profile"),
        (said("AccessDeniedException"), "role"),
        (said("ThrottlingException"), "busy"),
        (said("RequestTimeTooSkewed"), "clock"),
        (said("InvalidSignatureException", "Signature expired: 2026 is now earlier"), "clock"),
        (said("InvalidSignatureException", "does not match"), "profile"),
        (NoCredentialsError(), "aws configure sso"),
        (NoRegionError(), "AWS_REGION"),
        (ProfileNotFound(profile="x"), "list-profiles"),
        (ConnectTimeoutError(endpoint_url="https://x"), "proxy"),
    ],
    ids=lambda x: x if isinstance(x, str) else type(x).__name__,
)
def test_what_aws_refuses_says_what_to_do(error: Any, hint: str) -> None:
    told = refusal.explained(error)
    assert hint in told.hint
    assert told.code == 3
    assert "\n" not in told.what


def test_the_region_is_read_as_the_aws_cli_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    assert Cloud("dev").region == "eu-central-1"
    monkeypatch.delenv("AWS_REGION")
    assert Cloud("dev").region == "us-west-2"


class OwnTeamOnly:
    """Step Functions for a researcher of one team of two."""

    def get_paginator(self, _: str) -> "OwnTeamOnly":
        return self

    def paginate(self, stateMachineArn: str, **_: Any) -> Iterator[dict[str, Any]]:
        if not stateMachineArn.endswith("research"):
            raise said("AccessDeniedException")
        began = executions.datetime.fromtimestamp(watched.NOW)
        one = {"name": "ours", "executionArn": "arn:ours", "status": "RUNNING", "startDate": began}
        yield {"executions": [one]}

    def describe_execution(self, executionArn: str) -> dict[str, Any]:
        if "everstep-dev-research" not in executionArn:
            raise said("AccessDeniedException")
        return {"status": "RUNNING"}


@pytest.fixture
def one_team_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cloud, "_client", lambda *_: OwnTeamOnly())
    arn = "arn:aws:states:us-east-1:1:stateMachine:everstep-dev-"
    outputs = {names.OUTPUT_MACHINE + t.title(): arn + t for t in ("applied", "research")}
    monkeypatch.setattr(Cloud, "outputs", outputs)
    monkeypatch.setattr(Cloud, "find_run", lambda *_: None)


@pytest.mark.usefixtures("one_team_of_two")
def test_a_team_that_one_may_not_see_hides_no_other() -> None:
    done = RUN.invoke(app, ["list", "--env", "dev", "--json"], catch_exceptions=False)
    assert [row["run_id"] for row in json.loads(done.stdout)] == ["ours"]
    assert "team applied: its runs are not yours" in done.stderr
    found = executions.find(Cloud("dev"), "ours")
    assert found is not None
    assert found.running


@pytest.mark.usefixtures("one_team_of_two")
def test_who_may_ask_no_machine_is_not_told_that_there_is_no_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answer(_: OwnTeamOnly, executionArn: str) -> dict[str, Any]:
        if "research" in executionArn and allowed:
            raise said("ExecutionDoesNotExist")
        raise said("AccessDeniedException")

    monkeypatch.setattr(OwnTeamOnly, "describe_execution", answer)
    allowed = True
    assert executions.find(Cloud("dev"), "ours") is None, "one's own team has no such run"
    allowed = False
    with pytest.raises(ClientError, match="AccessDeniedException"):
        executions.find(Cloud("dev"), "ours")


@pytest.mark.usefixtures("one_team_of_two")
def test_a_team_that_was_named_and_may_not_be_seen_is_an_error() -> None:
    with pytest.raises(ClientError):
        RUN.invoke(app, ["list", "--env", "dev", "--team", "applied"], catch_exceptions=False)


def test_of_two_that_start_the_emulator_at_once_the_second_says_so(tmp_path: Path) -> None:
    up = ["local", "up", "--empty", "--state", str(tmp_path)]
    with local.alone(tmp_path):
        done = subprocess.run(
            [sys.executable, "-m", "everstep.cli.main", *up],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert "another `everstep local up` is at work" in done.stderr
    assert not (tmp_path / "emulator.json").exists()
    with local.alone(tmp_path):
        pass  # nothing of the first one is left


class FullDisk:
    @staticmethod
    def start(*_: Any, **__: Any) -> None:
        raise RuntimeError("the emulator ended at once: OSError: No space left on device")


def test_a_full_disk_is_not_a_taken_port(tmp_path: Path) -> None:
    with pytest.raises(CliError) as raised:
        local.begin(FullDisk, tmp_path)
    assert (raised.value.hint, raised.value.code) == (DISK, 1)


def test_a_disk_that_held_no_last_word_is_full_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deploy.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 4096}))
    assert deploy.is_full("", tmp_path)
    failed = subprocess.Popen(["false"])
    (tmp_path / "log").write_text("")
    with pytest.raises(CliError) as raised:
        deploy.finish(failed, "cdk deploy", tmp_path / "log")
    assert raised.value.hint == DISK
