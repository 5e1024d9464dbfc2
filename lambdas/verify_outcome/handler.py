"""VerifyOutcome: Completed is not success. The committed final checkpoint at the last step is."""

from typing import Any

from everstep.contracts.payloads import State, Step
from lambdas.aws.exports import after_training
from lambdas.aws.marks import newest_committed
from lambdas.aws.services import Services, state_handler


def act(step: Step, services: Services) -> dict[str, Any]:
    whole = services.store.whole(step.run_id)
    run, launch = whole.run, whole.launch(step.launch)
    if run.adopted is not None:
        # A foreign program keeps no manifest: its own exit code is all there is to go by.
        services.store.update(run, final_step=launch.last_step)
        return step.to(State.FINISH)
    newest = newest_committed(run, services.checkpoints)
    wanted = run.spec.stop.steps
    if newest is None:
        missing = "the job says Completed, and there is no committed checkpoint"
    elif newest.manifest.step < wanted or not newest.manifest.final:
        missing = (
            f"the job says Completed, and the newest checkpoint {newest.name} is at step "
            f"{newest.manifest.step} of {wanted}"
            + ("" if newest.manifest.final else ", not marked final")
        )
    else:
        step_done = newest.manifest.step
        services.store.update(launch, committed_step=step_done, last_step=step_done)
        services.store.update(run, final_step=step_done)
        return after_training(step, run, newest, services)
    if run.final_step is not None:
        # Verified once, gone or torn since: no failure of the launch that made it. Train again.
        services.store.update(run, final_step=None)
        return step.to(State.CHECK_QUOTA)
    return step.to(State.CLASSIFY, message=missing)


handler = state_handler(Step, act)
