"""``python -m tests.docs.shoot REPORT.html PICTURE.png``: the docs' picture of a recorded run."""

import sys
import tempfile
from pathlib import Path

from tests.report import browser

SIZE = {"width": 1000, "height": 820, "scheme": "light", "full": False}


def shoot(page: Path, picture: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        look = {**SIZE, "file": str(page.resolve()), "screenshot": str(picture.resolve())}
        browser.look([look], Path(scratch))


if __name__ == "__main__":
    if why := browser.lacking():
        raise SystemExit(why)
    shoot(Path(sys.argv[1]), Path(sys.argv[2]))
