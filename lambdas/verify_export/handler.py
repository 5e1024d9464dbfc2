"""VerifyExport: is the export whole? If not, why, and is there another try? Training stays."""

from typing import Any

from everstep.contracts.failures import DecisionKind
from everstep.contracts.payloads import FailedStep, State
from everstep.contracts.records import Launch, Outcome, Run, export_item
from everstep.policy.classify import Evidence, classify
from everstep.policy.export import decide_export, failures_uri
from everstep.policy.rule import from_user
from lambdas.aws.ending import outcome_of
from lambdas.aws.exports import after_export, give_up_export, plan_export, whole_export
from lambdas.aws.jobs import NOT_CREATED
from lambdas.aws.services import Services, state_handler


def act(step: FailedStep, services: Services) -> dict[str, Any]:
    run = services.store.run(step.run_id)
    export = services.store.job(step.run_id, export_item(step.export))
    plan = export.plan
    if export.decision is None:
        outcome = outcome_of(step, export, services)
        if outcome is None:
            # The state failed, the job did not.
            return step.later(services.env.watchdog_period_seconds, State.EXPORT_MODEL)
        completed = outcome.status == "Completed"
        if completed and whole_export(run, plan.uri, plan.checkpoint, services):
            return after_export(step, run, plan.uri, services)
        export = _decide(step, run, export, outcome, services)
    decision, failure = export.decision, export.failure
    if decision is None or failure is None or decision.kind is DecisionKind.GIVE_UP:
        said = f"{failure.failure_class}: {failure.cause}" if failure else "no cause"
        reason = decision.reason if decision else "no decision"
        return give_up_export(step, run, f"{said} ({reason})", services)
    return plan_export(step, run, export.launch + 1, plan, services, decision.wait_seconds)


def _decide(
    step: FailedStep, run: Run, export: Launch, outcome: Outcome, services: Services
) -> Launch:
    """The row with its failure and its decision, stored once."""
    made = outcome.status != NOT_CREATED
    uri = failures_uri(run)
    error = step.error
    failure = classify(
        Evidence(
            stop_reason=export.stop_reason,
            outcome=outcome,
            failure_file=services.checkpoints.failure_file(uri, export.launch) if made else None,
            log=services.logs.tail(export.job_name) if made else [],
            incomplete=f"the job says Completed, and there is no whole export at {export.plan.uri}"
            if outcome.status == "Completed"
            else None,
            state_error=error.Error if error else "",
            state_cause=error.Cause if error else "",
        ),
        from_user(services.env.rules),
    )
    tries = services.store.exports(run.run_id)
    series = [x for x in tries if export.plan.first <= x.launch <= export.launch]
    decision = decide_export(run.spec, failure, series, services.clock(), services.draw)
    if decision.kind is not DecisionKind.GIVE_UP:
        text = f"the export is tried again: {decision.reason}"
        services.notifier.send(
            run, "retry", text, [*services.store.launches(run.run_id), *tries], failure
        )
    services.store.update(
        export,
        outcome=outcome,
        failure=failure,
        decision=decision,
        absent=["decision"],
        active=False,
    )
    return services.store.job(run.run_id, export.item)


handler = state_handler(FailedStep, act)
