"""Runs on a file system: what is refused before a job is paid for, and how far their checkpoints
are, which no Lambda function can look at."""

from typing import Any

import pytest

from everstep.contracts.failures import FailureClass
from everstep.contracts.payloads import State, Team
from everstep.contracts.records import job_name
from tests.lambdas.test_lives import Life, end, job_event, launched
from tests.lambdas.world import RUN, TEAM, World

ON_FSX = {"storage": "fsx"}
LUSTRE = TEAM.model_copy(
    update={
        "file_system_id": "fs-0123456789abcdef0",
        "file_system_path": "/m/research",
        "file_system_checkpoints": "/m/checkpoints/research",
        "file_system_zone": "us-east-1b",
    }
)


def on(team: Team, world: World, **spec: Any) -> Life:
    life = Life(world, **spec)
    life.team = team
    return life


WITHOUT_CHECKPOINTS = LUSTRE.model_copy(update={"file_system_checkpoints": None})
REFUSED: dict[str, tuple[Team, dict[str, Any], str]] = {
    "no file system": (TEAM, {"data": {"prefix": "stdlib", "mode": "fsx"}}, "data.mode"),
    "none for checkpoints": (TEAM, {"checkpoint": ON_FSX}, "checkpoint.storage"),
    "one that keeps none": (WITHOUT_CHECKPOINTS, {"checkpoint": ON_FSX}, "checkpoint.storage"),
    "another zone": (
        LUSTRE,
        {
            "checkpoint": ON_FSX,
            "compute": [
                {"instance_type": "ml.m5.large"},
                {"instance_type": "ml.m5.large", "zone": "us-east-1a"},
            ],
        },
        "compute.1.zone",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_file_system_cannot_do_is_refused(world: World, case: str) -> None:
    team, spec, path = REFUSED[case]
    life = on(team, world, **spec)
    assert life.go() is State.REFUSE_SPEC
    assert path in life.payload["message"]
    assert "hint:" in life.payload["message"]
    assert world.sagemaker.created == []


def test_another_zone_is_fine_where_nothing_is_mounted(world: World) -> None:
    life = on(LUSTRE, world, compute=[{"instance_type": "ml.m5.large", "zone": "us-east-1a"}])
    assert life.go() is State.LAUNCH_ATTEMPT
    assert world.launch(1).subnet == "subnet-a"


def test_a_host_lost_costs_what_was_not_told_of_yet(world: World) -> None:
    """From the copies of manifests alone; hosts are where the file system is."""
    life = on(LUSTRE, world, checkpoint=ON_FSX)
    launched(life)
    assert world.launch(1).subnet == "subnet-b"
    world.put_checkpoint(40, recorded=True)
    name = world.put_checkpoint(60, recorded=True)
    world.put_object(f"{TEAM.checkpoint_uri}/{RUN}/step-00000080.00001/manifest.json", "{tor")
    end(world, 1, "Failed", "InternalServerError: We lost it.")
    assert life.wake() is State.LAUNCH_ATTEMPT
    assert (world.launch(2).resume_checkpoint, world.launch(1).committed_step) == (name, 60)
    final = world.put_checkpoint(100, 2, final=True, recorded=True)
    end(world, 2, "Completed")
    assert life.wake() is State.DONE
    assert world.run().final_step == 100
    assert f"fs-0123456789abcdef0:/m/checkpoints/research/{RUN}/" in world.messages()[-1]
    assert final.startswith("step-00000100")


def test_completed_without_a_copy_of_the_final_manifest_is_not_done(world: World) -> None:
    life = on(LUSTRE, world, checkpoint=ON_FSX)
    launched(life)
    world.put_checkpoint(100, recorded=True)
    end(world, 1, "Completed")
    assert life.wake() is State.LAUNCH_ATTEMPT
    failure = world.launch(1).failure
    assert failure is not None
    assert failure.failure_class is FailureClass.INCOMPLETE


def test_a_manifest_alone_is_no_checkpoint_in_s3(world: World) -> None:
    life = Life(world)
    launched(life)
    world.put_checkpoint(60, recorded=True)
    end(world, 1, "Failed", "InternalServerError: We lost it.")
    assert life.wake() is State.LAUNCH_ATTEMPT
    assert world.launch(2).resume_checkpoint is None


def test_the_export_runs_where_the_checkpoint_lies(world: World) -> None:
    life = on(LUSTRE, world, checkpoint=ON_FSX, finish={"export": True})
    launched(life)
    name = world.put_checkpoint(100, final=True, recorded=True)
    end(world, 1, "Completed")
    assert life.wake() is State.EXPORT_MODEL
    request = world.sagemaker.jobs[f"{RUN}-export-01"]
    assert request["VpcConfig"]["Subnets"] == ["subnet-b"]
    (channel,) = request["InputDataConfig"]
    assert channel["DataSource"]["FileSystemDataSource"]["FileSystemAccessMode"] == "ro"
    uri = world.put_export(name)
    world.sagemaker.end(f"{RUN}-export-01", "Completed")
    job_event(world, f"{RUN}-export-01", "Completed")
    assert life.wake() is State.DONE
    assert world.run().export_uri == uri
    assert world.sagemaker.created == [job_name(RUN, 1), f"{RUN}-export-01"]
