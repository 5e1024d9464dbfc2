"""One look at a running job: fold in what is new, remember it, judge it."""

from everstep.contracts.records import Launch, Run
from everstep.policy.watchdog import Seen, Verdict, judge, observe
from lambdas.aws.jobs import Job
from lambdas.aws.services import Services

_FIELDS = ("phase", "phase_since_epoch", "last_step", "first_step_epoch", "progress_epoch")


def look(run: Run, launch: Launch, job: Job, services: Services) -> Verdict:
    """Safe to run from two handlers at once: what both read from the log is the same."""
    if launch.export:
        return (
            Verdict()
        )  # it does not step: its run time is its only budget, and SageMaker's to keep
    known = Seen(**{name: getattr(launch, name) for name in _FIELDS})
    since = launch.progress_epoch or job.secondary_since
    lines = services.logs.progress(launch.job_name, since)
    seen = observe(known, job.secondary_status, job.secondary_since, lines)
    if seen != known:
        services.store.update(launch, **{name: getattr(seen, name) for name in _FIELDS})
    return judge(run.spec.watch, job.status, seen, services.clock())
