"""Start, stop and look at an emulator that runs in the background."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from emulator.processes import alive

ROOT = Path(__file__).resolve().parents[1]
START_SECONDS = 90.0
STOP_SECONDS = 30.0
OWN_HOSTS = ("localhost", "127.0.0.1")


class Endpoint(NamedTuple):
    """A running emulator."""

    endpoint: str
    port: int
    pid: int

    @property
    def environment(self) -> dict[str, str]:
        """What any AWS tool needs to talk to it instead of AWS."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            **around_proxy(os.environ),
        }


def around_proxy(environ: Mapping[str, str]) -> dict[str, str]:
    """This machine's own addresses beside those that already go around the user's proxy.

    In both spellings: the lower-case one wins where a program reads both.
    """
    known = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    hosts = [host.strip() for host in known.split(",") if host.strip()]
    value = ",".join([*hosts, *(host for host in OWN_HOSTS if host not in hosts)])
    return {"NO_PROXY": value, "no_proxy": value}


def start(
    state_dir: Path, port: int = 0, minute: float = 60.0, with_parent: bool = False
) -> Endpoint:
    """Start an emulator, or return the one that already runs on this folder.

    ``with_parent``: it ends when the calling process does, however that ends.
    """
    if running := find(state_dir):
        return running
    state_dir.mkdir(parents=True, exist_ok=True)
    with (state_dir / "start.lock").open("w") as lock:
        # Of two callers at once the second finds the first one's: else one runs on, unknown.
        fcntl.flock(lock, fcntl.LOCK_EX)
        return find(state_dir) or _started(state_dir, port, minute, with_parent)


def _started(state_dir: Path, port: int, minute: float, with_parent: bool) -> Endpoint:
    log = (state_dir / "serve.log").open("ab")
    with log:
        process = subprocess.Popen(
            [sys.executable, "-m", "emulator", "serve", "--port", str(port)]
            + ["--state", str(state_dir.resolve()), "--minute", str(minute)]
            + (["--parent", str(os.getpid())] if with_parent else []),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        return _ready(process, state_dir)
    except BaseException:  # an interrupt too: no one would know of it, so it must not stay
        process.kill()
        process.wait()
        raise


def _ready(process: subprocess.Popen[bytes], state_dir: Path) -> Endpoint:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the emulator ended at once: see {state_dir / 'serve.log'}")
        found = find(state_dir)
        if found and found.pid == process.pid:
            return found
        time.sleep(0.1)
    raise TimeoutError(f"no emulator after {START_SECONDS:.0f} s: see {state_dir / 'serve.log'}")


def stop(state_dir: Path) -> bool:
    """End the emulator of a folder and all its processes. False where none ran."""
    record = _read(state_dir)
    if not record or not alive(record["pid"]):
        return False
    os.kill(record["pid"], signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while alive(record["pid"]):
        if time.monotonic() > deadline:
            os.kill(record["pid"], signal.SIGKILL)
        time.sleep(0.05)
    (state_dir / "emulator.json").unlink(missing_ok=True)
    return True


def status(state_dir: Path) -> dict[str, Any]:
    """Whether it runs, where, and what its own ``/_everstep/status`` says."""
    running = find(state_dir)
    if not running:
        return {"running": False}
    return {
        "running": True,
        "endpoint": running.endpoint,
        "pid": running.pid,
        **_get(f"{running.endpoint}/_everstep/status"),
    }


def _read(state_dir: Path) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads((state_dir / "emulator.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None  # not started, or being written
    return record


def find(state_dir: Path) -> Endpoint | None:
    """The emulator that runs on a folder, if one does."""
    record = _read(state_dir)
    if not record or not alive(record["pid"]):
        return None
    try:
        _get(f"{record['endpoint']}/_everstep/status")
    except (urllib.error.URLError, OSError):
        return None  # not serving yet, or no longer
    return Endpoint(record["endpoint"], record["port"], record["pid"])


def _get(url: str) -> dict[str, Any]:
    # No proxy: the address is our own.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=5) as response:
        result: dict[str, Any] = json.load(response)
    return result
