"""Odd terminals, odd files, odd logs: the commands say what is wrong and break nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from botocore.exceptions import EndpointConnectionError, NoCredentialsError
from botocore.parsers import ResponseParserError
from typer.testing import CliRunner

from everstep.cli import main, output, report, run
from everstep.cli.cloud import Cloud, LogEvent
from everstep.cli.errors import CliError
from everstep.cli.executions import Execution
from everstep.cli.main import app
from everstep.cli.watch_draw import Teller, screen
from everstep.contracts.records import RunStatus
from tests.cli import watched

RUN = CliRunner()
ROOT = Path(__file__).parents[2]
CLEAR = "\x1b[2J\x1b[31m\x07"


def refused(*arguments: str, code: int = 2) -> CliError:
    with pytest.raises(CliError) as raised:
        RUN.invoke(app, list(arguments), catch_exceptions=False)
    assert raised.value.code == code
    return raised.value


def test_a_terminal_of_ascii_alone_gets_all_lines() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "everstep.cli.main", "plan", "examples/tiny.json", "--no-quotas"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"2 ? ml.m5.large" in done.stdout


def test_what_a_program_printed_moves_no_cursor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Cloud, "launches", lambda *_: [watched.launch(1)])
    monkeypatch.setattr(
        Cloud, "log_events", lambda *_: [LogEvent(0.0, "algo-1-9", f"{CLEAR}boom\t☃", "1")]
    )
    shown = RUN.invoke(app, ["logs", "run"]).stdout
    assert shown == "00:00:00 algo-1  \\x1b[2J\\x1b[31m\\x07boom\t☃\n"
    output.say(f"error: {CLEAR}\nhint: x")
    assert capsys.readouterr().err == "error: \\x1b[2J\\x1b[31m\\x07\nhint: x\n"


def test_what_a_program_printed_moves_no_cursor_on_the_watched_screen() -> None:
    failed = watched.failed(1, watched.OVER)
    assert failed.failure is not None
    cause = failed.failure.model_copy(update={"cause": f"{CLEAR}boom"})
    shown = watched.shown(
        watched.run(note=CLEAR), [failed.model_copy(update={"failure": cause})], execution="FAILED"
    )
    for text in (screen(shown).plain, "\n".join(Teller().lines(shown))):
        assert "\\x1b[2J\\x1b[31m\\x07boom" in text
        assert text.replace("\n", "").isprintable()


NO_SECONDS = ('"fast"', "null", "[1]", "-1", "NaN", "1e999", "1" * 5000, "true")


@pytest.mark.parametrize("said", NO_SECONDS)
def test_whatever_a_program_calls_seconds_status_is_told(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last step's loss was no number either: its step is told, another one's loss is not."""
    lines = [
        '{"everstep":"step","step":6,"loss":2.5,"step_seconds":2}',
        f'{{"everstep":"step","step":7,"loss":NaN,"step_seconds":{said}}}',
    ]
    events = [LogEvent(float(n), "algo-1", text, str(n)) for n, text in enumerate(lines)]
    monkeypatch.setattr(Cloud, "run", lambda *_: watched.run())
    monkeypatch.setattr(Cloud, "launches", lambda *_: [watched.launch(1)])
    monkeypatch.setattr(Cloud, "_query", lambda *_: [])
    monkeypatch.setattr(Cloud, "log_events", lambda *_: events)
    shown = json.loads(RUN.invoke(app, ["status", "run", "--json"], catch_exceptions=False).stdout)
    assert (shown["step"], shown["loss"]) == (7, None)


def test_a_classified_cause_moves_no_cursor() -> None:
    told = RUN.invoke(app, ["classify"], input=f"{CLEAR}CUDA error: out of memory\n").stdout
    assert "out_of_memory_gpu" in told
    assert told.replace("\n", "").isprintable()


