"""Room for a run under the account's quotas, and the end of a wait for it."""

from itertools import chain

from everstep.contracts.payloads import State
from everstep.contracts.records import Run, RunStatus
from everstep.policy.increase import Move, plan
from everstep.policy.quota import Room, Verdict, best, headroom, judge, needs_of, shortfalls
from lambdas.aws.increases import NotAsked
from lambdas.aws.services import Services
from lambdas.aws.store import Store


def room_for(run: Run, services: Services) -> Verdict:
    values, used = services.quotas.values(), services.quotas.in_use(run.run_id)
    needs = [needs_of(run.spec, target) for target in run.spec.compute]
    services.figures.headroom(headroom(chain.from_iterable(needs), values, used))
    return best([judge(of_target, values, used) for of_target in needs])


def room_or_increase(run: Run, services: Services) -> Verdict:
    """For CheckQuota: never is only said after a fresh look, and after AWS was asked for more where
    the spec allows it."""
    verdict = room_for(run, services)
    if verdict.room is Room.NEVER:
        services.quotas.forget()
        verdict = room_for(run, services)
    if verdict.room is not Room.NEVER:
        return verdict
    refused = []
    for index in range(len(run.spec.compute)):
        raised = _raise(run, index, services)
        if raised.room is Room.WAIT:
            return raised
        refused.append(raised)
    return best(refused)


def _raise(run: Run, index: int, services: Services) -> Verdict:
    """Every quota that is short for one target. Nothing is asked for where one of them is refused:
    the others would be of no use."""
    held = services.quotas.held()
    short = shortfalls(needs_of(run.spec, run.spec.target(index)), services.quotas.values())
    may_ask = run.spec.quota.request_increase
    plans = [
        (n, plan(n, held[n.quota], services.increases.known(held[n.quota].code), may_ask=may_ask))
        for n in short
    ]
    refused = "; ".join(p.reason for _, p in plans if p.move is Move.REFUSE)
    if refused:
        return Verdict(room=Room.NEVER, reason=refused)
    reasons = []
    for need, planned in plans:
        reason = planned.reason
        if planned.move is Move.ASK:
            try:
                made = services.increases.ask(held[need.quota], need.amount, run.run_id)
            except NotAsked as error:
                return Verdict(room=Room.NEVER, reason=f"{reason}; no increase, {error}")
            reason = plan(need, held[need.quota], made, may_ask=False).reason
        reasons.append(reason)
    return Verdict(room=Room.WAIT, reason="; ".join(reasons))


def wakes_to(run: Run, services: Services) -> State | None:
    """For the watchdog: where a waiting run goes on, or None while it has to wait. What can never
    fit goes back to CheckQuota, unless a request is open for all that one target lacks."""
    verdict = room_for(run, services)
    if verdict.room is Room.GO:
        return State.PLAN_ATTEMPT
    if verdict.room is Room.WAIT:
        return None
    held, values = services.quotas.held(), services.quotas.values()
    for target in run.spec.compute:
        codes = [held[n.quota].code for n in shortfalls(needs_of(run.spec, target), values)]
        if all((known := services.increases.known(code)) and known.open for code in codes):
            return None
    return State.CHECK_QUOTA


def seconds_left(run: Run, now: float) -> int:
    """Of the spec's deadline for waiting, over the whole run, a wait under way included."""
    waiting = now - run.waiting.since_epoch if run.waiting else 0.0
    left = run.spec.retry.wait_deadline_hours * 3600 - run.waited_seconds - waiting
    deadline = run.spec.budget.deadline
    return int(left if deadline is None else min(left, deadline.timestamp() - now))


def end_wait(run: Run, store: Store, now: float, status: RunStatus = RunStatus.RUNNING) -> bool:
    """Count the wait and forget it, once: whoever comes second, or after a newer wait, changes
    nothing."""
    if run.waiting is None:
        return False
    return store.update(
        run,
        equal={"waiting": run.waiting},
        waiting=None,
        active=False,
        status=status,
        waited_seconds=run.waited_seconds + max(0.0, now - run.waiting.since_epoch),
    )
