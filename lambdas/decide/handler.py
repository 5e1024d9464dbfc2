"""Decide: one table over class, history, progress, budget; the answer is stored, then followed."""

from typing import Any

from everstep.contracts.failures import Decision, DecisionKind, Rung
from everstep.contracts.metrics import ATTEMPTS
from everstep.contracts.payloads import State, Step
from everstep.contracts.records import Launch, Run
from everstep.policy.ladder import has_pool
from everstep.policy.own_file_system import spend_of_run
from everstep.policy.retry import History, decide
from everstep.policy.turns import turns
from lambdas.aws.room import seconds_left
from lambdas.aws.services import Services, logger, state_handler


class NotClassified(Exception):
    """Decide ran on a launch without a class: a defect, never guessed around."""


def act(step: Step, services: Services) -> dict[str, Any]:
    run, launches, _ = services.store.whole(step.run_id)
    launch = launches[-1]
    decision = launch.decision or _decide(run, launches, services)
    said: dict[str, str] = {"decision": decision.kind}
    if launch.failure:
        said["class"] = launch.failure.failure_class
    logger.info(f"decided: {_said(decision)}", extra=said)
    if decision.kind is DecisionKind.GIVE_UP:
        return step.to(State.GIVE_UP)
    if turns(launches, step.execution_arn) >= services.env.continue_after_turns:
        return step.to(State.CONTINUE_AS_NEW)  # its Decide follows the decision that is stored
    if decision.kind is DecisionKind.WAIT:
        cause = launch.failure.cause if launch.failure else decision.reason
        return step.to(
            State.WAIT_FOR_ROOM,
            wait_seconds=max(1, seconds_left(run, services.clock())),
            hold_seconds=decision.wait_seconds,
            message=cause,
        )
    if decision.wait_seconds:
        return step.later(decision.wait_seconds, State.CHECK_QUOTA)
    return step.to(State.CHECK_QUOTA)


def _decide(run: Run, launches: list[Launch], services: Services) -> Decision:
    launch = launches[-1]
    if launch.failure is None:
        raise NotClassified(f"launch {launch.launch} of run {run.run_id}")
    history = History(
        launches=[x for x in launches if x.launch > run.attempts_reset_at_launch],
        waited_seconds=run.waited_seconds,
        spend=spend_of_run(run, launches, services.env.prices_usd, services.clock()),
        now=services.clock(),
        created_epoch=run.created_epoch,
    )
    decision = decide(run.spec, launch.failure, history, services.draw)
    if decision.kind not in (DecisionKind.GIVE_UP, DecisionKind.WAIT):
        services.notifier.send(run, "retry", _said(decision), launches, launch.failure)
    warm = decision.rung is Rung.WARM_HOSTS
    if not warm and decision.kind is not DecisionKind.GIVE_UP and has_pool(run.spec, launch):
        services.jobs.end_warm_pool(launch.job_name)  # it bills on, and may be what is ill
    if not services.store.update(launch, decision=decision, absent=["decision"]):
        return services.store.launch(run.run_id, launch.launch).decision or decision
    services.figures.ended(ATTEMPTS, run, launch.failure.failure_class)
    return decision


def _said(decision: Decision) -> str:
    kind = decision.kind.replace("_", " ")
    when = f", in {decision.wait_seconds} s" if decision.wait_seconds else ""
    return f"{kind}{when}: {decision.reason}"


handler = state_handler(Step, act)
