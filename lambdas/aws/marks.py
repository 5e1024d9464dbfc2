"""How far a run's checkpoints are: what tells apart attempts with progress and without."""

from typing import NamedTuple

from everstep.contracts.records import Run
from everstep.policy.adopt import checkpoint_place
from everstep.policy.file_system import keeps_checkpoints
from everstep.policy.job_request import checkpoint_uri
from lambdas.aws.checkpoints import Checkpoints, Committed


class Mark(NamedTuple):
    step: int
    checkpoint: str | None = None


def newest_committed(run: Run, checkpoints: Checkpoints) -> Committed | None:
    """Of a run of ours. Files on a file system are not looked at: their trainer does that."""
    return checkpoints.newest(checkpoint_uri(run), recorded=keeps_checkpoints(run))


def newest_mark(run: Run, checkpoints: Checkpoints) -> Mark | None:
    """The newest committed checkpoint. A foreign program keeps no manifest: for an adopted job it
    is the second, since the first job was made, in which its checkpoint place last changed."""
    if run.adopted is None:
        newest = newest_committed(run, checkpoints)
        return Mark(newest.manifest.step, str(newest.name)) if newest else None
    place = checkpoint_place(run)
    changed = checkpoints.last_change(place) if place else None
    if changed is None:
        return None
    return Mark(max(0, int(changed - run.adopted.created_epoch)))
