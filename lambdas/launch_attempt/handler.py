"""LaunchAttempt: token first, job second. Every half-run of it can be run again."""

from typing import Any

from everstep.contracts.failures import StopReason
from everstep.contracts.payloads import State, TokenStep
from everstep.contracts.records import Launch, Outcome, Run
from everstep.policy.adopt import adopted_request
from everstep.policy.job_request import job_request
from lambdas.aws.jobs import NOT_CREATED
from lambdas.aws.services import Services, state_handler
from lambdas.aws.waiting import make_and_wait, settle_first


def act(step: TokenStep, services: Services) -> None:
    store = services.store
    whole = store.whole(step.run_id)
    run, launch, former = whole.run, whole.launch(step.launch), whole.find(step.launch - 1)
    redriven = launch.stop_reason is StopReason.EXECUTION_STOPPED
    for other in (former, launch if redriven else None):
        if other is not None:
            settle_first(other, services)
    if redriven:
        # The execution was stopped here and then redriven: this launch's name is burnt.
        store.update(run, attempts_reset_at_launch=launch.launch)
        never = Outcome(status=NOT_CREATED, secondary_status="")
        now = services.clock()
        store.update(launch, outcome=never, settled_epoch=now, absent=["outcome"], active=False)
        services.machine.succeed(step.task_token, step.to(State.PLAN_ATTEMPT))
        return
    make_and_wait(
        launch,
        step.task_token,
        lambda: _request(run, launch, services),
        services,
    )


def _request(run: Run, launch: Launch, services: Services) -> dict[str, Any]:
    if run.adopted is None:
        return job_request(run, launch)
    first = services.jobs.described(run.adopted.job) if run.adopted.withheld else None
    return adopted_request(run, launch, first)


handler = state_handler(TokenStep, act)