def test_a_line_of_brackets_is_no_message(tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_text("[" * 100_000)
    assert "line 1: is not JSON" in refused("classify", "--jsonl", str(file)).what


def test_waiting_for_a_run_outlasts_a_lost_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of days is not reported as lost because a network was, for a minute."""
    gone = EndpointConnectionError(endpoint_url="https://x")
    answers: list[Any] = [gone, gone, Execution("arn:run", "SUCCEEDED")]

    def describe(*_: object) -> Execution:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return cast(Execution, answer)

    pauses: list[float] = []
    monkeypatch.setattr("everstep.cli.executions.describe", describe)
    monkeypatch.setattr(Cloud, "launches", lambda *_: [])
    monkeypatch.setattr(Cloud, "find_run", lambda *_: None)
    monkeypatch.setattr(run.time, "sleep", pauses.append)
    assert run.follow(Cloud("dev"), "arn:run")
    assert pauses == [run.AWAY_SECONDS] * 2
    answers.append(NoCredentialsError())
    with pytest.raises(NoCredentialsError):
        run.follow(Cloud("dev"), "arn:run")


def test_a_search_that_ends_before_it_begins_is_refused() -> None:
    search = ("capacity", "--instance-type", "ml.p5.48xlarge", "--nodes", "4", "--days", "2")
    dates = ("--after", "2026-12-10T00:00:00Z", "--before", "2026-12-01")
    assert "is not before" in refused(*search, *dates).what


def test_no_emoji_is_made_of_colons(capsys: pytest.CaptureFixture[str]) -> None:
    """rich draws one for ``:key:``, markup or not: an ARN or a log line holds such."""
    output.say("rank:key:1 :fire:")
    assert capsys.readouterr().err == "rank:key:1 :fire:\n"


def test_a_note_of_many_lines_is_one_row_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    output.tabbed(["run", None, "gave up\nhint:\tlook"])
    assert capsys.readouterr().out == "run\t\tgave up hint: look\n"


def test_a_field_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    spec = tmp_path / "spec.json"
    spec.write_text('{"model": "tiny", "stop": {"steps": 1, "steps": 2}}')
    assert "'steps' twice" in refused("plan", str(spec)).what


def test_a_byte_order_mark_is_no_problem(tmp_path: Path) -> None:
    spec = tmp_path / "spec.json"
    spec.write_bytes(b"\xef\xbb\xbf" + (ROOT / "examples" / "tiny.json").read_bytes())
    assert RUN.invoke(app, ["plan", str(spec), "--no-quotas"]).exit_code == 0


def test_a_page_in_the_place_of_aws_is_an_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answered(*_: object) -> None:
        raise ResponseParserError("invalid XML received:\n<!doctype html>")

    monkeypatch.setattr(main, "app", answered)
    with pytest.raises(SystemExit) as ended:
        main.main()
    said = capsys.readouterr().err
    assert ended.value.code == 3
    assert "hint:" in said
    assert "doctype" not in said


def test_an_endpoint_that_is_no_url_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "localhost")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    assert "localhost" in refused("list", code=3).what


def test_teams_are_called_as_config_calls_them(monkeypatch: pytest.MonkeyPatch) -> None:
    arn = "arn:aws:states:us-east-1:1:stateMachine:everstep-dev-"
    machines = {"Research": f"{arn}research", "RedTeam": f"{arn}red-team"}
    monkeypatch.setattr(Cloud, "machines", lambda _: machines)
    cloud = Cloud("dev")
    assert cloud.machine_arn("red-team") == f"{arn}red-team"
    for team in ("nope", None):
        with pytest.raises(CliError, match="there are red-team, research"):
            cloud.machine_arn(team)


def test_logs_of_a_run_that_ended_before_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cloud, "launches", lambda *_: [])
    monkeypatch.setattr(Cloud, "find_run", lambda *_: watched.run(status=RunStatus.GAVE_UP))
    error = refused("logs", "run", code=3)
    assert (error.what, error.hint) == (
        "run 'run' had no launch",
        "`everstep status run` says why",
    )


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cloud, "find_run", lambda *_: watched.run(status=RunStatus.STOPPED))
    monkeypatch.setattr(Cloud, "launches", lambda *_: [])
    monkeypatch.setattr(Cloud, "exports", lambda *_: [])
    monkeypatch.setattr(report, "_ended", lambda *_: watched.NOW)


@pytest.mark.usefixtures("told")
def test_a_report_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "r.html"
    file.write_text("of before")
    write = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        write(path, data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert "No space left" in refused("report", "run", "--out", str(file), code=1).what
    assert [x.read_text() for x in tmp_path.iterdir()] == ["of before"]
    monkeypatch.setattr(Path, "write_bytes", write)
    assert RUN.invoke(app, ["report", "run", "--out", str(file)]).stdout == f"{file}\n"
    assert [x.read_text()[:9] for x in tmp_path.iterdir()] == ["<!doctype"]


def test_a_place_for_no_report_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    for place in (tmp_path, tmp_path / "no" / "r.html"):
        assert str(place) in refused("report", "run", "--out", str(place)).what


@pytest.mark.usefixtures("told")
def test_the_report_on_standard_output_is_utf8_whatever_the_terminal() -> None:
    shown = CliRunner(charset="latin-1").invoke(app, ["report", "run", "--out", "-"])
    assert "ml.p5" in shown.stdout_bytes.decode("utf-8")


@pytest.mark.parametrize("more", [("--env", "nope"), ("--tokens-per-s", "inf")])
def test_a_plan_of_nowhere_or_of_endless_speed_is_refused(more: tuple[str, str]) -> None:
    arguments = ["plan", str(ROOT / "examples" / "llama2-7b.json"), "--no-quotas", *more]
    if more[0] == "--env":
        assert "'nope' is not in config/" in refused(*arguments).what
    else:
        assert RUN.invoke(app, arguments).exit_code == 2


def test_the_end_of_a_jobs_run_time_is_no_failure() -> None:
    spec = str(ROOT / "examples" / "llama2-7b.json")
    shown = RUN.invoke(app, ["plan", spec, "--no-quotas", "--rates", "0", "--json"]).stdout
    places: list[dict[str, Any]] = json.loads(shown)["compute"]
    found = [place["figures"]["expected_failures"] for place in places]
    assert [x["value"] for x in found] == [0.0, 0.0]
    assert "27.1 ends of a job's run time" in found[0]["text"]
