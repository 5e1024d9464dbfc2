"""The generated pages say what the code says; the site would ask the network for nothing."""

import os
import re
from pathlib import Path

import pytest

from docsite import offline
from docsite.__main__ import PAGES, write
from docsite.cli_page import commands
from docsite.mkdocs_hook import on_config
from docsite.sites import sites
from docsite.tables import slug
from everstep.contracts.failures import FailureClass
from everstep.contracts.run_spec import RunSpec
from stacks.config import Config


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    write(folder)
    return folder


def test_every_page_is_written(reference: Path) -> None:
    assert {page.name for page in reference.iterdir()} == set(PAGES)


def test_every_field_has_a_row(reference: Path) -> None:
    for name, model in (("run-spec.md", RunSpec), ("config.md", Config)):
        text = (reference / name).read_text()
        for field in model.model_fields:
            assert f"| `{field}` |" in text
        for anchor in ("](#retry)", "](#watch)") if model is RunSpec else ("](#network)",):
            assert anchor in text


def test_what_a_field_says_is_its_docstring(reference: Path) -> None:
    text = (reference / "run-spec.md").read_text()
    assert "| `keep_last` |  | whole number ≥ 2 | `3` |" in text
    assert "Sequences an optimizer step, over all ranks and microbatches." in text
    assert "Which fields go together" in (reference / "config.md").read_text()


def test_every_command_has_a_heading_and_its_options(reference: Path) -> None:
    text = (reference / "cli.md").read_text()
    for name, command in commands():
        _, _, section = text.partition(f"\n## {name.removeprefix('everstep ')}\n")
        section = section.partition("\n## ")[0]
        assert f"`{name}" in section
        for parameter in command.params:
            for option in parameter.opts if parameter.param_type_name == "option" else []:
                assert option in section, (name, option)


def test_every_failure_class_links_to_its_runbook_section(reference: Path) -> None:
    text = (reference / "failures.md").read_text()
    for name in FailureClass:
        assert f"| [`{name}`](../runbook.md#{name}) | `{name.error_name}` |" in text


def test_every_error_has_an_address_of_its_own(reference: Path) -> None:
    text = (reference / "errors.md").read_text()
    ids = re.findall(r'<a id="([\w-]+)" href="#([\w-]+)">', text)
    assert len(ids) == len([site for site in sites() if not site.is_open])
    assert len({one for one, _ in ids}) == len(ids)
    assert all(one == other for one, other in ids)


def test_every_link_within_a_page_has_its_heading(reference: Path) -> None:
    for page in reference.iterdir():
        text = page.read_text()
        headings = re.findall(r"^#+ (.+)$|<a id=\"([\w-]+)\"", text, re.MULTILINE)
        there = {slug(title) if title else made for title, made in headings}
        assert not set(re.findall(r"\]\(#([\w-]+)\)", text)) - there, page.name


def test_a_page_that_says_the_same_is_not_written_again(reference: Path) -> None:
    """Or `mkdocs serve` would build for ever."""
    page = reference / "config.md"
    os.utime(page, (0, 0))
    write(reference)
    assert page.stat().st_mtime == 0


def test_every_page_is_in_the_navigation(tmp_path: Path) -> None:
    for name in ("index.md", "new.md", "adr/0002-b.md", "adr/0001-a.md", "guides/x.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("# x")
    nav = ["index.md", {"How": [{"X": "guides/x.md"}]}, {"Reference": []}, {"Decisions": []}]
    found = on_config({"docs_dir": str(tmp_path), "nav": nav})["nav"]
    assert found[2:] == [
        {"Reference": ["new.md"]},
        {"Decisions": ["adr/0001-a.md", "adr/0002-b.md"]},
    ]


PAGE = '<html><head>{}</head><body><a href="https://example.com">a link may leave</a></body></html>'


@pytest.mark.parametrize(
    "loads",
    [
        '<script src="https://unpkg.com/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.googleapis.com/css">',
        '<link rel="preconnect" href="https://fonts.gstatic.com">',
        '<img src="http://example.com/x.png">',
        '<pre class="mermaid">graph</pre>',
    ],
)
def test_what_would_ask_the_network_is_found(loads: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(PAGE.format(loads))
    assert offline.asked(tmp_path)


def test_a_page_that_asks_for_nothing_passes(tmp_path: Path) -> None:
    own = '<link rel="canonical" href="https://e.com/"><script src="assets/x.js"></script>'
    (tmp_path / "index.html").write_text(PAGE.format(own))
    assert offline.asked(tmp_path) == []
