"""Errors have one shape: what, the value, a hint, a page. Every place that makes one is held to it,
and the examples of the catalogue are made by the program."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docsite import sites as catalogue
from docsite.examples import examples
from docsite.produced import Said, examples_of, produced
from docsite.sites import Kind, Site, sites
from docsite.syntax import template
from tests.docs.pages import ROOT

SITES = sites()
KINDS: tuple[Kind, ...] = ("cli", "spec", "config", "trainer")
EXAMPLES = [(kind, what, said) for kind in KINDS for what, said in examples(kind)]
NO_VALUE = {
    "were given": "the options that exclude each other are the value",
    "there is no text to classify": "nothing was given",
    "say what to look for": "nothing was given",
    "--instance-type needs --nodes and --days": "the options that lack are the value",
    "no region is set": "nothing was given",
    "say what to plan": "nothing was given",
    "alarm_email: is needed by the budget": "nothing was given",
    "tags.environment: is needed by the budget": "nothing was given",
    "give exactly one of preset and config": "both, or neither",
    "the checkpoint holds no model": "the command's own argument",
    "the checkpoint holds adapters (LoRA) alone": "the command's own argument",
}
"""Part of what is said → why no value is in it."""
WITH_EXAMPLE = 285
"""At least so many places have made a text; the number is the catalogue's, not a goal."""


def heading(text: str) -> str:
    return re.sub(r"[^\w -]", "", text.lower()).strip().replace(" ", "-")


@pytest.mark.parametrize("site", SITES, ids=lambda s: s.where)
def test_every_error_says_what_and_what_to_do(site: Site) -> None:
    assert len(site.what.strip()) > 3, site
    assert len(site.hint.strip()) > 3, f"{site.where}: no hint"
    looked_at = site.kind in ("doctor", "efa")  # names what was looked at: it may have no value
    assert site.names_a_value or looked_at or any(part in site.what for part in NO_VALUE), (
        f"{site.where}: say which value is wrong: {site.what!r}"
    )


def test_every_exception_from_the_rule_is_needed() -> None:
    bare = [site.what for site in SITES if not site.names_a_value]
    assert not [part for part in NO_VALUE if not any(part in what for what in bare)]


@pytest.mark.parametrize("see", sorted({site.see for site in SITES}))
def test_every_page_to_read_on_is_there(see: str) -> None:
    page, _, anchor = see.partition("#")
    if page in ("run-spec.md", "config.md"):
        return  # written when the site is built: test_site.py
    text = (ROOT / "docs" / "reference" / page).resolve().read_text(encoding="utf-8")
    headings = {heading(line.lstrip("# ")) for line in text.splitlines() if line.startswith("#")}
    assert not anchor or anchor in headings


@pytest.mark.parametrize(("kind", "what", "said"), EXAMPLES, ids=[x[1] for x in EXAMPLES])
def test_an_example_has_the_shape_and_a_known_maker(kind: Kind, what: str, said: str) -> None:
    if kind == "cli":
        found = re.fullmatch(r"error: .+\nhint: .+\nsee: (docs/[\w./-]+)", said, re.DOTALL)
        assert found, said
        assert (ROOT / found[1]).is_file()
    elif kind == "trainer":
        found = re.fullmatch(r"(\w+): .+ \(hint: .+\)", said, re.DOTALL)
        assert found, said
        assert f"## {found[1]}" in (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    else:
        count = int(re.match(r"(\d+) problems? in ", said)[1])  # type: ignore[index]
        problems = re.findall(r"^- [\w.$ ]+: .+ \(got .+\)\n    hint: .+$", said, re.MULTILINE)
        assert count == len(problems) > 0, said
    assert any(site.made(said) for site in SITES if not site.is_open), said


@pytest.fixture(scope="module")
def said() -> list[Said]:
    return produced()


def test_what_the_program_says_has_a_hint_and_a_known_maker(said: list[Said]) -> None:
    """So that the catalogue lacks no place, and shows each text at its own."""
    assert [one for one in said if not one.what.strip() or not one.hint.strip()] == []
    strange = [one for one in said if not examples_of(SITES, [one])]
    assert strange == []


def test_many_places_have_an_example(said: list[Said]) -> None:
    found = examples_of(SITES, said)
    assert {site.kind for site in found} == {site.kind for site in SITES}
    assert len(found) >= WITH_EXAMPLE, f"{len(found)} of {len(SITES)}"


def bare_exits(tree: ast.AST) -> Iterator[int]:
    """Lines that end a program with words of their own, past every shape."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            words = node.args and not isinstance(node.args[0], ast.Constant | ast.Name)
            text = node.args and isinstance(getattr(node.args[0], "value", None), str)
            ends = name in ("sys.exit", "SystemExit") and (text or words)
            if name.endswith(("BadParameter", "typer.Abort")) or (
                ends and isinstance(node.args[0], ast.JoinedStr | ast.Constant)
            ):
                yield node.lineno


def test_no_command_ends_in_words_of_another_shape() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for room in ("everstep/cli", "trainer")
        for path in (ROOT / room).rglob("*.py")
        for line in bare_exits(ast.parse(path.read_text(encoding="utf-8")))
    ]
    # the trainer prints a TrainerError whole, hint included
    assert [x for x in found if not x.startswith("trainer/main.py")] == []


def test_what_ends_in_bare_words_is_found() -> None:
    source = (
        'sys.exit("no")\nraise SystemExit(f"no {x}")\nraise typer.BadParameter("no")\nsys.exit(2)'
    )
    assert list(bare_exits(ast.parse(source))) == [1, 2, 3]


def test_a_template_keeps_what_is_fixed() -> None:
    node = ast.parse('f"run {run_id!r}: " + "gone" + why').body[0].value  # type: ignore[attr-defined]
    assert template(node) == "run {run_id}: gone{why}"


def test_a_function_that_only_shapes_an_error_gives_way_to_its_callers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rules.py").write_text(
        "def _wrong(field, value, message, hint):\n"
        '    return Problem(path=f"a.{field}", value=value, message=message, hint=hint)\n'
        "def rule(x):\n"
        '    yield _wrong("b", x, f"is {x}", "")\n'
    )
    monkeypatch.setattr(catalogue, "ROOT", tmp_path)
    (found,) = catalogue._calls(".", {"Problem"}, catalogue._spec)
    assert (found.what, found.hint, found.line) == ("a.b: is {x}", "", 4)


def test_each_side_of_a_choice_is_an_error_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "handler.py").write_text(
        "def end(step, said):\n"
        '    hint = f"wait, {said}" if step else "ask"\n'
        '    return Failure(cause=redact("gone: " + ("once" if step else "twice")), hint=hint)\n'
        "def none():\n"
        '    return Failure(cause="", rule="none")\n'
    )
    monkeypatch.setattr(catalogue, "ROOT", tmp_path)
    found = catalogue._calls(".", {"Failure"}, catalogue._run)
    assert [(x.what, x.hint) for x in found] == [
        (": gone: once", "wait, {said}"),
        (": gone: twice", "ask"),
    ]


def test_a_name_that_is_given_two_values_stays_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "check.py").write_text(
        "def check(n):\n"
        '    what, state = "disk", "ok"\n'
        "    if n:\n"
        '        state = "fail"\n'
        '    yield Finding(what, state, f"{n} GB", "make room")\n'
        '    yield Finding(what, "ok", "is there")\n'
    )
    monkeypatch.setattr(catalogue, "ROOT", tmp_path)
    (found,) = catalogue._calls(".", {"Finding"}, catalogue._doctor)
    assert (found.what, found.hint) == ("disk: {n} GB", "make room")
