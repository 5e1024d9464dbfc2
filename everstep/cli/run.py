"""``everstep run``: start a run, and stay with it where that is asked for."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError

from everstep.cli import executions
from everstep.cli.cloud import Cloud, passes
from everstep.cli.errors import NOT_ARRIVED, OK, SPEC_PAGE, fail
from everstep.cli.options import Env, Json, cloud_of
from everstep.cli.output import emit, say, show_end
from everstep.cli.spec_file import read_json
from everstep.cli.view import RunView
from everstep.contracts.check import check_spec
from everstep.contracts.problems import describe
from everstep.contracts.run_id import problem_of_run_id, run_id_of

POLL_SECONDS = 2.0
AWAY_SECONDS = 10.0

Wait = Annotated[bool, typer.Option("--wait", help="Stay until it ends; exit 1 if it gave up.")]


def run(
    spec: Annotated[Path, typer.Argument(help="RunSpec as JSON; '-' for standard input.")],
    name: Annotated[
        str | None, typer.Option(help="Run id; made from the file's name if absent.")
    ] = None,
    team: Annotated[str | None, typer.Option(help="Whose state machine.")] = None,
    wait: Wait = False,
    env: Env = None,
    as_json: Json = False,
) -> None:
    """Start a run. The same name again is the same run."""
    raw = read_json(spec)
    run_id = (
        name
        if name is not None
        else f"{spec.stem if str(spec) != '-' else 'run'}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    )
    _, problems = check_spec(raw)
    problems += problem_of_run_id(run_id)
    if problems:
        fail(
            describe(problems, f"run spec {spec}"),
            "mend these and run the command again",
            see=SPEC_PAGE,
        )
    cloud = cloud_of(env)
    arn = executions.start(cloud, cloud.machine_arn(team), run_id, raw)
    if arn is None:
        fail(
            f"run id {run_id!r} was used before, for another spec or a run that has ended",
            "choose another --name; or `everstep retry` goes on with that run",
        )
    say(f"run {run_id} started: {arn}")
    tell(cloud, arn, wait, as_json)


def tell(cloud: Cloud, arn: str, wait: bool, as_json: bool) -> None:
    """How the command ends that has started an execution: at once, or with the run."""
    run_id = run_id_of(arn.rpartition(":")[2])
    if not wait:
        if as_json:
            emit({"run_id": run_id, "execution_arn": arn})
        return
    ok = follow(cloud, arn)
    view = RunView.load(cloud, run_id) if cloud.find_run(run_id) else None
    if as_json:
        emit(view.summary() if view else {"run_id": run_id, "status": "refused"})
    elif view:
        show_end(view)
    raise typer.Exit(OK if ok else NOT_ARRIVED)


def follow(cloud: Cloud, arn: str) -> bool:
    """Wait for the execution's end, saying what is new. True when it succeeded."""
    said, run_id = "", run_id_of(arn.rpartition(":")[2])
    while True:
        try:
            found, line = executions.describe(cloud, arn), _now(cloud, run_id)
        except (ClientError, BotoCoreError) as error:
            if not passes(error):
                raise
            say(f"no answer, tried again: {error}")  # the run goes on: so does the waiting
            time.sleep(AWAY_SECONDS)
            continue
        if found is not None and not found.running:
            successor = _successor(cloud, run_id, arn)
            if found.status == "SUCCEEDED" and successor:
                say(f"goes on as {successor}")
                return follow(cloud, successor)
            if found.status != "SUCCEEDED":
                say(f"{found.status}: {found.error}\n{found.cause}")
            return found.status == "SUCCEEDED"
        if line != said:
            say(line)
            said = line
        time.sleep(POLL_SECONDS)


def _successor(cloud: Cloud, run_id: str, arn: str) -> str | None:
    """The execution that a run moved to when the history of this one was full."""
    known = cloud.find_run(run_id)
    return known.execution_arn if known and known.execution_arn != arn else None


def _now(cloud: Cloud, run_id: str) -> str:
    launches = cloud.launches(run_id)
    if not launches:
        return "starting"
    x = launches[-1]
    step = "" if x.last_step is None else f", step {x.last_step}"
    return f"launch {x.launch}: {x.outcome.status if x.outcome else x.phase or 'planned'}{step}"
