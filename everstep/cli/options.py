"""What several commands are asked in the same words."""

from math import isfinite
from typing import Annotated

import typer

from everstep.cli.cloud import Cloud, default_env
from everstep.cli.errors import fail
from everstep.contracts.run_id import problem_of_run_id, run_id_of

Json = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]
Env = Annotated[str | None, typer.Option(help="Environment of config/ (EVERSTEP_ENV).")]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id: its execution's name.")]


def cloud_of(env: str | None) -> Cloud:
    return Cloud(env or default_env())


def checked(name: str) -> str:
    """The run's id of an execution's name. Ends with a hint where it can be none."""
    if problems := problem_of_run_id(name):
        fail(f"{name!r} {problems[0].message}", problems[0].hint)
    return run_id_of(name)


def finite(value: float | None) -> float | None:
    """An option's callback: a range without an end lets infinity through."""
    if value is not None and not isfinite(value):
        fail(f"{value} is no number to calculate with", "give a finite one")
    return value
