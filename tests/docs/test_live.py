"""Every other command of the docs, page by page, on the quick start's emulator."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from docsite.blocks import Command, commands, parts
from docsite.cli_page import commands as of_the_program
from docsite.session import run_page
from tests.docs.pages import ROOT, RUN, pages, reason
from tests.docs.stand_in import AROUND, FOR, stand_in
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


def test_every_stand_in_is_needed() -> None:
    lines = [command.text for found in WANTED.values() for command in found]
    here = [stand_in(line) for line in lines]
    assert not [said for said, _ in FOR if not any(re.search(said, x) for x in lines)]
    assert not [
        known for known, how in AROUND if not any(x.startswith(how.split("{}")[0]) for x in here)
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
