"""docs/cli.md says what the code does: exit codes, commands and options."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from everstep.cli.errors import EXIT_CODES
from everstep.cli.main import app
from everstep.cli.watch_draw import screen
from tests.cli.watched import MOMENTS

TEXT = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
COMMANDS = get_command(app).commands  # type: ignore[attr-defined]
SECTIONS = dict(re.findall(r"^## `everstep (\S+)`\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S))


def test_exit_codes_are_the_codes_own() -> None:
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", TEXT, re.M)
    assert {int(code): words.replace("\\|", "|") for code, words in rows} == EXIT_CODES


def test_the_commands_on_runs_have_a_section() -> None:
    wanted = {"list", "watch", "status", "logs", "stop", "retry", "resume", "clone", "doctor"}
    wanted |= {"shell", "capacity"}
    assert set(SECTIONS) == wanted
    assert wanted <= set(COMMANDS)


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_names_each_option_and_no_other(name: str) -> None:
    code = {o for p in COMMANDS[name].params for o in p.opts if o.startswith("--")}
    said = set(re.findall(r"`(--[a-z-]+)", SECTIONS[name]))
    assert said == code


def test_the_screen_in_the_docs_is_what_watch_draws_of_these_rows() -> None:
    assert screen(MOMENTS["steps"]()).plain in TEXT


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_there(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    monkeypatch.setenv("_EVERSTEP_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "everstep re")
    monkeypatch.setenv("COMP_WORDS", "everstep re")
    monkeypatch.setenv("COMP_CWORD", "1")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    done = CliRunner().invoke(app, [], prog_name="everstep")
    assert {"retry", "resume", "redrive-dlq"} <= set(re.findall(r"re[a-z-]+", done.stdout))
