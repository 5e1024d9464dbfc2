"""Room for a run under the account's quotas, and the end of a wait for it."""

from everstep.contracts.records import Run, RunStatus
from everstep.policy.quota import Verdict, best, judge, needs_of
from lambdas.aws.quotas import Quotas
from lambdas.aws.store import Store


def room_for(run: Run, quotas: Quotas) -> Verdict:
    values, used = quotas.values(), quotas.in_use()
    return best([judge(needs_of(run.spec, t), values, used) for t in run.spec.compute])


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
