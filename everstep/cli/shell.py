"""``everstep shell``: a look inside a running host, through Session Manager."""

import json
import os
import shlex
import shutil
import signal
import subprocess
from typing import Annotated, Any

import typer
from botocore.exceptions import ClientError

from everstep.cli.cloud import Cloud, error_code
from everstep.cli.errors import NOT_FOUND, fail
from everstep.cli.options import Env, Json, RunId, checked, cloud_of
from everstep.cli.output import emit
from everstep.contracts.records import Launch
from everstep.policy.remote_debug import Obstacle, obstacles, target_of

PLUGIN = "session-manager-plugin"
"""AWS's own; it speaks the session's protocol on this terminal."""


def shell(
    run_id: RunId,
    host: Annotated[int, typer.Option(help="1 for algo-1, the host of rank 0.")] = 1,
    launch: Annotated[int | None, typer.Option(help="Launch number; the newest if absent.")] = None,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the AWS command instead of running it.")
    ] = False,
    env: Env = None,
    as_json: Json = False,
) -> None:
    """A shell in a training container. The run's spec asks for the way in: service.remote_debug."""
    cloud = cloud_of(env)
    run = cloud.run(checked(run_id))
    chosen = _launch(cloud, run.run_id, launch)
    job = _described(cloud, chosen)
    found = list(
        obstacles(run.spec, chosen, job["TrainingJobStatus"], job["SecondaryStatus"], host)
    )
    if not (only_print or as_json) and shutil.which(PLUGIN) is None:
        found.append(
            Obstacle(
                f"{PLUGIN} is not installed on this machine",
                "see docs/capacity.md#a-look-inside-a-host; or --print, to run it elsewhere",
            )
        )
    if found:
        fail("; ".join(x.what for x in found), "; ".join(x.hint for x in found))
    target, region = target_of(chosen, host), cloud.client("sagemaker").meta.region_name
    if as_json:
        emit({"run_id": run.run_id, "launch": chosen.launch, "target": target, "region": region})
    elif only_print:
        words = ["aws", "ssm", "start-session", "--target", target, "--region", region]
        print(shlex.join(words))
    else:
        raise typer.Exit(_session(cloud, target, region))


def _launch(cloud: Cloud, run_id: str, number: int | None) -> Launch:
    known = {x.launch: x for x in cloud.launches(run_id)}
    if not known:
        fail(f"run {run_id!r} has no launch yet", "wait for LaunchAttempt", NOT_FOUND)
    if number is not None and number not in known:
        last = max(known)
        fail(f"run {run_id!r} has no launch {number}", f"{min(known)} to {last}", NOT_FOUND)
    return known[max(known) if number is None else number]


def _described(cloud: Cloud, launch: Launch) -> dict[str, Any]:
    try:
        name = launch.job_name
        return dict(cloud.client("sagemaker").describe_training_job(TrainingJobName=name))
    except ClientError as error:
        if error_code(error) != "ValidationException":
            raise
        fail(f"job {launch.job_name} is not made yet", "everstep status shows when", NOT_FOUND)


def _session(cloud: Cloud, target: str, region: str) -> int:
    """Opened here, so that a refusal is a sentence; then the plugin takes over the terminal."""
    ssm = cloud.client("ssm")
    try:
        answer = ssm.start_session(Target=target)
    except ClientError as error:
        what, hint = _refusal(error, target)
        fail(what, hint)
    opened = {key: answer[key] for key in ("SessionId", "TokenValue", "StreamUrl")}
    words = [PLUGIN, json.dumps(opened), region, "StartSession", os.environ.get("AWS_PROFILE", "")]
    words += [json.dumps({"Target": target}), ssm.meta.endpoint_url]
    # Ctrl-C is the program's in the container, not this one's.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return subprocess.call(words)
    except OSError:
        ssm.terminate_session(SessionId=opened["SessionId"])
        raise
    finally:
        signal.signal(signal.SIGINT, before)


def _refusal(error: ClientError, target: str) -> tuple[str, str]:
    code, said = error_code(error), error.response["Error"].get("Message", "")
    if code in ("AccessDeniedException", "AccessDenied"):
        return (
            f"you lack ssm:StartSession on {target}: {said}",
            "take the researcher's role with your own team as session tag; the environment's "
            "config has remote_debug = true at the team, and the run's id begins with it",
        )
    if code == "TargetNotConnected":
        return (
            f"no agent answers for {target}",
            "its log stream …/ssm says why: the job role lacks ssmmessages (deploy the config "
            "that turns remote_debug on), or the subnet has no way to Session Manager",
        )
    return f"{code}: {said}", "on the emulator there is no Session Manager: --print"
