"""One look at a running job: fold in what is new, remember it, judge it."""

from everstep.contracts.events import TERMINAL_JOB_STATUSES
from everstep.contracts.records import Launch, Run
from everstep.policy.watchdog import (
    RESTARTS,
    Seen,
    Verdict,
    judge,
    observe,
    quiet_since,
    silent,
    straggles,
)
from lambdas.aws.jobs import Job
from lambdas.aws.purse import watch_budget
from lambdas.aws.services import Services


def known(launch: Launch) -> Seen:
    return Seen(**{name: getattr(launch, name) for name in Seen.model_fields})


def look(run: Run, launch: Launch, job: Job, services: Services) -> Verdict:
    """Safe to run from two handlers at once: what both read from the log is the same."""
    if launch.export:
        return Verdict()  # it does not step; its run time is its only budget, SageMaker's to keep
    watch, now = run.spec.watch, services.clock()
    before = known(launch)
    since = launch.progress_epoch or job.secondary_since
    seen = observe(
        before,
        job.secondary_status,
        job.secondary_since,
        services.logs.progress(launch.job_name, since),
        restarts=sum(status in RESTARTS for status in job.outcome.transitions),
        slow_from=watch.straggler_ratio,
    )
    started = job.outcome.started_epoch
    news = {
        name: value
        for name, value in [("started_epoch", started), *((n, getattr(seen, n)) for n in _NAMES)]
        if value != getattr(launch, name)
    }
    if news:
        services.store.update(launch, **news)
    on_fsx = "fsx" in (run.spec.data.mode, run.spec.checkpoint.storage)
    file_system = run.team.file_system_id if on_fsx else None
    verdict = judge(watch, job.status, seen, now, file_system)
    if verdict.stop is not None or job.status in (*TERMINAL_JOB_STATUSES, "Stopping"):
        return verdict
    at_limit = watch_budget(run, launch.model_copy(update=news), services)
    if at_limit is not None:
        return at_limit
    quiet = quiet_since(watch, seen, now)
    if quiet is not None and not services.logs.any_line(launch.job_name, quiet):
        return silent(watch, seen)
    if launch.straggler_stops < run.spec.retry.straggler_restarts:
        return straggles(watch, seen) or verdict
    return verdict


_NAMES = tuple(Seen.model_fields)
