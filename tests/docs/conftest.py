"""A clone for pages that are run: what git would carry, and the installed environment."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import ROOT


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The working tree without anything that git ignores: a page must need nothing else."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    folder = tmp_path / "everstep"
    for name in filter(None, listed.stdout.split("\0")):
        source = ROOT / name
        # a link is the developer's own environment; a deleted file is still listed
        if source.is_file() and not source.is_symlink():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / name)
    for name in (".venv", "node_modules"):
        (folder / name).symlink_to((ROOT / name).resolve())
    return folder


@pytest.fixture
def newcomer(clone: Path) -> dict[str, str]:
    """The environment of a shell that knows nothing of Everstep but the clone."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "EVERSTEP_"))}
    return {**kept, "PYTHONPATH": str(clone), "OMP_NUM_THREADS": "1"}
