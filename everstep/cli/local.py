"""``everstep local``: AWS on this machine, and the demo on it. A test double, and says so."""

import fcntl
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import boto3
import typer

from everstep.cli.cloud import Cloud
from everstep.cli.deploy import (
    DATASET,
    ROOT,
    TEAM,
    child,
    deploy,
    finish,
    is_full,
    prepare_command,
    upload,
)
from everstep.cli.errors import DISK, NOT_ARRIVED, NOT_FOUND, fail
from everstep.cli.output import emit, out, say

app = typer.Typer(no_args_is_help=True, help="AWS on this machine: an emulator, not the cloud.")

STATE = ROOT / ".everstep" / "local"
MINUTE = 2.0
"""Seconds of a schedule's minute: the templates stay valid, the watchdog looks sooner."""
LONGEST_MINUTE = 3600.0

State = Annotated[Path, typer.Option(help="Folder that the emulator keeps its state in.")]
Json = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]


def emulator() -> Any:
    """The emulator's service module; its packages are not needed for anything else here."""
    try:
        from emulator import service
    except ImportError as error:
        fail(f"the emulator's packages are not installed: {error}", "make install")
    return service


@app.command()
def up(
    state: State = STATE,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 picks a free one.")] = 0,
    minute: Annotated[float, typer.Option(help="Seconds that a schedule's minute lasts.")] = MINUTE,
    empty: Annotated[bool, typer.Option("--empty", help="Deploy nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Start it, deploy the stacks, upload a corpus. Prints the environment for other AWS tools."""
    if not 0 < minute <= LONGEST_MINUTE:  # NaN too
        fail(f"--minute {minute} is no number of seconds", f"above 0, at most {LONGEST_MINUTE:.0f}")
    service = emulator()
    with alone(state):
        endpoint = _up(service, state, port, minute, empty)
    _print_environment(endpoint.environment, as_json)


@contextmanager
def alone(state: Path) -> Iterator[None]:
    """Of two at once on one folder, the second is told so: both would deploy."""
    state.mkdir(parents=True, exist_ok=True)
    with (state / "up.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fail(
                f"another `everstep local up` is at work on {state}",
                "wait for it: `everstep local status` says when it is up; or another --state",
            )
        yield


def _up(service: Any, state: Path, port: int, minute: float, empty: bool) -> Any:
    known = service.find(state)
    endpoint = begin(service, state, port=port, minute=minute)
    say(f"emulator at {endpoint.endpoint}, process {endpoint.pid}, state in {state}")
    try:
        if not empty:
            populate({**os.environ, **endpoint.environment}, endpoint.endpoint, state, say)
    except BaseException:  # an interrupt too: what this call started ends with it
        if known is None:
            service.stop(state)
        raise
    return endpoint


@app.command()
def down(state: State = STATE, as_json: Json = False) -> None:
    """End it and every process that it started."""
    stopped = emulator().stop(state)
    say("stopped" if stopped else f"none was running on {state}")
    if as_json:
        emit({"stopped": stopped})


@app.command()
def status(state: State = STATE, as_json: Json = False) -> None:
    """Whether it runs, and what it is doing. Exit code 3 where it does not."""
    found = emulator().status(state)
    if as_json:
        emit(found)
    else:
        for key, value in found.items():
            out.print(f"{key:<10} {value}", markup=False)
    raise typer.Exit(0 if found["running"] else NOT_FOUND)


@app.command()
def env(state: State = STATE, as_json: Json = False) -> None:
    """Print what `eval "$(everstep local env)"` needs."""
    found = emulator().find(state)
    if found is None:
        fail(f"no emulator runs on {state}", "everstep local up", NOT_FOUND)
    _print_environment(found.environment, as_json)


@app.command()
def demo(
    spec: Annotated[Path, typer.Option(help="The run to start.")] = ROOT / "examples" / "tiny.json",
    as_json: Json = False,
) -> None:
    """Deploy, start a run on two hosts, kill one, watch the run arrive."""
    from everstep.cli.demo import run_demo

    raise typer.Exit(run_demo(spec, as_json))


def begin(service: Any, state: Path, **options: Any) -> Any:
    """Start the emulator. What stands in its way is an answer, not a traceback."""
    try:
        return service.start(state, **options)
    except (RuntimeError, TimeoutError) as error:
        log = state / "serve.log"
        last = log.read_text(errors="replace").strip().splitlines()[-1:] if log.exists() else []
        what = " ".join([str(error), *last])
        hint = "is the port taken? --port 0 picks a free one"
        fail(what, DISK if is_full(what, state) else hint, NOT_ARRIVED)


def local_cloud(endpoint: str, environment: dict[str, str], env: str = "local") -> Cloud:
    session = boto3.Session(
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        region_name=environment["AWS_REGION"],
    )
    return Cloud(env, session, endpoint, read_timeout=60.0)  # a laptop that deploys is busy


def populate(
    environ: dict[str, str], endpoint: str, work: Path, tell: Any, env: str = "local"
) -> Cloud:
    """The stacks and a corpus: the corpus is prepared while CloudFormation works."""
    folder, log = work / "dataset", work / "prepare.log"
    with child(prepare_command(folder), environ, log) as preparing:
        deploy(environ, work, tell, env)
        finish(preparing, "preparing the corpus", log)
    cloud = local_cloud(endpoint, environ, env)
    size = upload(cloud, folder)
    tell(
        f"corpus: {size / 1e6:.1f} MB of tokens from Python's standard library at {TEAM}/{DATASET}"
    )
    return cloud


def _print_environment(environment: dict[str, str], as_json: bool) -> None:
    if as_json:
        emit(environment)
        return
    for key, value in environment.items():
        print(f"export {key}={shlex.quote(value)}")
