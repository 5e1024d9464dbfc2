"""``everstep resume --from`` and ``everstep clone``: new runs out of one that there is.

The old run is only read. Nothing of it is moved, overwritten or deleted: docs/adr/0028.
"""

from typing import Annotated, Any

import typer

from everstep.cli import executions
from everstep.cli.cloud import Cloud
from everstep.cli.errors import NOT_FOUND, fail
from everstep.cli.options import Env, Json, RunId, checked, cloud_of
from everstep.cli.output import say
from everstep.cli.run import Wait, tell
from everstep.cli.spec_of import Changes, changed, spec_of
from everstep.contracts.manifest import CheckpointName
from everstep.contracts.records import Run
from everstep.contracts.run_id import problem_of_run_id, run_id_of
from everstep.policy.job_request import checkpoint_uri
from lambdas.aws.checkpoints import Checkpoints

RUN_ID_LENGTH = 40


def resume(
    run_id: RunId,
    step: Annotated[
        int, typer.Option("--from", min=1, metavar="STEP", help="Step of a committed checkpoint.")
    ],
    name: Annotated[
        str | None, typer.Option(help="Id of the new run; RUN-from-STEP if absent.")
    ] = None,
    changes: Changes = None,
    wait: Wait = False,
    env: Env = None,
    as_json: Json = False,
) -> None:
    """Train on from an earlier step of a run: a new run that begins at its committed checkpoint.
    The old run and all of its checkpoints stay as they are."""
    cloud = cloud_of(env)
    run = cloud.run(checked(run_id))
    spec = spec_of(run)
    chosen = _checkpoint(cloud, run, step)
    spec["start"] = {"checkpoint": f"{run.run_id}/{chosen}"}
    if not run.ended:
        say(
            f"run {run.run_id} goes on: should it remove that checkpoint (checkpoint.keep_last) "
            "before the new run has read it, the new run says so and ends"
        )
    suffix = f"-from-{step}"
    new = name or run.run_id[: RUN_ID_LENGTH - len(suffix)].rstrip("-") + suffix
    _start(cloud, run, new, changed(spec, changes or []), wait, as_json)


def clone(
    run_id: RunId,
    new_id: Annotated[str, typer.Argument(metavar="NEW_ID", help="Id of the new run.")],
    changes: Changes = None,
    weights: Annotated[
        bool, typer.Option("--weights", help="Start from its newest weights, at step 0.")
    ] = False,
    wait: Wait = False,
    env: Env = None,
    as_json: Json = False,
) -> None:
    """The spec of a run as a new run, from the start; with --weights from its trained weights."""
    cloud = cloud_of(env)
    run = cloud.run(checked(run_id))
    spec = spec_of(run)
    if weights:
        newest = _checkpoint(cloud, run, None)
        spec["start"] = {"checkpoint": f"{run.run_id}/{newest}", "weights_only": True}
    _start(cloud, run, new_id, changed(spec, changes or []), wait, as_json)


def _checkpoint(cloud: Cloud, run: Run, step: int | None) -> CheckpointName:
    """The committed checkpoint of a step, the newest one of several; the newest of all for None."""
    if run.spec.checkpoint.storage != "s3":
        fail(
            f"the checkpoints of run {run.run_id!r} lie on the file system",
            "this version begins a run from a checkpoint in S3 only; `everstep retry` goes on",
        )
    found = Checkpoints(cloud.client("s3"))
    known = found.steps(checkpoint_uri(run))
    of_step = [x for x in known if step is None or x.step == step]
    there = ", ".join(str(x) for x in sorted({x.step for x in known})) or "none"
    if not of_step:
        fail(
            f"run {run.run_id!r} has no committed checkpoint"
            + ("" if step is None else f" of step {step}"),
            f"there are those of steps {there}; checkpoint.keep_every keeps more",
            NOT_FOUND,
        )
    if not found.committed(f"{checkpoint_uri(run)}/{of_step[-1]}"):
        fail(
            f"checkpoint {of_step[-1]} of run {run.run_id!r} is not whole: files are missing",
            f"there are those of steps {there}",
            NOT_FOUND,
        )
    return of_step[-1]


def _start(
    cloud: Cloud, run: Run, new: str, spec: dict[str, Any], wait: bool, as_json: bool
) -> None:
    if problems := problem_of_run_id(new):
        fail(f"{new!r} {problems[0].message}", problems[0].hint)
    if run_id_of(new) != new:
        fail(f"{new!r} is the name of a continuation", "no -cNN at the end: those are Everstep's")
    arn = executions.start(cloud, cloud.machine_arn(run.team.name), new, spec)
    if arn is None:
        fail(f"run id {new!r} was used before", "choose another one")
    say(f"run {new} started: {arn}; run {run.run_id} stays as it is")
    tell(cloud, arn, wait, as_json)
