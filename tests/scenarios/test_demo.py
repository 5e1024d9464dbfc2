"""``make demo``: interrupted anywhere it leaves no process and no port; two at once do not meet."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from tests.scenarios.lab import ROOT

pytestmark = pytest.mark.scenario
MARK = "EVERSTEP_TEST_DEMO"


def demo(mark: str, log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            [str(Path(sys.executable).parent / "everstep"), "local", "demo"],
            cwd=ROOT,
            env={**os.environ, MARK: mark},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # a shell's background job ignores SIGINT, and so would its children
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )


def environments() -> list[bytes]:
    """The first environment of every live process."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found.append((entry / "environ").read_bytes())
            except OSError:
                continue  # ended meanwhile, or another user's
    return found


def left(text: str) -> list[bytes]:
    """Processes whose environment names ``text``, once those that were killed had time to go."""
    deadline = time.monotonic() + 60
    while (found := [e for e in environments() if text.encode() in e]) and (
        time.monotonic() < deadline
    ):
        time.sleep(0.05)
    return found


def wait_for(text: str, log: Path, process: subprocess.Popen[bytes], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while text not in log.read_text(errors="replace"):
        assert process.poll() is None, log.read_text(errors="replace")
        assert time.monotonic() < deadline, log.read_text(errors="replace")
        time.sleep(0.05)


def port_of(log: Path) -> int | None:
    _, found, rest = log.read_text(errors="replace").partition("http://localhost:")
    return int(rest.split()[0]) if found else None


@pytest.mark.parametrize(
    "stage", ["starting the emulator", "cdk bootstrap", "cdk deploy", "started:", "step 10"]
)
def test_ctrl_c_leaves_no_process_and_no_port(stage: str, tmp_path: Path) -> None:
    log, mark = tmp_path / "demo.log", uuid.uuid4().hex
    process = demo(mark, log)
    wait_for(stage, log, process)
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130, log.read_text(errors="replace")
    assert "Traceback" not in log.read_text(errors="replace")
    assert not left(f"{MARK}={mark}")
    port = port_of(log)
    if port is not None:
        # Whatever the emulator starts is told where it is.
        assert not left(f"http://localhost:{port}")
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0


def told(text: str) -> list[str]:
    """From the timeline to the loss."""
    found = re.search(r"^timeline\n.*?^final loss .*?$", text, re.MULTILINE | re.DOTALL)
    assert found, text
    return found[0].splitlines()


def shape(line: str) -> str:
    """Figures are the machine's; words, places and decimals are the program's."""
    return re.sub(r"\d+", "9", " ".join(line.split()))


def loss(lines: list[str]) -> float:
    return float(lines[-1].split()[2])


def test_two_at_once_both_arrive(tmp_path: Path) -> None:
    logs = [tmp_path / "one.log", tmp_path / "two.log"]
    both = [demo(uuid.uuid4().hex, log) for log in logs]
    for process, log in zip(both, logs, strict=True):
        assert process.wait(420) == 0, log.read_text(errors="replace")
        assert "the run survived a dead host" in log.read_text()
        assert "final loss" in log.read_text()
    # The same run: the same corpus, the same seed, whatever was killed.
    losses = {line for log in logs for line in log.read_text().splitlines() if "final loss" in line}
    assert len(losses) == 1
    # README shows one like it. Its corpus is the source of another Python: near, not the same.
    ours, shown = told(logs[0].read_text()), told((ROOT / "README.md").read_text("utf-8"))
    assert [*map(shape, ours)] == [*map(shape, shown)]
    assert loss(ours) == pytest.approx(loss(shown), rel=0.05)
