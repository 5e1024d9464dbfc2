"""What does not go together in a run spec's ``checkpoint`` section."""

from everstep.contracts.problems import Problem
from everstep.contracts.run_spec import Checkpoint


def checkpoint_problem(checkpoint: Checkpoint) -> Problem | None:
    if checkpoint.failures_per_node_day is not None and not checkpoint.measured:
        return Problem(
            path="checkpoint.failures_per_node_day",
            value=checkpoint.failures_per_node_day,
            message="only the measured interval asks for it, and an interval is given",
            hint="leave out every_steps and every_minutes, or this",
        )
    return None
