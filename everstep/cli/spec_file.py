"""A run spec as a file."""

import json
import sys
from pathlib import Path
from typing import Any

from everstep.cli.errors import fail


def read_json(path: Path) -> Any:
    """``-`` is standard input. Ends with a hint where it cannot be read."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text()
    except OSError as error:
        fail(
            f"cannot read {path}: {error.strerror}",
            "give the path of a RunSpec, e.g. examples/tiny.json",
        )
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        fail(f"{path} is not JSON: {error}", "check it with `python -m json.tool`")
