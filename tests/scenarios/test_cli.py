"""The command line against the emulator, as a researcher uses it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.lab import ROOT, Lab

pytestmark = pytest.mark.scenario


def everstep(lab: Lab, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).parent / "everstep"), *arguments],
        cwd=ROOT,
        env=lab.environ,
        capture_output=True,
        text=True,
        check=False,
    )


def json_of(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def spec_file(folder: Path, spec: dict[str, Any]) -> str:
    file = folder / "spec.json"
    file.write_text(json.dumps(spec))
    return str(file)


def test_run_wait_tells_the_whole_story(lab: Lab, tmp_path: Path) -> None:
    file = spec_file(tmp_path, lab.foreign(steps=10))
    done = everstep(lab, "run", file, "--name", "waited", "--wait", "--json")
    summary = json_of(done)
    assert summary["status"] == "done"
    assert (summary["step"], summary["attempts"], summary["steps_lost"]) == (10, 1, 0)
    assert "run waited started" in done.stderr


def test_status_logs_and_stop_of_a_running_run(lab: Lab, tmp_path: Path) -> None:
    file = spec_file(tmp_path, lab.foreign(steps=200, step_seconds=0.2))
    assert json_of(everstep(lab, "run", file, "--name", "watched", "--json"))["run_id"] == "watched"
    lab.at_step("watched", 1, 3)
    assert json_of(everstep(lab, "status", "watched", "--json"))["status"] == "running"
    plain = everstep(lab, "status", "watched")
    assert "status   running" in plain.stdout
    log = everstep(lab, "logs", "watched", "--host", "algo-1", "--json")
    lines = [json.loads(line) for line in log.stdout.splitlines()]
    assert any('"everstep":"step"' in line["text"] for line in lines)
    assert {line["host"].split("-")[1] for line in lines} == {"1"}
    assert everstep(lab, "stop", "watched").returncode == 0
    lab.until(lambda: lab.job("watched", 1)["TrainingJobStatus"] == "Stopped", "a stopped job")
    lab.until(lambda: lab.status_of("watched") == "stopped", "the row")


def test_a_run_that_gives_up_is_exit_code_1_with_the_cause(lab: Lab, tmp_path: Path) -> None:
    file = spec_file(tmp_path, lab.foreign(steps=10, FOREIGN_BUG_AT="3"))
    done = everstep(lab, "run", file, "--name", "gives-up", "--wait")
    assert done.returncode == 1
    assert "the same bug every time" in done.stderr
    assert "status      gave_up" in done.stdout


def test_an_unknown_run_is_exit_code_3(lab: Lab) -> None:
    done = everstep(lab, "status", "nobody")
    assert (done.returncode, done.stdout) == (3, "")
    assert "there is no run 'nobody'" in done.stderr
