"""Which pages hold commands, where each is run, and why some are not."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]

RUN = {"docs/quick-start.md", "docs/trainer.md"}
"""Their console blocks are run, in order, in one shell, in a clone: test_run_pages.py. All other
commands are run page by page, on the emulator that the quick start has started: test_live.py."""

BY_CI = r"make (demo|test|faults|install)|\.ci/run"
"""What .ci/run runs, or is: held against that file."""

NOT_RUN = {
    r"make (chaos|load)\b.*": "hours; the suites' own tests run short ones",
    r"make check": "parts of check-all and of test, which CI runs",
    r"docker build .*": "needs a Docker daemon and two registries; hadolint reads the file",
    r"git pull": "there is nowhere to pull from",
}
"""Regular expression over one command → the reason. One that matches nothing fails the test."""


def pages() -> list[Path]:
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("*/README.md"))]
    docs = [p for p in sorted((ROOT / "docs").rglob("*.md")) if "reference" not in p.parts]
    return [page for page in found + docs if not page.parent.name.startswith((".", "node_modules"))]


def reason(line: str) -> str | None:
    if re.fullmatch(BY_CI, line):
        return "a step of CI"
    return next((why for known, why in NOT_RUN.items() if re.fullmatch(known, line)), None)
