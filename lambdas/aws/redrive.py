"""A person redrives an execution that gave up: the run goes on under its own name."""

from typing import Any

from everstep.contracts.payloads import GiveUpStep, State
from everstep.contracts.records import Run, RunStatus
from lambdas.aws.services import Services

GAVE_UP = (RunStatus.GAVE_UP, RunStatus.STOPPED)


def redriven(run: Run, step: GiveUpStep) -> bool:
    """A person said: go on. Also where an earlier invocation heard it and died: nothing has
    happened since."""
    if run.status in GAVE_UP:
        return step.redrive_count > run.redrive_count
    return (
        0 < step.redrive_count == run.redrive_count
        and run.attempts_reset_at_launch == step.launch
        and run.failure is None
    )


def begin_again(run: Run, step: GiveUpStep, services: Services) -> dict[str, Any]:
    """Attempts and waits count anew. What is trained is looked at first."""
    services.store.update(
        run,
        status=RunStatus.RUNNING,
        redrive_count=step.redrive_count,
        attempts_reset_at_launch=step.launch,
        images=None,  # what a person has mended may be the image
        failure=None,
        note=None,
        waiting=None,
        waited_seconds=0.0,
    )
    trained = run.final_step is not None and run.final_step >= run.spec.stop.steps
    return step.to(State.VERIFY_OUTCOME if trained else State.CHECK_QUOTA)
