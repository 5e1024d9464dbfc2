"""Room for a run under the account's quotas: asked by CheckQuota, and by the watchdog for those that wait."""

from everstep.contracts.records import Run
from everstep.policy.quota import Verdict, best, judge, needs_of
from lambdas.aws.quotas import Quotas


def room_for(run: Run, quotas: Quotas) -> Verdict:
    values, used = quotas.values(), quotas.in_use()
    return best([judge(needs_of(run.spec, t), values, used) for t in run.spec.compute])


def seconds_left(run: Run, now: float) -> int:
    """Of the spec's deadline for waiting, over the whole run, a wait under way included."""
    waiting = now - run.waiting.since_epoch if run.waiting else 0.0
    return int(run.spec.retry.wait_deadline_hours * 3600 - run.waited_seconds - waiting)
