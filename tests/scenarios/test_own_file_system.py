"""A run with a file system of its own: made before it, gone after it, however it ends."""

from typing import Any

import pytest

from emulator.access_report import access_report
from everstep.contracts.records import OwnLustre, job_name
from tests.scenarios.lab import Lab
from tests.scenarios.test_control_plane import check_arrived

pytestmark = pytest.mark.scenario


def own(prefix: str = "datasets/stdlib") -> dict[str, Any]:
    return {"data": {"prefix": prefix, "mode": "fsx", "scratch_gib": 1200}}


def systems(lab: Lab, run_id: str) -> list[dict[str, Any]]:
    """Of the run, by FSx and by its tags: the table is not asked."""
    tag = {"Key": "everstep:run", "Value": run_id}
    found = lab.cloud.client("fsx").describe_file_systems()["FileSystems"]
    return [one for one in found if tag in one["Tags"]]


def none_is_left(lab: Lab, run_id: str) -> OwnLustre:
    """Deleted at FSx, and its row knows since when it costs nothing."""
    lab.until(lambda: not systems(lab, run_id), f"the end of {run_id}'s file system")
    known = lab.cloud.run(run_id).own_lustre
    assert known is not None
    assert not known.here
    return known


@pytest.fixture
def slow_file_systems(lab: Lab) -> Any:
    lab.control.settings(file_system_seconds=20)
    yield
    lab.control.settings(file_system_seconds=1)


@pytest.mark.slow
def test_a_killed_host_on_a_file_system_of_the_runs_own_changes_nothing(
    lab: Lab, tiny: dict[str, Any]
) -> None:
    spec = {**tiny, "stop": {**tiny["stop"], "steps": 40}}
    whole = lab.start("whole-on-s3", spec)
    arn = lab.start("own-lustre", {**spec, **own(tiny["data"])})
    lab.at_step("own-lustre", 1, 15)
    (system,) = systems(lab, "own-lustre")
    mount = system["LustreConfiguration"]["MountName"]
    lab.control.kill_host(job_name("own-lustre", 1), "algo-2")
    assert lab.end(arn)["status"] == "SUCCEEDED"
    known = none_is_left(lab, "own-lustre")
    assert known.file_system_id == system["FileSystemId"], "one a run, whatever the attempts"
    for launch in (1, 2):
        (channel,) = lab.job("own-lustre", launch)["InputDataConfig"]
        mounted = channel["DataSource"]["FileSystemDataSource"]
        assert mounted["FileSystemId"] == system["FileSystemId"]
        assert mounted["DirectoryPath"].startswith(f"/{mount}/")
    assert lab.launches("own-lustre")[1].resume_step >= 10
    assert lab.end(whole)["status"] == "SUCCEEDED"
    assert lab.weights("own-lustre") == lab.weights("whole-on-s3")


def test_stopped_while_it_trains_and_retried(lab: Lab) -> None:
    arn = lab.start("own-stopped", {**lab.foreign(steps=60, step_seconds=0.2), **own()})
    lab.at_step("own-stopped", 1, 12)
    (first,) = systems(lab, "own-stopped")
    lab.everstep("stop", "own-stopped")
    ended = none_is_left(lab, "own-stopped")
    assert ended.file_system_id == first["FileSystemId"]
    job = lab.job("own-stopped", 1)
    assert ended.deleted_epoch >= job["TrainingEndTime"].timestamp(), "not under the job"
    lab.everstep("retry", "own-stopped")
    assert lab.end(arn)["status"] == "SUCCEEDED"
    check_arrived(lab, "own-stopped", 60, launches=2)
    second = none_is_left(lab, "own-stopped")
    assert second.file_system_id != first["FileSystemId"]
    assert second.earlier_gib_hours > 0, "what the first one cost is not forgotten"


@pytest.mark.usefixtures("slow_file_systems")
def test_aborted_while_it_is_made_and_redriven(lab: Lab) -> None:
    arn = lab.start("own-aborted", {**lab.foreign(steps=10), **own()})
    (first,) = lab.until(lambda: systems(lab, "own-aborted"), "a file system")
    assert first["Lifecycle"] == "CREATING"
    lab.aws("stepfunctions", "stop-execution", "--execution-arn", arn)
    lab.until(lambda: lab.status_of("own-aborted") == "stopped", "the run's row")
    lab.control.settings(file_system_seconds=1)
    none_is_left(lab, "own-aborted")
    lab.aws("stepfunctions", "redrive-execution", "--execution-arn", arn)
    assert lab.end(arn)["status"] == "SUCCEEDED"
    check_arrived(lab, "own-aborted", 10, launches=1)
    none_is_left(lab, "own-aborted")


def test_what_fsx_cannot_make_is_tried_again_then_said_and_retried(lab: Lab) -> None:
    lab.control.throttle("CreateFileSystem", 1, match="own-failed")
    lab.control.file_system("limit", 1, match="own-failed")
    lab.control.file_system("fails", 3, match="own-failed")
    arn = lab.start("own-failed", {**lab.foreign(steps=10), **own()})
    ended = lab.end(arn)
    assert (ended["status"], ended["error"]) == ("FAILED", "BadConfig")
    assert "not enough capacity" in ended["cause"]
    assert "hint: " in ended["cause"]
    none_is_left(lab, "own-failed")
    assert lab.jobs_of("own-failed") == [], "no host was paid for"
    lab.control.file_system("fails", 1, match="own-failed")
    lab.everstep("retry", "own-failed")
    assert lab.end(arn)["status"] == "SUCCEEDED"
    check_arrived(lab, "own-failed", 10, launches=1)
    assert none_is_left(lab, "own-failed").number == 2


def test_every_call_was_allowed_by_the_callers_role(lab: Lab) -> None:
    """Last: over all of the above."""
    assert access_report(lab.work)["denied"] == []
