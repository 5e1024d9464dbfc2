"""``everstep doctor``: what stands between this machine and a run, and what to do about it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError
from rich.text import Text

from everstep.cli.cloud import Cloud, default_env, error_code
from everstep.cli.doctor_checks import CHECKS, FIRST, SPEC_CHECKS, Finding, Look, config_of
from everstep.cli.errors import NOT_ARRIVED, SPEC_PAGE, CliError, fail
from everstep.cli.options import Env, Json
from everstep.cli.output import emit, out, say
from everstep.cli.refusal import DENIED, hint_of
from everstep.cli.spec_file import read_json
from everstep.contracts.check import check_spec
from everstep.contracts.problems import describe
from everstep.contracts.run_spec import RunSpec

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}
TRIES = 2


def doctor(
    spec: Annotated[
        Path | None, typer.Argument(help="RunSpec as JSON: its quotas, image and zones too.")
    ] = None,
    env: Env = None,
    as_json: Json = False,
) -> None:
    """Account, region, clock, stacks, functions, queues, endpoints; with a spec its quotas, image
    and instance types. Says what to fix; exit 1 if something must be."""
    checked = None if spec is None else _spec(spec)
    name = env or default_env()
    found = []
    for one in examine(Look(Cloud(name, tries=TRIES), config_of(name), checked)):
        found.append(one)
        if not as_json:
            _show(one)
    if as_json:
        emit([one._asdict() for one in found])
    worst = sum(one.state == "fail" for one in found)
    say(f"{len(found)} checks, {worst} failed" + ("" if spec else "; with a SPEC more are done"))
    raise typer.Exit(NOT_ARRIVED if worst else 0)


def examine(look: Look) -> Iterator[Finding]:
    """Each check in turn; what AWS refuses to say is a finding too. Without a connection or
    credentials nothing but that can be known."""
    for name, check in (*CHECKS.items(), *(SPEC_CHECKS.items() if look.spec else ())):
        try:
            yield from check(look)
        except CliError as error:
            yield Finding(name, "fail", error.what, error.hint)
        except ClientError as error:
            yield _refused(name, error)
            if name == FIRST:
                return
        except BotoCoreError as error:
            yield Finding(name, "fail", " ".join(str(error).split()), hint_of(error))
            said = "not looked at: AWS could not be asked"
            yield Finding("rest", "warn", said, "mend what is above, then run doctor again")
            return


def _refused(name: str, error: ClientError) -> Finding:
    words = " ".join(str(error).split())
    if error_code(error) in DENIED:
        return Finding(name, "warn", f"not allowed to look: {words}", "ask as an administrator")
    if name == FIRST:
        return Finding(name, "fail", words, hint_of(error))
    return Finding(name, "fail", words, "what AWS says; try again later")


def _spec(path: Path) -> RunSpec:
    spec, problems = check_spec(read_json(path))
    if spec is None:
        fail(
            describe(problems, f"run spec {path}"),
            "mend these and run the command again",
            see=SPEC_PAGE,
        )
    return spec


def _show(one: Finding) -> None:
    text = Text(f"{one.state:<5}", style=COLOURS[one.state]).append(
        f"{one.check:<12} {one.said}", style="default"
    )
    out.print(text)
    if one.fix:
        out.print(f"     hint: {one.fix}", markup=False)
