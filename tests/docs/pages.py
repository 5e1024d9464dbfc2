"""Which pages hold commands, which are run from top to bottom, and why some are not."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]

RUN = {"docs/quick-start.md", "docs/trainer.md"}
"""Their console blocks are run, in order, in one shell: test_quick_start.py, test_trainer_page.py.
Everything in a ``bash`` block, and on other pages, is read: the program, its sub-command and each
of its options exist."""

NOT_RUN = {
    r"make (demo|test|faults)": "a step of .ci/run",
    r"make install|npm .*": "what CI does before any test",
    r"make (chaos|load)\b.*": "hours; the chaos suite's own tests run short ones",
    r"make (docs|check|lock|security)": "installs or writes: CI's own steps, or for developers",
    r"\.ci/run": "runs this test",
    r"cdk (bootstrap|deploy|diff)\b.*": "needs an AWS account; every scenario runs bootstrap and "
    "deploy with the real CDK on the emulator",
    r"npx cdk (bootstrap|deploy)\b.*": "the same; the scenarios call the CDK without npx",
    r"docker build .*": "needs a Docker daemon and two registries; hadolint reads the file",
    r"efa-check\b.*": "a program of the image; tests/containers runs it",
    r"git pull": "there is nowhere to pull from in a test",
    r"\$EDITOR .*": "a person's",
    r"(export|PATH=|MANIFEST=).*": "sets a variable of the shell; the programs in it are read",
    r"eval SUBSTITUTED": "the program in it is read",
}
"""Regular expression over one command → the reason. One that matches nothing fails the test."""


def pages() -> list[Path]:
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("*/README.md"))]
    docs = [p for p in sorted((ROOT / "docs").rglob("*.md")) if "reference" not in p.parts]
    return [page for page in found + docs if not page.parent.name.startswith((".", "node_modules"))]


def reason(words: str) -> str | None:
    return next((why for known, why in NOT_RUN.items() if re.fullmatch(known, words)), None)
