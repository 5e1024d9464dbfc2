"""FSx for Lustre in a run: what a job mounts, in which zone, and where its checkpoints are.

A Lambda function mounts nothing, so of checkpoints on the file system the control plane sees the
copies of their manifests in S3: docs/adr/0025-checkpoints-on-a-file-system.md.
"""

from collections.abc import Iterator
from typing import Any

from everstep.contracts.payloads import Team
from everstep.contracts.problems import Problem
from everstep.contracts.records import Run
from everstep.contracts.run_spec import RunSpec

CHECKPOINT_CHANNEL = "checkpoints"


def keeps_checkpoints(run: Run) -> bool:
    """The file system holds the run's checkpoints; S3 holds copies of their manifests."""
    return run.spec.checkpoint.storage == "fsx"


def checkpoint_folder(run: Run) -> str:
    """Of a run that keeps them there: in the container of a job that mounts them."""
    return f"/opt/ml/input/data/{CHECKPOINT_CHANNEL}/{run.run_id}"


def checkpoint_place(run: Run) -> str:
    """Of such a run, for people: file system, mount name, folder."""
    return f"{run.team.file_system_id}:{run.team.file_system_checkpoints}/{run.run_id}"


def data_source(run: Run) -> dict[str, Any]:
    """Of the channel that brings the dataset."""
    prefix, own = run.spec.data.prefix.strip("/"), run.own_lustre
    if run.spec.data.scratch_gib is not None and own is not None:
        return _source(own.file_system_id, f"/{own.mount}/{prefix}", "ro")
    return _source(run.team.file_system_id, f"{run.team.file_system_path}/{prefix}", "ro")


def checkpoint_channels(run: Run, access: str = "rw") -> list[dict[str, Any]]:
    """The team's folder, since SageMaker mounts only what exists: a run's own is its trainer's to
    make. None where the run keeps its checkpoints elsewhere. ``access``: ``rw`` or ``ro``."""
    if not keeps_checkpoints(run):
        return []
    team = run.team
    source = _source(team.file_system_id, team.file_system_checkpoints, access)
    return [{"ChannelName": CHECKPOINT_CHANNEL, "InputMode": "File", "DataSource": source}]


def _source(system: str | None, path: str | None, access: str) -> dict[str, Any]:
    return {
        "FileSystemDataSource": {
            "FileSystemId": system,
            "FileSystemType": "FSxLustre",
            "DirectoryPath": path,
            "FileSystemAccessMode": access,
        }
    }


def subnet_of(run: Run, zone: str | None = None) -> str | None:
    """One zone: EFA does not cross zones, and CreateTrainingJob takes no placement group. The given
    one, else the file system's where the run mounts it, else the first."""
    subnets = run.team.subnets
    if not subnets or run.adopted is not None:
        return None
    own = run.own_lustre
    if run.spec.data.scratch_gib is not None and own is not None and own.subnet and own.here:
        return own.subnet
    wished = (zone, run.team.file_system_zone if _mounts(run.spec) else None)
    chosen = next((name for name in wished if name in subnets), next(iter(subnets)))
    return subnets[chosen][0]


def file_system_problems(spec: RunSpec, team: Team) -> Iterator[Problem]:
    """What the team's file system, or the lack of one, does not let the spec do."""
    if spec.data.scratch_gib is not None:
        if team.lustre_group is None:
            yield Problem(
                path="data.scratch_gib",
                value=spec.data.scratch_gib,
                message="runs of this environment make no file systems",
                hint="set run_file_systems = true in its config, or use the stack's",
            )
        return
    if spec.data.mode == "fsx" and team.file_system_id is None:
        yield Problem(
            path="data.mode",
            value="fsx",
            message="this stack has no file system",
            hint="enable fsx in the environment's config, or use file, fastfile or s3",
        )
    if spec.checkpoint.storage == "fsx" and team.file_system_checkpoints is None:
        yield Problem(
            path="checkpoint.storage",
            value="fsx",
            message="this stack keeps no checkpoints on a file system",
            hint="set file_system.checkpoints = true in the environment's config, or use s3",
        )
    if not _mounts(spec) or team.file_system_zone is None:
        return
    for index, target in enumerate(spec.compute):
        if target.zone not in (None, team.file_system_zone):
            yield Problem(
                path=f"compute.{index}.zone",
                value=target.zone,
                message=f"the file system lies in {team.file_system_zone}: each read would cross "
                "zones, and be paid for",
                hint=f"use {team.file_system_zone}, or leave the zone out",
            )


def _mounts(spec: RunSpec) -> bool:
    return "fsx" in (spec.data.mode, spec.checkpoint.storage)
