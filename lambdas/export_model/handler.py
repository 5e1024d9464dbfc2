"""ExportModel: the final weights in another format, by a job of their own. Waits as LaunchAttempt.

A missing heartbeat comes here again: the newer token is stored, and the job that is there waited
for. Nothing of training is touched.
"""

from everstep.contracts.failures import StopReason
from everstep.contracts.payloads import State, TokenStep
from everstep.contracts.records import Outcome, export_item
from everstep.policy.export import export_request
from lambdas.aws.jobs import NOT_CREATED
from lambdas.aws.services import Services, state_handler
from lambdas.aws.waiting import make_and_wait, settle_first


def act(step: TokenStep, services: Services) -> None:
    store = services.store
    export = store.job(step.run_id, export_item(step.export))
    former = store.find_job(step.run_id, export_item(step.export - 1))
    redriven = export.stop_reason is StopReason.EXECUTION_STOPPED
    for other in (former, export if redriven else None):
        if other is not None:
            settle_first(other, services)
    if redriven:
        # The execution was stopped here and then redriven: this name is burnt, the next is planned.
        never = Outcome(status=NOT_CREATED, secondary_status="")
        store.update(export, outcome=never, absent=["outcome"], active=False)
        again = step.to(State.VERIFY_OUTCOME, launch=export.plan.after_launch)
        services.machine.succeed(step.task_token, again)
        return
    make_and_wait(
        export,
        step.task_token,
        lambda: export_request(store.run(step.run_id), export),
        services,
    )


handler = state_handler(TokenStep, act)
