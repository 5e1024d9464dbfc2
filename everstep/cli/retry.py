"""``everstep retry``: a run that gave up, or was stopped, goes on under its own id."""

from typing import Annotated

import typer
from botocore.exceptions import ClientError

from everstep.cli import executions
from everstep.cli.cloud import Cloud, error_code
from everstep.cli.errors import fail
from everstep.cli.executions import Execution
from everstep.cli.options import Env, Json, RunId, checked, cloud_of
from everstep.cli.output import say
from everstep.cli.run import Wait, tell
from everstep.cli.spec_of import Changes, changed, spec_of
from everstep.contracts.records import Run, RunStatus

GONE = Execution("", "GONE", why_not="its history is gone: Step Functions keeps it for ninety days")


def retry(
    run_id: RunId,
    changes: Changes = None,
    anew: Annotated[
        bool, typer.Option("--new", help="A new execution even where a redrive would do.")
    ] = False,
    wait: Wait = False,
    env: Env = None,
    as_json: Json = False,
) -> None:
    """Go on with a run that gave up or was stopped, from its last committed checkpoint. A redrive;
    with a changed spec or state machine, or after 14 days, a new execution of the same run."""
    cloud = cloud_of(env)
    run = cloud.run(checked(run_id))
    found = executions.describe(cloud, run.execution_arn) or GONE
    refuse(run, found)
    why = _why_anew(cloud, found, changes or [], anew)
    if why is None:
        try:
            executions.redrive(cloud, found.arn)
        except ClientError as error:
            if error_code(error) != "ExecutionNotRedrivable":
                raise
            why = str(error)  # it became too old between the question and the order
        else:
            say(f"run {run.run_id} goes on in its execution (redriven): {found.arn}")
            tell(cloud, found.arn, wait, as_json)
            return
    if run.adopted is not None:
        fail(
            f"run {run.run_id!r} took over job {run.adopted.job}, and cannot be redriven: {why}",
            "start that job again with its tag: docs/adopt.md",
        )
    spec = changed(spec_of(run), changes or [])
    arn = executions.start_next(cloud, run.execution_arn, spec)
    if arn is None:
        fail(
            f"run {run.run_id!r} has no name left for another execution after {found.name!r}",
            f"everstep clone {run.run_id} NEW_ID, or everstep resume {run.run_id} --from STEP",
        )
    say(f"run {run.run_id} goes on in a new execution, as {why}: {arn}")
    tell(cloud, arn, wait, as_json)


def refuse(run: Run, found: Execution) -> None:
    """Ends with why, where there is nothing to go on with."""
    if found.running:
        state = "about to go on" if run.ended else run.status  # the row follows the execution
        fail(
            f"run {run.run_id!r} is {state}: nothing to retry",
            f"`everstep watch {run.run_id}` shows it; `everstep stop {run.run_id}` ends it first",
        )
    if run.status is RunStatus.DONE:
        fail(
            f"run {run.run_id!r} is done at step {run.final_step}: nothing to retry",
            f"everstep resume {run.run_id} --from STEP --set stop.steps=N trains it further",
        )


def _why_anew(cloud: Cloud, found: Execution, changes: list[str], anew: bool) -> str | None:
    """None where a redrive does."""
    if anew:
        return "asked for"
    if changes:
        return "its spec is changed"
    if not found.redrivable:
        return found.why_not or f"Step Functions does not redrive it ({found.status})"
    if executions.definition_changed(cloud, found.arn):
        return "the state machine has changed since: a redrive would follow the old one"
    return None
