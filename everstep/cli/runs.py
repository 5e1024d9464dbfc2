"""``everstep list``, ``status``, ``stop``: the runs there are, one of them, and its end."""

from itertools import islice
from typing import Annotated, Any

import typer

from everstep.cli import executions
from everstep.cli.cloud import Cloud
from everstep.cli.errors import fail
from everstep.cli.executions import Listed
from everstep.cli.options import Env, Json, RunId, checked, cloud_of
from everstep.cli.output import emit, say, show_runs, show_status
from everstep.cli.prices import prices
from everstep.cli.saved import committed_step
from everstep.cli.view import RunView
from everstep.contracts.records import RunStatus
from everstep.contracts.run_id import run_id_of
from everstep.policy.cost import hours
from everstep.policy.own_file_system import spend_of_run

REFUSED = "refused"
WITHOUT_ROW = {"RUNNING": RunStatus.RUNNING.value, "ABORTED": RunStatus.STOPPED.value}
"""By the execution's status; any other: ValidateSpec did not accept the spec."""
STATES = (*(status.value for status in RunStatus), REFUSED)


def status(run_id: RunId, env: Env = None, as_json: Json = False) -> None:
    """Where a run is, and each of its launches."""
    view = RunView.load(cloud_of(env), checked(run_id))
    emit(view.summary()) if as_json else show_status(view)


def list_runs(
    state: Annotated[
        list[str] | None, typer.Option(help=f"Only these: {', '.join(STATES)}.")
    ] = None,
    team: Annotated[str | None, typer.Option(help="Only this team's.")] = None,
    name: Annotated[str, typer.Option(help="Only run ids that hold this text.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The newest so many.")] = 20,
    env: Env = None,
    as_json: Json = False,
) -> None:
    """The newest runs: state, progress, team, cost so far."""
    wanted = state or []
    if unknown := sorted(set(wanted) - set(STATES)):
        fail(f"--state {unknown[0]!r} is none", f"one of {', '.join(STATES)}")
    cloud = cloud_of(env)
    newest: dict[str, Listed] = {}
    for one in executions.listed(cloud, team):
        run_id = run_id_of(one.name)
        if name in run_id and (run_id not in newest or one.started > newest[run_id].started):
            newest[run_id] = one
    ordered = sorted(newest.values(), key=lambda one: one.started, reverse=True)
    rows = (row for one in ordered if (row := _row(cloud, one))["state"] in (wanted or STATES))
    found = list(islice(rows, limit))
    emit(found) if as_json else show_runs(found)


def _row(cloud: Cloud, one: Listed) -> dict[str, Any]:
    run_id = run_id_of(one.name)
    run = cloud.find_run(run_id)
    row: dict[str, Any] = {
        "run_id": run_id,
        "state": WITHOUT_ROW.get(one.status, REFUSED),
        "step": None,
        "steps": None,
        "attempts": 0,
        "team": one.team,
        "gpu_hours": 0.0,
        "usd": None,
        "hours_of": "GPU hours",
        "started": one.started.isoformat(timespec="seconds"),
        "note": None,
    }
    if run is None:
        return row
    launches = cloud.launches(run_id)
    jobs = [*launches, *cloud.exports(run_id)]
    spend = spend_of_run(run, jobs, prices(cloud.env), cloud.clock())
    steps = [x.last_step if x.last_step is not None else x.resume_step for x in launches[-1:]]
    return row | {
        "state": run.status.value,
        "step": run.final_step or max(steps, default=0),
        "steps": None if run.adopted else run.spec.stop.steps,
        "attempts": sum(x.spent_attempt for x in launches),
        "team": run.team.name,
        "gpu_hours": round(spend.gpu_hours, 3),
        "usd": None if spend.usd is None else round(spend.usd, 2),
        "hours_of": hours(jobs),
        "note": run.note,
    }


def stop(run_id: RunId, env: Env = None, as_json: Json = False) -> None:
    """Stop a run and its job. `everstep retry` goes on later. Twice is once."""
    cloud = cloud_of(env)
    known = cloud.find_run(checked(run_id))
    if known is None:
        _stop_without_row(cloud, run_id, as_json)
        return
    found = executions.describe(cloud, known.execution_arn)
    running = found is not None and found.running
    if running:
        executions.stop(cloud, known.execution_arn)
        say(
            f"run {known.run_id} is being stopped: its job gets SIGTERM and two minutes to save; "
            "what it does not save in them is lost"
        )
    else:
        say(f"run {known.run_id} is not running: {known.status}")
    committed = committed_step(cloud, known, cloud.launches(known.run_id))
    if known.status is not RunStatus.DONE:
        kept = f"the checkpoint of step {committed} stays" if committed else "nothing is committed"
        say(f"{kept}; `everstep retry {known.run_id}` goes on")
    if as_json:
        emit(_stopped(known.run_id, known.execution_arn, running, known.status, committed))


def _stop_without_row(cloud: Cloud, run_id: str, as_json: bool) -> None:
    """A run that ValidateSpec has not accepted: not yet, and then it must not begin; or never."""
    found = executions.find(cloud, run_id)
    if found is None:
        cloud.run(run_id)  # says that there is none
        return  # a row since: the next call stops it
    if found.running:
        executions.stop(cloud, found.arn)
        say(f"run {run_id} is stopped before its spec was read; `everstep run` starts another")
    else:
        say(f"run {run_id} is not running: {WITHOUT_ROW.get(found.status, REFUSED)}")
    if as_json:
        state = WITHOUT_ROW.get(found.status, REFUSED)
        emit(_stopped(run_id, found.arn, found.running, state, 0))


def _stopped(
    run_id: str, execution_arn: str, stopping: bool, status: str, committed: int
) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "execution_arn": execution_arn,
        "stopping": stopping,
        "status": status,
        "committed_step": committed,
    }
