"""``everstep list``: one row a run, whatever its executions; filters; no row is a state too."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from everstep.cli import output
from everstep.cli.cloud import Cloud
from everstep.cli.errors import CliError
from everstep.cli.executions import Listed
from everstep.cli.main import app
from everstep.contracts.records import RunStatus
from tests.cli import watched

BEGAN = datetime(2026, 11, 30, tzinfo=UTC)


def execution(name: str, hours: int, status: str) -> Listed:
    return Listed(name, f"arn:{name}", status, BEGAN + timedelta(hours=hours), "research")


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Any:
    found = [
        execution("done", 1, "SUCCEEDED"),
        execution("long", 2, "SUCCEEDED"),
        execution("long-c01", 9, "RUNNING"),
        execution("typo", 5, "FAILED"),
        execution("new", 10, "RUNNING"),
        execution("stopped", 3, "ABORTED"),
    ]
    rows = {
        "done": watched.run(status=RunStatus.DONE, final_step=250_000),
        "long": watched.run(status=RunStatus.WAITING),
    }
    monkeypatch.setattr("everstep.cli.executions.listed", lambda *_: iter(found))
    monkeypatch.setattr(Cloud, "find_run", lambda _, run_id: rows.get(run_id))
    monkeypatch.setattr(Cloud, "launches", lambda *_: [watched.failed(1, watched.RETRY)])
    monkeypatch.setattr(Cloud, "exports", lambda *_: [])

    def ask(*arguments: str) -> list[dict[str, Any]]:
        done = CliRunner().invoke(app, ["list", "--json", *arguments], catch_exceptions=False)
        return list(json.loads(done.stdout))

    return ask


def test_one_row_a_run_the_newest_first(listed: Any) -> None:
    found = listed()
    assert [(row["run_id"], row["state"]) for row in found] == [
        ("new", "running"),
        ("long", "waiting"),
        ("typo", "refused"),
        ("stopped", "stopped"),
        ("done", "done"),
    ]
    assert (found[1]["step"], found[1]["attempts"]) == (51_200, 1)
    assert (found[-1]["step"], found[-1]["gpu_hours"]) == (250_000, 1280.0)
    assert found[-1]["usd"] is None, "dev's config names no price: unknown, not free"


def test_filters(listed: Any) -> None:
    assert [row["run_id"] for row in listed("--limit", "2")] == ["new", "long"]
    assert [row["run_id"] for row in listed("--name", "o", "--limit", "9")] == [
        "long", "typo", "stopped", "done",
    ]  # fmt: skip
    both = listed("--state", "done", "--state", "refused")
    assert [row["run_id"] for row in both] == ["typo", "done"]
    with pytest.raises(CliError, match="'dead' is none"):
        listed("--state", "dead")


def test_a_table_of_80_columns_keeps_one_line_a_run(
    listed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Console(force_terminal=True, width=80, color_system=None, highlight=False)
    monkeypatch.setattr(output, "out", terminal)
    with terminal.capture() as shown:
        output.show_runs(listed())
    head, *lines = shown.get().splitlines()
    assert head.split() == ["run", "state", "step", "tries", "team", "cost", "started"]
    assert len(lines) == 5
    assert max(map(len, lines)) <= 80


def test_lines_in_a_pipe(listed: Any) -> None:
    shown = CliRunner().invoke(app, ["list"], catch_exceptions=False).stdout.splitlines()
    assert [line.split("\t")[0] for line in shown] == ["new", "long", "typo", "stopped", "done"]
