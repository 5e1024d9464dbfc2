"""A run spec as a file."""

import json
import sys
from pathlib import Path
from typing import Any

from everstep.cli.errors import fail


def read_json(path: Path) -> Any:
    """``-`` is standard input. Ends with a hint where it cannot be read, or is no JSON."""
    try:
        raw = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        fail(
            f"cannot read {path}: {error.strerror}",
            "give the path of a RunSpec, e.g. examples/tiny.json",
        )
    try:
        return json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        fail(f"{path} is not UTF-8 text: {error.reason}", "save it as UTF-8, without a BOM")
    except RecursionError:
        fail(f"{path} is nested too deeply for a run spec", "a run spec has sections of fields")
    except ValueError as error:  # JSONDecodeError, and an integer of thousands of digits
        fail(f"{path} is not JSON: {error}", "check it with `python -m json.tool`")
