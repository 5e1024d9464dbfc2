"""Every command in the docs is run, or could be, or has a reason: none is merely text."""

import re
from pathlib import Path

import pytest

from docsite.blocks import blocks, commands, parts
from tests.docs.pages import NOT_RUN, ROOT, RUN, pages, reason
from tests.docs.reading import PLACEHOLDER, _everstep, problem

PAGES = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in pages()}
COMMAND = re.compile(
    r"^(\$ |(everstep|make|python|torchrun|aws|cdk|npx|docker|git|pip|export|eval|cd|curl)\s)"
)
"""How a line begins that a reader would type."""
INLINE = re.compile(r"`(everstep (?!COMMAND)[^`]+)`")


@pytest.mark.parametrize("page", PAGES)
def test_commands_stand_in_blocks_that_are_read(page: str) -> None:
    hidden = [
        block.line
        for block in blocks(PAGES[page])
        if block.language not in ("bash", "console") and any(map(COMMAND.match, block.lines))
    ]
    assert not hidden, f"{page}: commands at lines {hidden}: fence them as bash or console"


@pytest.mark.parametrize("page", PAGES)
def test_every_command_would_start(page: str) -> None:
    wrong = []
    for command in commands(Path(page), PAGES[page]):
        for words in parts(command.text):
            if command.language == "console" and page in RUN:
                continue  # really run
            if reason(" ".join(words)) is None and (said := problem(words)):
                wrong.append(f"{command.where}: {command.text}\n    {said}")
    assert not wrong, "\n".join(wrong)


def test_every_reason_is_needed() -> None:
    given = [
        " ".join(words)
        for page, text in PAGES.items()
        for command in commands(Path(page), text)
        for words in parts(command.text)
    ]
    unused = [known for known in NOT_RUN if not any(re.fullmatch(known, x) for x in given)]
    assert not unused


@pytest.mark.parametrize("page", PAGES)
def test_every_everstep_command_in_a_sentence_exists(page: str) -> None:
    wrong = []
    for said in INLINE.findall(PAGES[page]):
        words = re.sub(r"[\[\]]|\s*\|.*|\\\|.*|,.*", " ", said).split()[1:]
        found = _everstep(_filled(words))
        # an argument left out, or a placeholder for a number, is how a sentence speaks
        if found and "Missing argument" not in found and "is not a valid" not in found:
            wrong.append(f"{page}: `{said}`\n    {found}")
    assert not wrong, "\n".join(wrong)


def _filled(words: list[str]) -> list[str]:
    return ["1" if PLACEHOLDER.match(w) else w for w in words]


def test_the_pages_that_are_run_have_commands() -> None:
    for page in RUN:
        assert any(c.language == "console" for c in commands(Path(page), PAGES[page])), page


@pytest.mark.parametrize(
    "line",
    [
        "everstep rum spec.json",
        "everstep run examples/no-such.json",
        "everstep run examples/tiny.json --nmae x",
        "everstep local",
        "python -m trainer.nothing",
        "python -m trainer.prepare --ouput x",
        "python examples/nothing.py",
        "aws stepfunctions begin-execution --name x",
        "aws stepfunctions start-execution --nome x",
        "aws s3 cp --recursively a b",
        "make everything",
        "everstep run examples/tiny.json && curl http://example.com",
    ],
)
def test_what_would_not_start_is_found(line: str) -> None:
    assert any(problem(words) for words in parts(line))
