"""``everstep``: start, watch and stop runs; an emulator of AWS on this machine."""

import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError

from everstep import __version__
from everstep.cli import dead_letters, local
from everstep.cli.classify import classify
from everstep.cli.cloud import Cloud, default_env
from everstep.cli.destroy import destroy
from everstep.cli.errors import NOT_FOUND, CliError, fail
from everstep.cli.output import emit, say, show_end, show_status
from everstep.cli.plan import plan
from everstep.cli.simulate import simulate
from everstep.cli.spec_file import read_json
from everstep.cli.view import RunView
from everstep.contracts.check import check_spec
from everstep.contracts.problems import describe
from everstep.contracts.run_id import problem_of_run_id, run_id_of

POLL_SECONDS = 2.0

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    help="LLM training on AWS that arrives.",
)
app.add_typer(local.app, name="local")
app.command()(classify)
app.command()(simulate)
app.command()(destroy)
app.command()(plan)

Json = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]
Env = Annotated[str | None, typer.Option(help="Environment of config/ (EVERSTEP_ENV).")]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id: its execution's name.")]


@app.command()
def run(
    spec: Annotated[Path, typer.Argument(help="RunSpec as JSON; '-' for standard input.")],
    name: Annotated[
        str | None, typer.Option(help="Run id; made from the file's name if absent.")
    ] = None,
    team: Annotated[str | None, typer.Option(help="Whose state machine.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Stay until it ends; exit 1 if it gave up.")
    ] = False,
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
        fail(describe(problems, f"run spec {spec}"), "mend these and run the command again")
    cloud = Cloud(env or default_env())
    try:
        started = cloud.client("stepfunctions").start_execution(
            stateMachineArn=cloud.machine_arn(team), name=run_id, input=json.dumps(raw)
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "ExecutionAlreadyExists":
            raise
        fail(
            f"run id {run_id!r} was used before, for another spec or a run that has ended",
            "choose another --name, or redrive the execution to go on with that run",
        )
    arn = started["executionArn"]
    say(f"run {run_id} started: {arn}")
    if not wait:
        if as_json:
            emit({"run_id": run_id, "execution_arn": arn})
        return
    ok = follow(cloud, arn)
    view = RunView.load(cloud, run_id) if _has_row(cloud, run_id) else None
    if as_json:
        emit(view.summary() if view else {"run_id": run_id, "status": "refused"})
    elif view:
        show_end(view)
    raise typer.Exit(0 if ok else 1)


@app.command()
def status(run_id: RunId, env: Env = None, as_json: Json = False) -> None:
    """Where a run is, and each of its launches."""
    view = RunView.load(Cloud(env or default_env()), _checked(run_id))
    emit(view.summary()) if as_json else show_status(view)


@app.command()
def logs(
    run_id: RunId,
    launch: Annotated[int | None, typer.Option(help="Launch number; the newest if absent.")] = None,
    host: Annotated[str | None, typer.Option(help="Only this host, e.g. algo-1.")] = None,
    env: Env = None,
    as_json: Json = False,
) -> None:
    """The log of one launch, all hosts in order of time."""
    run_id = _checked(run_id)
    cloud = Cloud(env or default_env())
    known = [x.launch for x in cloud.launches(run_id)]
    if not known:
        cloud.run(run_id)
        fail(f"run {run_id!r} has no launch yet", "wait for LaunchAttempt", NOT_FOUND)
    number = known[-1] if launch is None else launch
    if number not in known:
        fail(f"run {run_id!r} has no launch {number}", f"{known[0]} to {known[-1]}", NOT_FOUND)
    lines = cloud.log_lines(run_id, number)
    mine = [x for x in lines if not host or x[1].startswith(f"{host}-") or x[1] == host]
    if not mine:
        hosts = ", ".join(sorted({where.rsplit("-", 1)[0] for _, where, _ in lines}))
        fail(
            f"launch {number} of run {run_id!r} has no log"
            + (f" of host {host!r}" if host else ""),
            f"hosts with one: {hosts}" if hosts else "its job may not have started yet",
            NOT_FOUND,
        )
    for at, where, text in mine:
        if as_json:
            print(json.dumps({"time": at, "host": where, "text": text}))
        else:
            print(f"{datetime.fromtimestamp(at, UTC):%H:%M:%S} {where.rsplit('-', 1)[0]}  {text}")


@app.command()
def stop(run_id: RunId, env: Env = None, as_json: Json = False) -> None:
    """Stop a run and its job. Redrive the execution to go on later."""
    cloud = Cloud(env or default_env())
    known = cloud.run(_checked(run_id))
    cloud.client("stepfunctions").stop_execution(
        executionArn=known.execution_arn, error="UserStop", cause="everstep stop"
    )
    say(f"run {run_id} is being stopped; its job saves what it can and ends")
    if as_json:
        emit({"run_id": run_id, "execution_arn": known.execution_arn})


@app.command("redrive-dlq")
def redrive_dlq(env: Env = None, as_json: Json = False) -> None:
    """Give events that no handler could take to the handlers once more."""
    rows = dead_letters.redrive(Cloud(env or default_env()))
    if as_json:
        emit(rows)
        return
    for row in rows:
        state = "empty" if row["task"] is None else "on their way back"
        print(f"{row['queue']}\t{row['messages']} messages\t{state}")


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)


def _checked(name: str) -> str:
    """The run's id of an execution's name. Ends with a hint where it can be none."""
    if problems := problem_of_run_id(name):
        fail(f"{name!r} {problems[0].message}", problems[0].hint)
    return run_id_of(name)


def follow(cloud: Cloud, execution_arn: str) -> bool:
    """Wait for the execution's end, saying what is new. True when it succeeded."""
    machine, said = cloud.client("stepfunctions"), ""
    run_id = run_id_of(execution_arn.rsplit(":", 1)[-1])
    while True:
        answer = machine.describe_execution(executionArn=execution_arn)
        if answer["status"] != "RUNNING":
            successor = _successor(cloud, run_id, execution_arn)
            if answer["status"] == "SUCCEEDED" and successor:
                say(f"goes on as {successor}")
                return follow(cloud, successor)
            if answer["status"] != "SUCCEEDED":
                say(f"{answer['status']}: {answer.get('error', '')}\n{answer.get('cause', '')}")
            return bool(answer["status"] == "SUCCEEDED")
        line = _now(cloud, run_id)
        if line != said:
            say(line)
            said = line
        time.sleep(POLL_SECONDS)


def _successor(cloud: Cloud, run_id: str, execution_arn: str) -> str | None:
    """The execution that a run moved to when the history of this one was full."""
    if not _has_row(cloud, run_id):
        return None
    now = cloud.run(run_id).execution_arn
    return now if now != execution_arn else None


def _now(cloud: Cloud, run_id: str) -> str:
    launches = cloud.launches(run_id) if _has_row(cloud, run_id) else []
    if not launches:
        return "starting"
    x = launches[-1]
    step = "" if x.last_step is None else f", step {x.last_step}"
    return f"launch {x.launch}: {x.outcome.status if x.outcome else x.phase or 'planned'}{step}"


def _has_row(cloud: Cloud, run_id: str) -> bool:
    try:
        cloud.run(run_id)
    except CliError:
        return False
    return True


def main() -> None:
    """Entry point: every expected failure is a sentence and a hint."""
    try:
        app()
    except CliError as error:
        say(f"error: {error.what}\nhint: {error.hint}")
        sys.exit(error.code)
    except (ClientError, BotoCoreError) as error:
        say(
            f"error: AWS said: {error}\nhint: credentials, region and AWS_ENDPOINT_URL are "
            "read as the AWS CLI reads them; `everstep local status` shows an emulator's"
        )
        sys.exit(NOT_FOUND)
    except OSError as error:
        say(f"error: this machine said: {error}\nhint: disk full, or a folder that is not yours?")
        sys.exit(1)
    except KeyboardInterrupt:
        say("interrupted; a run that was started goes on")
        sys.exit(130)


if __name__ == "__main__":
    main()
