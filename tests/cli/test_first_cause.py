"""``everstep logs``: which launch, which host, and the line that a failure was classified by."""

import json
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from typer.testing import CliRunner

from everstep.cli.cloud import Cloud, LogEvent
from everstep.cli.errors import CliError
from everstep.cli.first_cause import find_cause
from everstep.cli.main import app
from everstep.contracts.failures import (
    Action,
    Decision,
    DecisionKind,
    Failure,
    FailureClass,
)
from everstep.contracts.records import Launch, Outcome, job_name

RUN = CliRunner()


def failure(cause: str, at: float | None = None, **more: Any) -> Failure:
    return Failure(
        failure_class=FailureClass.USER_CODE,
        action=Action.RETRY_BACKOFF,
        cause=cause,
        rule="python-exception",
        time_epoch=at,
        **more,
    )


def event(at: float, text: str, host: str = "algo-1-1") -> LogEvent:
    return LogEvent(at, host, text, f"{at}-{host}")


def launch(number: int, **more: Any) -> Launch:
    return Launch(
        run_id="run",
        launch=number,
        job_name=job_name("run", number),
        execution_arn="arn",
        instance_type="ml.p5.48xlarge",
        nodes=4,
        planned_epoch=0.0,
        **more,
    )


def test_the_first_line_that_says_it_is_the_cause() -> None:
    lines = [event(1, "step 1"), event(2, "KeyError: 'bug'"), event(3, "KeyError: 'bug'")]
    assert find_cause(failure("KeyError: 'bug'"), lines) == 1


def test_of_several_the_one_at_the_classified_time() -> None:
    lines = [event(1, "NCCL error: timeout"), event(9, "NCCL error: timeout")]
    assert find_cause(failure("NCCL error: timeout", at=8.6), lines) == 1


def test_a_redacted_cause_is_found() -> None:
    lines = [event(1, "OSError: login failed, password=hunter22 wrong")]
    assert find_cause(failure("OSError: login failed, password=<redacted> wrong"), lines) == 0


def test_short_words_are_no_proof() -> None:
    assert find_cause(failure("ml"), [event(1, "a line about ml and more")]) is None
    assert find_cause(failure("InternalServerError: We encountered"), [event(1, "error")]) is None
    assert find_cause(failure("some long cause"), [event(1, "")]) is None


def asked(monkeypatch: pytest.MonkeyPatch, launches: list[Launch], events: list[LogEvent]) -> Any:
    monkeypatch.setattr(Cloud, "launches", lambda *_: launches)
    read: list[str] = []

    def lines(_: Cloud, job: str, *more: Any) -> list[LogEvent]:
        read.append(job)
        return events

    monkeypatch.setattr(Cloud, "log_events", lines)

    def ask(*arguments: str) -> tuple[str, str]:
        done = RUN.invoke(app, ["logs", "run", *arguments], catch_exceptions=False)
        return read[-1], done.stdout

    return ask


def test_first_cause_is_of_the_newest_launch_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [event(n, f"line {n} of the log") for n in range(20)]
    events += [event(20, "ValueError: no such shard", "algo-2-2"), event(21, "victim: peer lost")]
    failed = launch(1, failure=failure("ValueError: no such shard", rank=9, step=40))
    ask = asked(monkeypatch, [failed, launch(2)], events)
    job, shown = ask("--first-cause")
    assert job == "run-00001"
    assert shown.splitlines() == [
        "launch 1: user_code, rank 9, step 40, 1970-01-01 00:00:20 UTC",
        "cause: ValueError: no such shard",
        "> 00:00:20 algo-2  ValueError: no such shard",
    ]
    found = json.loads(ask("--first-cause", "--json")[1])
    assert (found["rank"], found["host"], found["time"]) == (9, "algo-2", 20)


def test_a_cause_that_no_line_says_is_still_said(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = launch(1, failure=failure("InternalServerError: lost a host"))
    _, shown = asked(monkeypatch, [failed], [event(1, "step 1")])("--first-cause")
    assert shown == "launch 1: user_code\ncause: InternalServerError: lost a host\n"


def test_a_rank_is_on_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [
        event(1, "one", "algo-1-1"),
        event(2, "ten", "algo-10-1"),
        event(3, "two", "algo-2-1"),
    ]
    ask = asked(monkeypatch, [launch(1)], events)
    assert ask("--rank", "7")[1] == "00:00:01 algo-1  one\n"
    assert ask("--rank", "8")[1] == "00:00:03 algo-2  two\n"
    with pytest.raises(CliError, match="has no rank 32") as raised:
        ask("--rank", "32")
    assert (raised.value.code, raised.value.hint) == (3, "0 to 31: 4 × ml.p5.48xlarge")


def test_attempts_leave_out_launches_that_spent_none(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = Decision(kind=DecisionKind.WAIT, reason="capacity", spends_attempt=False)
    ask = asked(
        monkeypatch, [launch(1), launch(2, decision=nothing), launch(3)], [event(1, "hello")]
    )
    assert ask("--attempt", "2")[0] == "run-00003"
    with pytest.raises(CliError, match="has no attempt 3"):
        ask("--attempt", "3")
    for pair in (["--launch", "1", "--attempt", "1"], ["--host", "algo-1", "--rank", "0"]):
        with pytest.raises(CliError, match="were given"):
            ask(*pair)


def test_following_shows_each_line_once_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    done = Outcome(status="Completed", secondary_status="Completed")
    lines = [event(1, "one"), event(2, "two"), event(3, "three")]
    rows = iter([*[launch(1)] * 4, launch(1, outcome=done)])
    gone = EndpointConnectionError(endpoint_url="https://logs.x")
    log = iter([lines[:1], gone, lines[:2], lines])

    def read(*_: Any) -> list[LogEvent]:
        found = next(log)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(Cloud, "run", lambda *_: None)
    for pause in ("FOLLOW_SECONDS", "AWAY_SECONDS"):
        monkeypatch.setattr(f"everstep.cli.logs.{pause}", 0)
    monkeypatch.setattr(Cloud, "launches", lambda *_: [next(rows)])
    monkeypatch.setattr(Cloud, "log_events", read)
    shown = RUN.invoke(app, ["logs", "run", "--launch", "1", "--follow"], catch_exceptions=False)
    assert [line.split()[-1] for line in shown.stdout.splitlines()] == ["one", "two", "three"]
