"""Data repository tasks of a run: metadata in from S3 before it, checkpoints out to S3 after it.

Botocore's shapes; a path in is an S3 prefix, a path out is relative to the mount point.
"""

from typing import Any

from everstep.contracts.records import DataTask, Run

MOST_TRIES = 3
LONGEST_HOURS = 24
LONGEST_WAIT_SECONDS = 600
"""Between two looks: at most some 200 of them, and 8 events of the execution's history each."""
WAITING = frozenset({"PENDING", "EXECUTING", "CANCELING"})


def wants_preload(run: Run) -> bool:
    return run.spec.data.preload and not (run.preload and run.preload.done)


def wants_release(run: Run) -> bool:
    return run.spec.checkpoint.export and not (run.release and run.release.done)


def import_request(run: Run, task: DataTask) -> dict[str, Any]:
    """What S3 has below the dataset's prefix becomes visible; contents come when first read."""
    source = f"{run.team.data_uri}/{run.spec.data.prefix.strip('/')}/"
    return _request(run, task, "IMPORT_METADATA_FROM_REPOSITORY", source)


def export_request(run: Run, task: DataTask) -> dict[str, Any]:
    """The run's checkpoints, beside the copies of their manifests."""
    path = str(run.team.file_system_checkpoints).lstrip("/").partition("/")[2]
    return _request(run, task, "EXPORT_TO_REPOSITORY", f"{path}/{run.run_id}")


def wait_seconds(task: DataTask, now: float, least: int) -> int:
    """A quarter of the time that it has taken so far."""
    return int(max(least, min(LONGEST_WAIT_SECONDS, (now - task.since_epoch) / 4)))


def _request(run: Run, task: DataTask, kind: str, path: str) -> dict[str, Any]:
    return {
        "Type": kind,
        "FileSystemId": run.team.file_system_id,
        "Paths": [path],
        "Report": {"Enabled": False},
        # the same call twice is one task
        "ClientRequestToken": f"{run.run_id}-{int(task.since_epoch)}-{task.number}",
    }
