"""The spec of a run that there is, changed field by field."""

import json
from typing import Annotated, Any

import typer

from everstep.cli.errors import SPEC_PAGE, fail
from everstep.contracts.check import check_spec
from everstep.contracts.problems import describe
from everstep.contracts.records import Run

Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Change the spec: train.lr=1e-4. Repeatable."),
]


def spec_of(run: Run) -> dict[str, Any]:
    """As a person would write it: without what is the default."""
    if run.adopted is not None:
        fail(
            f"run {run.run_id!r} has no spec of its own: it took over job {run.adopted.job}",
            "make the job again where it was made",
        )
    return run.spec.model_dump(mode="json", exclude_defaults=True)


def changed(spec: dict[str, Any], changes: list[str]) -> dict[str, Any]:
    """The spec with each ``path=value``, checked as a whole. Values are JSON where they are JSON,
    text otherwise; ``null`` takes a field away."""
    for change in changes:
        path, equals, text = change.partition("=")
        if not equals or not path:
            fail(f"--set {change!r} is no change", "write PATH=VALUE: train.lr=1e-4")
        _set(spec, path.split("."), _value(text), change)
    _, problems = check_spec(spec)
    if problems:
        fail(
            describe(problems, "changed spec"),
            "mend these and run the command again",
            see=SPEC_PAGE,
        )
    return spec


def _set(spec: dict[str, Any], path: list[str], value: Any, change: str) -> None:
    place: Any = spec
    for part in path[:-1]:
        if isinstance(place, list):
            place = place[_index(place, part, change)]
        else:
            place = place.setdefault(part, {})
        if not isinstance(place, dict | list):
            fail(f"--set {change!r}: {part!r} has a value of its own", "name a field of a section")
    if isinstance(place, list):
        place[_index(place, path[-1], change)] = value
    elif value is None:
        place.pop(path[-1], None)
    else:
        place[path[-1]] = value


def _index(place: list[Any], part: str, change: str) -> int:
    if not part.isdecimal() or int(part) >= len(place):
        fail(f"--set {change!r}: {part!r} is none of the list", f"0 to {len(place) - 1}")
    return int(part)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
