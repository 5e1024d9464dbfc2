"""The other run's checkpoint that a run begins from, as S3 holds it, before a job is paid for."""

from everstep.contracts.payloads import Start
from everstep.contracts.problems import Problem
from everstep.contracts.run_spec import RunSpec
from lambdas.aws.checkpoints import Checkpoints


def begin_problems(spec: RunSpec, run_id: str, start: Start, objects: Checkpoints) -> list[Problem]:
    """Not asked once the run has a checkpoint of its own: the other may be gone by then."""
    begin = spec.start.checkpoint
    if begin is None or objects.committed(f"{start.team.checkpoint_uri}/{begin}"):
        return []
    if objects.newest(f"{start.team.checkpoint_uri}/{run_id}") is not None:
        return []
    other = begin.partition("/")[0]
    known = objects.steps(f"{start.team.checkpoint_uri}/{other}")
    there = ", ".join(f"{other}/{name}" for name in known[-5:]) or f"run {other} has none"
    return [
        Problem(
            path="start.checkpoint",
            value=begin,
            message="is no committed checkpoint of the team in S3",
            hint=there,
        )
    ]
