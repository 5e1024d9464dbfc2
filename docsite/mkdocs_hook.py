"""What mkdocs.yml cannot say: every page is in the navigation, decisions in order, and the
reference is written anew before each build, also those of ``make docs-serve``."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venv" / "bin" / "python"
"""mkdocs runs in an environment of its own, which has nothing of Everstep's."""


def on_pre_build(config: Any) -> None:
    """docs/reference, before mkdocs collects its files."""
    subprocess.run([PYTHON, "-m", "docsite"], cwd=ROOT, check=True)


def on_config(config: Any) -> Any:
    """Fills in ``Decisions`` with docs/adr; a page that is named nowhere is listed last of
    ``Reference``, so that a new one needs no second file to be found."""
    root = Path(config["docs_dir"])
    named = set(_named(config["nav"]))
    pages = sorted(str(page.relative_to(root)) for page in root.rglob("*.md"))
    for section in config["nav"]:
        if "Decisions" in section:
            section["Decisions"] = [page for page in pages if page.startswith("adr/")]
        if "Reference" in section:
            new = [page for page in pages if page not in named and not page.startswith("adr/")]
            section["Reference"] += new
    return config


def _named(entry: Any) -> Iterator[str]:
    """The pages of a navigation, however deep."""
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict):
        yield from _named(list(entry.values()))
    else:
        for inner in entry:
            yield from _named(inner)
