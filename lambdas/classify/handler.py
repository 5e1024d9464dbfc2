"""Classify: gather what is known of an attempt that ended, ask the policy, remember the answer."""

from typing import Any

from everstep.contracts.payloads import FailedStep, State
from everstep.contracts.progress import parse_line
from everstep.policy.classify import Evidence, classify
from everstep.policy.job_request import output_uri
from everstep.policy.rule import from_user
from everstep.policy.turns import patience
from lambdas.aws.ending import outcome_of
from lambdas.aws.jobs import NOT_CREATED
from lambdas.aws.marks import newest_mark
from lambdas.aws.services import Services, logger, state_handler


def act(step: FailedStep, services: Services) -> dict[str, Any]:
    whole = services.store.whole(step.run_id)
    run, launch = whole.run, whole.launch(step.launch)
    if launch.failure is not None:
        return step.to(State.DECIDE)
    outcome = outcome_of(step, launch, services)
    if outcome is None:
        wait = patience(services.env.watchdog_period_seconds, step.rounds)
        return step.later(wait, State.INSPECT_ATTEMPT, rounds=step.rounds + 1)
    if outcome.status == "Completed" and step.message is None:
        # The state failed, and meanwhile the job completed: no one has looked at its result yet.
        return step.to(State.VERIFY_OUTCOME)
    made = outcome.status != NOT_CREATED
    log = services.logs.tail(launch.job_name) if made else []
    steps = [p.step for line in log if (p := parse_line(line.text)) and p.everstep == "step"]
    last_step = max((s for s in steps if s is not None), default=launch.last_step)
    newest = newest_mark(run, services.checkpoints) if made else None
    error = step.error
    failure = classify(
        Evidence(
            stop_reason=launch.stop_reason,
            stop_detail=launch.stop_detail,
            outcome=outcome,
            failure_file=services.checkpoints.failure_file(output_uri(run), launch.launch)
            if made
            else None,
            log=log,
            incomplete=step.message,
            last_step=last_step,
            state_error=error.Error if error else "",
            state_cause=error.Cause if error else "",
        ),
        from_user(services.env.rules),
    )
    services.store.update(
        launch,
        outcome=outcome,
        settled_epoch=launch.settled_epoch or services.clock(),
        failure=failure,
        last_step=last_step,
        active=False,
        committed_step=newest.step if newest else launch.resume_step,
    )
    said = {"class": failure.failure_class, "rule": failure.rule}
    logger.info(f"classified: {failure.cause}", extra=said)
    return step.to(State.DECIDE, message=None)


handler = state_handler(FailedStep, act)
