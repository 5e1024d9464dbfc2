"""What does not go together in a run spec's ``checkpoint`` and ``start`` sections."""

from everstep.contracts.problems import Problem
from everstep.contracts.run_spec import Stop
from everstep.contracts.training_spec import Begin, Checkpoint


def checkpoint_problem(checkpoint: Checkpoint) -> Problem | None:
    if checkpoint.failures_per_node_day is not None and not checkpoint.measured:
        return Problem(
            path="checkpoint.failures_per_node_day",
            value=checkpoint.failures_per_node_day,
            message="only the measured interval asks for it, and an interval is given",
            hint="leave out every_steps and every_minutes, or this",
        )
    return None


def begin_problem(begin: Begin, stop: Stop) -> Problem | None:
    if begin.weights_only and begin.checkpoint is None:
        return Problem(
            path="start.weights_only",
            value=True,
            message="of which checkpoint is not said",
            hint="give start.checkpoint, or weights in model.weights",
        )
    if begin.step >= stop.steps:
        return Problem(
            path="start.checkpoint",
            value=begin.checkpoint,
            message=f"is at step {begin.step}, and the run's last step is {stop.steps}",
            hint="raise stop.steps, or take an earlier checkpoint",
        )
    return None
