"""What does not go together in a run spec's ``checkpoint`` section."""

from everstep.contracts.problems import Problem
from everstep.contracts.run_spec import Checkpoint


def checkpoint_problem(checkpoint: Checkpoint) -> Problem | None:
    fixed = checkpoint.every_steps or checkpoint.every_minutes
    if checkpoint.auto_interval and fixed is not None:
        return Problem(
            path="checkpoint.auto_interval",
            value=True,
            message="the interval is given as well",
            hint="leave out every_steps and every_minutes, or auto_interval",
        )
    if checkpoint.failures_per_node_day is not None and not checkpoint.auto_interval:
        return Problem(
            path="checkpoint.failures_per_node_day",
            value=checkpoint.failures_per_node_day,
            message="only auto_interval asks for it",
            hint='set "auto_interval": true beside it, or leave it out',
        )
    return None
