"""Pages that are run from top to bottom in a clone, and still print what they show."""

import shutil
from pathlib import Path

import pytest

from docsite.blocks import commands
from docsite.record import CUT, rewrite
from docsite.session import Result, run_page, shape
from tests.report import browser

SECONDS = 550


def run(page: str, clone: Path, environ: dict[str, str]) -> list[Result]:
    text = (clone / page).read_text(encoding="utf-8")
    wanted = [c for c in commands(Path(page), text) if c.language == "console"]
    results = run_page(wanted, clone, environ, SECONDS)
    check_ended(results)
    assert len(results) == len(wanted)
    return results


def check_ended(results: list[Result]) -> None:
    for result in results:
        said = f"{result.command.where}: {result.command.text}\n{result.stdout}\n{result.stderr}"
        assert result.code == 0, said
        assert "Traceback" not in result.stderr, said


def check_shown(results: list[Result]) -> None:
    """Each line below a command was printed by it, numbers aside."""
    for result in results:
        printed = {shape(line) for line in result.stdout.splitlines()} | {shape(CUT)}
        missing = [line for line in result.command.output if shape(line) not in printed]
        assert not missing, (
            f"{result.command.where} shows what `{result.command.text}` does not print:\n"
            + "\n".join(missing)
            + f"\nhint: python -m docsite.record {result.command.page}\n\n{result.stdout}"
        )


@pytest.mark.scenario
def test_a_newcomer_follows_the_quick_start_to_a_finished_run_and_an_open_report(
    clone: Path, quick_start: list[Result]
) -> None:
    check_ended(quick_start)
    check_shown(quick_start)
    said = {r.command.text: r.stdout for r in quick_start}
    waited = next(v for k, v in said.items() if k.startswith("everstep run "))
    assert "done (step 100 of 100" in waited
    report = clone / "first.html"
    assert "</html>" in report.read_text(encoding="utf-8")
    if browser.lacking() is None:
        (seen,) = browser.look([{"file": str(report), "width": 360, "height": 740}], clone)
        assert (seen["said"], seen["requests"]) == ([], [])
        assert seen["figures"]["failures"] == "0"


@pytest.mark.slow
def test_the_trainer_page_trains_alone(clone: Path, newcomer: dict[str, str]) -> None:
    shutil.rmtree(clone / "checkpoints", ignore_errors=True)  # other pages train here too
    path = f"{clone}/.venv/bin:{newcomer['PATH']}"
    results = run("docs/trainer.md", clone, {**newcomer, "PATH": path})
    assert '"step":50' in results[-1].stdout


def test_recording_replaces_what_a_page_shows_and_nothing_else() -> None:
    block = "    $ one \\\n        --more\n    old\n    $ two\n"
    text = f"a\n\n1. x\n\n    ```console\n{block}    ```\n\nb\n"
    one, two = commands(Path("page"), text)
    assert (one.text, one.output, two.text) == ("one --more", ["old"], "two")
    new = rewrite(text, [Result(one, 0, "new\n\nlines\n", ""), Result(two, 0, "", "talk")])
    assert new == text.replace("    old\n", "    new\n\n    lines\n")


def test_a_page_ends_with_the_command_that_fails(tmp_path: Path) -> None:
    text = "```console\n$ export A=1\n$ echo $A; false\n$ echo never\n```\n"
    environ = {"PATH": "/usr/bin:/bin"}
    results = run_page(commands(Path("page"), text), tmp_path, environ, 60)
    assert [(r.code, r.stdout) for r in results] == [(0, ""), (1, "1\n")]


def test_numbers_and_times_do_not_count() -> None:
    assert shape("0.0 s  run first accepted") == shape("  12.5 s  run first accepted")
    assert shape("status  done") != shape("status  gave_up")
