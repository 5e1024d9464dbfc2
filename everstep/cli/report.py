"""``everstep report``: one HTML file that tells a run, as the control plane writes at its end."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from botocore.exceptions import ClientError

from everstep.cli.cloud import Cloud, error_code
from everstep.cli.errors import NOT_ARRIVED, fail
from everstep.cli.options import Env, RunId, checked, cloud_of
from everstep.cli.output import say
from everstep.cli.prices import prices
from everstep.report.build import report as figures_of
from everstep.report.figures import Report
from everstep.report.page import page
from everstep.report.steps import step_lines

PROGRESS = '"everstep"'
"""Filter pattern of the lines that say how training goes."""


def report(
    run_id: RunId,
    out: Annotated[
        Path | None,
        typer.Option(help="File to write, '-' for standard output; RUN.html if absent."),
    ] = None,
    env: Env = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="The figures alone, as JSON on standard output.")
    ] = False,
) -> None:
    """Write a run's report: one HTML file that needs no network. Also of a run that goes on."""
    run_id = checked(run_id)
    if as_json and out is not None:
        fail("both --json and --out were given", "leave --out: JSON goes to standard output")
    file = out or Path(f"{run_id}.html")
    if file.is_dir() or not file.parent.is_dir():  # before minutes of reading logs
        fail(f"{file} is no file, or its folder is not there", "name another file with --out")
    found = gathered(cloud_of(env), run_id)
    if as_json:
        print(json.dumps(found.model_dump(mode="json"), indent=2))
        return
    text = page(found).encode()  # the page names its encoding: not the terminal's
    if str(file) == "-":
        sys.stdout.buffer.write(text)
        return
    try:
        _write(file, text)
    except OSError as error:
        what = f"{file} cannot be written: {error.strerror}"
        fail(what, "name another file with --out", NOT_ARRIVED)
    say(found.headline)
    print(file)


def _write(file: Path, text: bytes) -> None:
    """Whole or not at all: a full disk leaves the report of before."""
    if file.exists() and not file.is_file():  # /dev/stdout, a named pipe
        file.write_bytes(text)
        return
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        part.write_bytes(text)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def gathered(cloud: Cloud, run_id: str) -> Report:
    """From the table and the logs, as the handler ``write_report`` does."""
    run, launches = cloud.run(run_id), cloud.launches(run_id)
    lines = {}
    for x in launches:
        say(f"reading the log of launch {x.launch} of {len(launches)}")
        told = cloud.log_events(x.job_name, x.planned_epoch, PROGRESS)
        lines[x.launch] = step_lines((event.time, event.text) for event in told)
    return figures_of(
        run,
        launches,
        cloud.exports(run_id),
        lines,
        now=cloud.clock(),
        ended=_ended(cloud, run.execution_arn) if run.ended else None,
        prices_usd=prices(cloud.env),
    )


def _ended(cloud: Cloud, execution_arn: str) -> float | None:
    """To the millisecond, as the event has it. Step Functions forgets an execution after 90 days;
    its jobs' rows say nearly the same."""
    try:
        answer: dict[str, Any] = cloud.client("stepfunctions").describe_execution(
            executionArn=execution_arn
        )
    except ClientError as error:
        if error_code(error) != "ExecutionDoesNotExist":
            raise
        return None
    stopped = answer.get("stopDate")
    return int(1000 * stopped.timestamp()) / 1000 if stopped is not None else None
