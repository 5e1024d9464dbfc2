"""A clone for pages that are run: what git would carry, and the installed environment."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from docsite.blocks import Command, commands
from docsite.session import Result, run_page
from tests.docs import stand_in
from tests.docs.pages import ROOT

QUICK_START = Path("docs/quick-start.md")


@pytest.fixture(scope="session")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working tree without anything that git ignores: a page must need nothing else."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    folder = tmp_path_factory.mktemp("docs") / "everstep"
    for name in filter(None, listed.stdout.split("\0")):
        source = ROOT / name
        # a link is the developer's own environment; a deleted file is still listed
        if source.is_file() and not source.is_symlink():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / name)
    for name in (".venv", "node_modules"):
        (folder / name).symlink_to((ROOT / name).resolve())
    return folder


@pytest.fixture(scope="session")
def newcomer(clone: Path) -> dict[str, str]:
    """The environment of a shell that knows nothing of Everstep but the clone."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "EVERSTEP_"))}
    return {**kept, "PYTHONPATH": str(clone), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="session")
def quick_start(clone: Path, newcomer: dict[str, str]) -> Iterator[list[Result]]:
    """Its console blocks, run; the emulator goes on until every test of the docs is done."""
    text = (clone / QUICK_START).read_text(encoding="utf-8")
    *wanted, down = [c for c in commands(QUICK_START, text) if c.language == "console"]
    assert down.text == "everstep local down"
    try:
        yield run_page(wanted, clone, newcomer, 550)
    finally:
        path = f"{clone}/.venv/bin:{newcomer['PATH']}"
        (ended,) = run_page([down], clone, {**newcomer, "PATH": path}, 60)
    assert ended.code == 0, ended.stderr


@pytest.fixture(scope="session")
def live(quick_start: list[Result], clone: Path, newcomer: dict[str, str]) -> dict[str, str]:
    """The environment of a shell at the end of the quick start, and what stands in for AWS."""
    said = f"{clone}/.venv/bin/everstep local env --json"
    (answer,) = run_page([Command(QUICK_START, 0, said, "bash")], clone, newcomer, 60)
    assert answer.code == 0, answer.stderr
    stand_in.furnish(clone)
    path = f"{clone}/.venv/bin:{clone}/node_modules/.bin:{clone}/bin:{newcomer['PATH']}"
    environ = {**newcomer, **json.loads(answer.stdout), "PATH": path}
    return {**environ, **stand_in.setting(environ)}
