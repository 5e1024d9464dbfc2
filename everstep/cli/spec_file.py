"""A run spec as a file."""

import json
import sys
from pathlib import Path
from typing import Any

from everstep.cli.errors import fail


def read_json(path: Path) -> Any:
    """``-`` is standard input. Ends with a hint where it cannot be read, or is no JSON."""
    name = "standard input" if str(path) == "-" else path
    try:
        raw = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        fail(
            f"cannot read {path}: {error.strerror}",
            "give the path of a RunSpec, e.g. examples/tiny.json",
        )
    try:
        # utf-8-sig: editors of Windows begin a file with a byte order mark
        return json.loads(raw.decode("utf-8-sig"), object_pairs_hook=_once)
    except UnicodeDecodeError as error:
        fail(f"{name} is not UTF-8 text: {error.reason}", "save it as UTF-8")
    except RecursionError:
        fail(f"{name} is nested too deeply for a run spec", "a run spec has sections of fields")
    except _TwiceError as error:
        fail(f"{name} has {error.args[0]!r} twice in one object", "leave one: JSON takes the last")
    except ValueError as error:  # JSONDecodeError, and an integer of thousands of digits
        fail(f"{name} is not JSON: {error}", "check it with `python -m json.tool`")


class _TwiceError(Exception):
    """A field of the same name, of which all but the last would be lost unseen."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _TwiceError(key)
        found[key] = value
    return found
