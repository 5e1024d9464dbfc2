"""A run that gives up: looked at, mended, retried; or another way taken from a checkpoint."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from everstep.cli.doctor_checks import CHECKS, SPEC_CHECKS
from tests.scenarios.lab import Lab
from tests.scenarios.test_cli import everstep, json_of, spec_file

pytestmark = pytest.mark.scenario
STEPS = 20


def state(lab: Lab, run_id: str) -> str:
    """The "weights" of the newest checkpoint."""
    return lab.object(f"{lab.final_checkpoint(run_id)}/state.txt")


def listed(lab: Lab, *arguments: str) -> dict[str, Any]:
    return {row["run_id"]: row for row in json_of(everstep(lab, "list", *arguments, "--json"))}


def refused(done: subprocess.CompletedProcess[str], code: int, said: str) -> None:
    assert done.returncode == code, done.stderr
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_gives_up_is_looked_at_mended_and_retried_under_its_own_id(
    lab: Lab, tmp_path: Path
) -> None:
    spec = lab.foreign(steps=STEPS, FOREIGN_BUG_AT="8")
    file = spec_file(tmp_path, spec)
    assert everstep(lab, "run", file, "--name", "story").returncode == 0

    watched = everstep(lab, "watch", "story", "--every", "0.5")
    assert watched.returncode == 1, watched.stderr
    assert "gave_up  GiveUp; next: everstep retry story" in watched.stdout
    assert "user_code: KeyError: 'the same bug every time' -> give_up" in watched.stdout
    assert "\x1b" not in watched.stdout

    row = listed(lab, "--state", "gave_up", "--name", "story")["story"]
    assert (row["state"], row["steps"], row["team"]) == ("gave_up", STEPS, "research")
    assert row["attempts"] == 2
    assert row["usd"] is not None
    assert "story" not in listed(lab, "--state", "done")

    cause = json_of(everstep(lab, "logs", "story", "--first-cause", "--json"))
    assert cause["cause"] == "KeyError: 'the same bug every time'"
    assert cause["host"] in ("algo-1", "algo-2")
    assert any("Traceback" in line["text"] for line in cause["lines"])
    assert "\n> " in everstep(lab, "logs", "story", "--first-cause", "--attempt", "1").stdout

    run = lab.cloud.run("story")
    lab.put(f"{run.team.checkpoint_uri}/story/mended", "yes")
    retried = json_of(everstep(lab, "retry", "story", "--wait", "--json"))
    assert (retried["run_id"], retried["status"], retried["step"]) == ("story", "done", STEPS)
    assert lab.cloud.run("story").execution_arn == run.execution_arn, "redriven"
    refused(everstep(lab, "retry", "story"), 2, "is done at step 20: nothing to retry")

    refused(everstep(lab, "resume", "story", "--from", "11"), 3, "of steps 5, 10, 15, 20")
    before = lab.object(f"{lab.final_checkpoint('story')}/manifest.json")
    short = ("--set", "stop.steps=5")
    assert json_of(everstep(lab, "clone", "story", "copy", *short, "--json"))["run_id"] == "copy"
    found = json_of(everstep(lab, "resume", "story", "--from", "10", "--wait", "--json"))
    assert (found["run_id"], found["status"]) == ("story-from-10", "done")
    assert found["launches"][0]["resume_step"] == 10
    assert state(lab, "story-from-10") == state(lab, "story")
    assert lab.object(f"{lab.final_checkpoint('story')}/manifest.json") == before

    warmed = everstep(lab, "clone", "story", "warm", "--weights", *short, "--wait", "--json")
    assert (json_of(warmed)["status"], json_of(warmed)["step"]) == ("done", 5)
    lab.until(lambda: lab.status_of("copy") == "done", "the end of the copy")
    copied = json_of(everstep(lab, "status", "copy", "--json"))
    assert (copied["step"], copied["launches"][0]["resume_step"]) == (5, 0)
    assert state(lab, "warm") != state(lab, "copy"), "it began from the trained weights"


def test_a_changed_spec_goes_on_in_a_new_execution_of_the_same_run(
    lab: Lab, tmp_path: Path
) -> None:
    file = spec_file(tmp_path, lab.foreign(steps=STEPS, FOREIGN_BUG_AT="8"))
    assert everstep(lab, "run", file, "--name", "changed", "--wait").returncode == 1
    mended = ("--set", 'trainer.environment.FOREIGN_BUG_AT="0"')
    done = everstep(lab, "retry", "changed", *mended, "--wait", "--json")
    assert (json_of(done)["run_id"], json_of(done)["status"]) == ("changed", "done")
    assert "in a new execution, as its spec is changed" in " ".join(done.stderr.split())
    assert lab.cloud.run("changed").execution_arn.endswith(":changed-c01")
    assert lab.launches("changed")[-1].resume_step == 5


def test_a_running_run_is_followed_and_stopped_once(lab: Lab, tmp_path: Path) -> None:
    file = spec_file(tmp_path, lab.foreign(steps=400, step_seconds=0.1))
    everstep(lab, "run", file, "--name", "followed")
    lab.at_step("followed", 1, 6)
    refused(everstep(lab, "retry", "followed"), 2, "is running: nothing to retry")
    first = json_of(everstep(lab, "stop", "followed", "--json"))
    assert (first["stopping"], first["run_id"]) == (True, "followed")
    watched = everstep(lab, "watch", "followed", "--json", "--every", "0.5")
    assert watched.returncode == 1
    assert json.loads(watched.stdout.splitlines()[-1])["status"] == "stopped"
    lab.until(lambda: lab.status_of("followed") == "stopped", "the row")
    assert json_of(everstep(lab, "stop", "followed", "--json"))["stopping"] is False
    followed = everstep(lab, "logs", "followed", "--follow", "--launch", "1")
    assert followed.returncode == 0
    assert '"step":6' in followed.stdout


def test_doctor_finds_the_emulator_in_order(lab: Lab, tmp_path: Path) -> None:
    done = everstep(lab, "doctor", spec_file(tmp_path, lab.foreign()), "--json")
    found = json.loads(done.stdout)
    assert [one for one in found if one["state"] == "fail"] == [], done.stderr
    assert done.returncode == 0
    assert {*CHECKS, *SPEC_CHECKS, "clock"} <= {one["check"] for one in found}
    elsewhere = everstep(lab, "doctor", "--env", "prod", "--json")
    assert elsewhere.returncode == 1
    failed = [one for one in json.loads(elsewhere.stdout) if one["state"] == "fail"]
    assert any(one["check"] == "account" and "444455556666" in one["said"] for one in failed)
    assert all(one["fix"] for one in failed)
