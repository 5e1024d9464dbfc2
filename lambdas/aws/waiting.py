"""Token first, job second: what LaunchAttempt and ExportModel do alike. Safe to run again."""

from collections.abc import Callable
from typing import Any

from everstep.contracts.records import Launch
from lambdas.aws.jobs import NOT_CREATED, LaunchRefused
from lambdas.aws.services import Services


class FormerJobRunning(Exception):
    """A job of before is not terminal yet: Step Functions asks again."""


def make_and_wait(
    launch: Launch, token: str, request: Callable[[], dict[str, Any]], services: Services
) -> None:
    """Leave the token where the watchdog finds it, and make the job if no one has."""
    store, jobs = services.store, services.jobs
    store.update(launch, task_token=token)
    new = False
    if launch.outcome is None and not launch.created:
        new = jobs.create(launch, request())
        if not store.update(launch, created=True, absent=["outcome"]):
            # Written off in between by someone who saw no job: there is one, and it costs money.
            store.update(launch, created=True, outcome=None, settled_epoch=None, active=True)
    elif launch.outcome is not None and launch.outcome.status == NOT_CREATED:
        raise LaunchRefused(launch.outcome.failure_reason)  # as an earlier invocation found
    # One that is made only now tells its end by an event: the token is there already.
    job = None if new else jobs.describe(launch.job_name)
    if job is not None:
        jobs.settle(launch, job)


def settle_first(launch: Launch, services: Services) -> None:
    """Raises ``FormerJobRunning`` while this one's job may still write."""
    if launch.outcome is None:
        job = services.jobs.of(launch)
        if job is not None and not services.jobs.settle(launch, job):
            raise FormerJobRunning(launch.job_name)
