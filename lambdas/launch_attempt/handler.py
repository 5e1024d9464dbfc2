"""LaunchAttempt: token first, job second. Every half-run of it can be run again."""

from everstep.contracts.failures import StopReason
from everstep.contracts.payloads import State, TokenStep
from everstep.contracts.records import Outcome
from everstep.policy.job_request import job_request
from lambdas.aws.jobs import NOT_CREATED, LaunchRefused
from lambdas.aws.services import Services, state_handler


class FormerJobRunning(Exception):
    """The launch before this one has a job that is not terminal yet: Step Functions retries."""


def act(step: TokenStep, services: Services) -> None:
    store, jobs = services.store, services.jobs
    launch = store.launch(step.run_id, step.launch)
    former = store.find_launch(step.run_id, step.launch - 1)
    redriven = launch.stop_reason is StopReason.EXECUTION_STOPPED
    for other in (former, launch if redriven else None):
        if other is not None and other.outcome is None:
            job = jobs.describe(other.job_name)
            if job is not None and not jobs.settle(other, job):
                raise FormerJobRunning(other.job_name)
    if redriven:
        # The execution was stopped here and then redriven: this launch's name is burnt.
        run = store.run(step.run_id)
        store.update(run, attempts_reset_at_launch=launch.launch)
        never = Outcome(status=NOT_CREATED, secondary_status="")
        store.update(launch, outcome=never, absent=["outcome"], active=False)
        services.machine.succeed(step.task_token, step.to(State.PLAN_ATTEMPT))
        return
    store.update(launch, task_token=step.task_token)
    if launch.outcome is None:
        jobs.create(launch, job_request(store.run(step.run_id), launch))
        if not store.update(launch, created=True, absent=["outcome"]):
            # Written off in between by someone who saw no job: there is one, and it costs money.
            store.update(launch, created=True, outcome=None, active=True)
    elif launch.outcome.status == NOT_CREATED:
        raise LaunchRefused(launch.outcome.failure_reason)  # as an earlier invocation found
    job = jobs.describe(launch.job_name)
    if job is not None:
        jobs.settle(launch, job)


handler = state_handler(TokenStep, act)
