"""Every other command of the docs, page by page, on the quick start's emulator."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from docsite.blocks import Command, commands, parts
from docsite.cli_page import commands as of_the_program
from docsite.session import run_page
from tests.conftest import place
from tests.docs.pages import ROOT, RUN, pages, reason
from tests.docs.stand_in import AROUND, FOR, named, stand_in
from tests.docs.test_run_pages import check_ended, check_shown

SECONDS = 550


def wanted(page: Path) -> list[Command]:
    """What is run here: not what test_run_pages.py runs, nor what has a reason."""
    name = page.relative_to(ROOT)
    return [
        command
        for command in commands(name, page.read_text(encoding="utf-8"))
        if not (command.language == "console" and str(name) in RUN)
        and not any(reason(" ".join(words)) for words in parts(command.text))
    ]


WANTED = {str(page.relative_to(ROOT)): found for page in pages() if (found := wanted(page))}


@pytest.mark.scenario
@pytest.mark.parametrize("page", WANTED)
def test_every_command_of_the_page_runs(page: str, live: dict[str, str], clone: Path) -> None:
    run = re.sub(r"\W+", "-", page.removesuffix(".md")).lower()
    execution = f"{live['MACHINE'].replace(':stateMachine:', ':execution:')}:{run}"
    given = [replace(command, text=stand_in(command.text)) for command in WANTED[page]]
    results = run_page(given, clone, {**live, "RUN": run, "EXECUTION": execution}, SECONDS)
    check_ended(results)
    assert len(results) == len(given)
    check_shown(results)


def test_whatever_runs_on_the_quick_starts_emulator_is_one_workers(
    request: pytest.FixtureRequest,
) -> None:
    """Else pytest-xdist starts it twice, beside itself."""
    places = {
        place(item.path)
        for item in request.session.items
        if "quick_start" in getattr(item, "fixturenames", ())
    }
    assert places <= {"docs"}


def test_every_stand_in_is_needed() -> None:
    assert not needless([command.text for found in WANTED.values() for command in found])


def test_a_stand_in_that_no_page_needs_is_found() -> None:
    every = {known for known, _ in (*FOR, *AROUND)}
    assert set(needless(["ls"])) == every
    assert every - set(needless(["efa-check --image  # there"])) == {"efa-check( --image)?"}


def needless(lines: list[str]) -> list[str]:
    """The patterns of ``FOR`` and ``AROUND`` that none of the lines needs."""
    here = [named(line) for line in lines]
    return [said for said, _ in FOR if not any(re.search(said, x) for x in lines)] + [
        known for known, _ in AROUND if not any(re.fullmatch(known, x) for x in here)
    ]


def test_every_command_of_the_program_stands_in_the_docs_and_is_run() -> None:
    lines = [
        command.text
        for page in pages()
        for command in commands(page, page.read_text(encoding="utf-8"))
    ]
    missing = [
        name
        for name, _ in of_the_program()
        if not any(re.search(rf"{name}(\s|\)|$)", line) for line in lines)
    ]
    assert missing == ["everstep local demo"]  # `make demo`
