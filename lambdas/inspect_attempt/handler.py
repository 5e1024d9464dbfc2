"""InspectAttempt: no heartbeat, so the watchdog is ill. The job may be well: look, wait again."""

from everstep.contracts.payloads import State, TokenStep
from everstep.policy.turns import turns
from lambdas.aws.look import look
from lambdas.aws.services import Services, state_handler


class JobMissing(Exception):
    """The launch's job was never made: classified from this error."""


def act(step: TokenStep, services: Services) -> None:
    whole = services.store.whole(step.run_id)
    run, launch = whole.run, whole.launch(step.launch)
    if launch.task_token != step.task_token:
        services.store.update(
            launch, task_token=step.task_token, inspections=launch.inspections + 1
        )
    job = services.jobs.of(launch)
    if job is None:
        raise JobMissing(f"{launch.job_name} does not exist")
    if not launch.created:  # whoever made it died before saying so; a successor has another tag
        services.store.update(launch, created=True)
    if services.jobs.settle(launch, job):
        return
    if turns(whole.launches, step.execution_arn) > services.env.continue_after_turns:
        # A watchdog that is ill for weeks must not fill the history.
        services.machine.succeed(step.task_token, step.to(State.CONTINUE_AS_NEW))
        return
    verdict = look(run, launch, job, services)
    if verdict.stop is not None:
        services.jobs.stop(launch, verdict.stop, verdict.detail)


handler = state_handler(TokenStep, act)
