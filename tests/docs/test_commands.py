"""No command in the docs is merely text: it is run (test_live.py, test_run_pages.py), is a step of
CI, or has a reason; one in a sentence exists."""

import re
from pathlib import Path

import pytest

from docsite.blocks import blocks, commands, parts
from tests.docs.pages import BY_CI, NOT_RUN, ROOT, RUN, pages
from tests.docs.reading import problem

PAGES = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in pages()}
COMMAND = re.compile(
    r"^(\$ |(everstep|make|python|torchrun|aws|cdk|npx|docker|git|pip|export|eval|cd|curl)\s)"
)
"""How a line begins that a reader would type."""
INLINE = re.compile(r"`(everstep (?!COMMAND)[^`]+)`")
GIVEN = [
    " ".join(words)
    for page, text in PAGES.items()
    for command in commands(Path(page), text)
    for words in parts(command.text)
]
NOT_RUN_AT_MOST = 10


@pytest.mark.parametrize("page", PAGES)
def test_commands_stand_in_blocks_that_are_read(page: str) -> None:
    hidden = [
        block.line
        for block in blocks(PAGES[page])
        if block.language not in ("bash", "console") and any(map(COMMAND.match, block.lines))
    ]
    assert not hidden, f"{page}: commands at lines {hidden}: fence them as bash or console"


def test_every_reason_is_needed_and_few_commands_have_one() -> None:
    assert not [known for known in NOT_RUN if not any(re.fullmatch(known, x) for x in GIVEN)]
    left = [line for line in GIVEN if any(re.fullmatch(known, line) for known in NOT_RUN)]
    assert len(left) <= NOT_RUN_AT_MOST, left


def test_what_ci_is_said_to_run_it_runs() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    steps = re.findall(r"^make (\S+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    for step in steps:  # grows: what a step needs is made too
        needs = re.search(rf"^{step}:([^#\n]*)", makefile, re.MULTILINE)
        assert needs, step
        steps += [x for x in needs[1].split() if re.fullmatch(r"[a-z-]+", x) and x not in steps]
    said = {x.removeprefix("make ") for x in GIVEN if re.fullmatch(BY_CI, x)} - {".ci/run"}
    assert said
    assert said <= set(steps)


def test_every_target_that_has_a_reason_is_one() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {x.split()[1] for x in GIVEN if x.startswith("make ")}
    assert named <= targets


@pytest.mark.parametrize("page", PAGES)
def test_every_everstep_command_in_a_sentence_exists(page: str) -> None:
    wrong = []
    for said in INLINE.findall(PAGES[page]):
        words = re.sub(r"[\[\]]|\s*\|.*|\\\|.*|,.*", " ", said).split()[1:]
        found = problem(words)
        # an argument left out, or a placeholder for a number, is how a sentence speaks
        if found and "Missing argument" not in found and "is not a valid" not in found:
            wrong.append(f"{page}: `{said}`\n    {found}")
    assert not wrong, "\n".join(wrong)


def test_the_pages_that_are_run_have_commands() -> None:
    for page in RUN:
        assert any(c.language == "console" for c in commands(Path(page), PAGES[page])), page


@pytest.mark.parametrize(
    "line",
    [
        "rum spec.json",
        "run examples/no-such.json",
        "run examples/tiny.json --nmae x",
        "local",
    ],
)
def test_what_would_not_start_is_found(line: str) -> None:
    assert problem(line.split())
