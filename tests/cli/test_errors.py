"""Bad input is a sentence and a hint, never a traceback; data and talk do not mix."""

import json
import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from typer.testing import CliRunner

from emulator.service import around_proxy
from everstep.cli.cloud import Cloud, LogEvent
from everstep.cli.demo import OWNER, clear_killed
from everstep.cli.errors import CliError
from everstep.cli.local import local_cloud
from everstep.cli.main import app
from everstep.contracts.records import Launch, job_name

RUN = CliRunner()
ROOT = Path(__file__).parents[2]
NOWHERE = {
    "AWS_ENDPOINT_URL": "http://localhost:9",
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "us-east-1",
    "AWS_MAX_ATTEMPTS": "1",
    "PATH": "/usr/bin:/bin",
}


def everstep(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "everstep.cli.main", *arguments],
        cwd=ROOT,
        env=NOWHERE,
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )


def check_refused(done: subprocess.CompletedProcess[str], code: int, *said: str) -> None:
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "hint:" in done.stderr
    for part in said:
        assert part in done.stderr


def test_every_problem_of_a_spec_is_told_before_aws_is_asked(tmp_path: Path) -> None:
    spec = tmp_path / "bad.json"
    spec.write_text(json.dumps({"modle": "tiny", "stop": {"steps": 0}}))
    done = everstep("run", str(spec))
    check_refused(done, 2, "did you mean 'model'?", "stop.steps", "compute: is required")


@pytest.mark.parametrize(
    ("text", "said"), [("{", "is not JSON"), ("[]", "a run spec is a JSON object")]
)
def test_what_is_not_a_spec_is_refused(text: str, said: str) -> None:
    check_refused(everstep("run", "-", text=text), 2, said)


BROKEN = {
    "UTF-16": ('{"model": "tiny"}'.encode("utf-16"), "is not UTF-8 text"),
    "many digits": (b'{"stop": {"steps": ' + b"9" * 5000 + b"}}", "is not JSON"),
    "deep": (b"[" * 100_000, "nested too deeply"),
    "empty": (b"", "is not JSON"),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_file_is_refused_by_every_command_that_takes_one(
    broken: str, tmp_path: Path
) -> None:
    raw, said = BROKEN[broken]
    spec = tmp_path / "spec.json"
    spec.write_bytes(raw)
    for command in (["run"], ["plan"], ["simulate", "--spec"], ["local", "demo", "--spec"]):
        with pytest.raises(CliError, match=said):
            RUN.invoke(app, [*command, str(spec)], catch_exceptions=False)


def test_a_missing_file_is_named() -> None:
    check_refused(everstep("run", "no/such.json"), 2, "no/such.json", "No such file")


def test_a_run_id_that_sagemaker_would_refuse_is_refused_here() -> None:
    done = everstep("run", "examples/tiny.json", "--name", "under_score")
    check_refused(done, 2, "under_score", "at most 40 characters")


def test_nothing_is_no_run_id() -> None:
    for arguments in (["run", "examples/tiny.json", "--name", ""], ["status", ""], ["logs", ""]):
        with pytest.raises(CliError, match="is not a run id"):
            RUN.invoke(app, arguments, catch_exceptions=False)


def launch_of(number: int) -> Launch:
    return Launch(
        run_id="run",
        launch=number,
        job_name=job_name("run", number),
        execution_arn="arn",
        instance_type="ml.m5.large",
        nodes=2,
        planned_epoch=0.0,
    )


def test_logs_that_are_not_there_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cloud, "launches", lambda *_: [launch_of(n) for n in (1, 2)])
    events = [LogEvent(0.0, "algo-1-123", "hello", "1")]
    monkeypatch.setattr(Cloud, "log_events", lambda *_: events)
    assert "algo-1  hello" in RUN.invoke(app, ["logs", "run", "--host", "algo-1"]).stdout
    for arguments, said in (
        (["--launch", "99"], "has no launch 99"),
        (["--launch", "0"], "has no launch 0"),
        (["--host", "nope"], "has no log of host 'nope'"),
    ):
        with pytest.raises(CliError, match=said) as raised:
            RUN.invoke(app, ["logs", "run", *arguments], catch_exceptions=False)
        assert raised.value.code == 3


@pytest.mark.parametrize("minute", ["nan", "-1", "0", "inf"])
def test_a_minute_has_seconds(minute: str, tmp_path: Path) -> None:
    arguments = ["local", "up", "--empty", "--state", str(tmp_path), "--minute", minute]
    with pytest.raises(CliError, match="no number of seconds"):
        RUN.invoke(app, arguments, catch_exceptions=False)


def test_what_killed_demos_left_is_cleared(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for name, owner in (("killed", ended.pid), ("running", os.getpid()), ("failed", None)):
        (tmp_path / f"demo-{name}").mkdir()
        if owner is not None:
            (tmp_path / f"demo-{name}" / OWNER).write_text(str(owner))
    clear_killed(tmp_path)
    assert sorted(x.name for x in tmp_path.iterdir()) == ["demo-failed", "demo-running"]


def test_no_aws_to_talk_to_is_an_answer() -> None:
    check_refused(everstep("status", "some-run"), 3, "AWS_ENDPOINT_URL")


def test_status_of_no_emulator_has_its_own_exit_code(tmp_path: Path) -> None:
    done = everstep("local", "status", "--state", str(tmp_path), "--json")
    assert done.returncode == 3
    assert json.loads(done.stdout) == {"running": False}


def test_env_of_no_emulator_prints_nothing_to_eval(tmp_path: Path) -> None:
    check_refused(everstep("local", "env", "--state", str(tmp_path)), 3, "everstep local up")


def test_a_taken_port_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = everstep("local", "up", "--empty", "--state", str(tmp_path), "--port", port)
    check_refused(done, 1, "Address already in use", "--port 0")


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = everstep("local", "up", "--empty", "--state", str(tmp_path / "file" / "state"))
    check_refused(done, 1, "Not a directory")


def test_the_emulator_is_reached_around_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    keys = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }
    asked: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(404)
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cloud = local_cloud(f"http://localhost:{server.server_port}", keys)
        with pytest.raises(ClientError):
            cloud.client("s3").get_object(Bucket="b", Key="k")
        server.shutdown()
    assert asked == ["/b/k"]


def test_a_users_own_no_proxy_is_kept() -> None:
    found = around_proxy({"NO_PROXY": "corp.example, 10.0.0.0/8"})
    assert found["NO_PROXY"] == "corp.example,10.0.0.0/8,localhost,127.0.0.1"
    assert around_proxy(found) == found
