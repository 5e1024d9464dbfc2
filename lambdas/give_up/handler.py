"""GiveUp: an answer, in words, raised so that the execution fails *here* and Redrive comes here."""

from typing import Any

from everstep.contracts.failures import Action, Failure, FailureClass
from everstep.contracts.metrics import RUNS
from everstep.contracts.payloads import GiveUpStep
from everstep.contracts.records import Launch, Run, RunStatus
from everstep.policy.notice import hint_of, history
from lambdas.aws.own_lustre import delete_own
from lambdas.aws.redrive import GAVE_UP, begin_again, redriven
from lambdas.aws.services import Services, state_handler


def act(step: GiveUpStep, services: Services) -> dict[str, Any]:
    run, launches, exports = services.store.whole(step.run_id)
    if redriven(run, step):
        return begin_again(run, step, services)
    delete_own(run, services)
    failure, reason = _why(run, launches)
    stopped = failure.failure_class is FailureClass.USER_STOP
    if launches and run.spec.target(launches[-1].target).warm_pool_seconds:
        services.jobs.end_warm_pool(launches[-1].job_name)
    text = f"gave up, {failure.failure_class}: {failure.cause} ({reason})"
    if hint := hint_of(failure, run):
        text += f"\nhint: {hint}"
    text += f"\nrunbook: {services.env.runbook(failure.failure_class)}"
    jobs = [*launches, *exports]
    if run.status not in GAVE_UP:
        services.notifier.send(run, "give_up", f"gave up: {reason}", jobs, failure)
    services.store.update(
        run,
        status=RunStatus.STOPPED if stopped else RunStatus.GAVE_UP,
        note=text,
        redrive_count=step.redrive_count,
        active=False,
    )
    if run.status not in GAVE_UP:
        services.figures.ended(RUNS, run, failure.failure_class)
    raise _error(failure)("\n".join([text, "", *history(jobs), "", "Redrive to go on."]))


def _why(run: Run, launches: list[Launch]) -> tuple[Failure, str]:
    if run.failure is not None:
        exporting = run.failure.failure_class is FailureClass.EXPORT_FAILED
        return run.failure, "training is done" if exporting else "no launch was made for it"
    last = launches[-1]
    failure = last.failure or Failure(
        failure_class=FailureClass.UNKNOWN, action=Action.DO_NOT_RETRY, cause="", rule="none"
    )
    if last.decision is None:
        return failure, "no decision"
    return last.decision.of(failure), last.decision.reason


def _error(failure: Failure) -> type[Exception]:
    """Step Functions takes an exception's class name for the error's name."""
    return type(failure.failure_class.error_name, (Exception,), {})


handler = state_handler(GiveUpStep, act)
