"""watchdog: each minute, a look at what may still change by itself. One ill run hides no other."""

from typing import Any

from lambdas.aws.own_lustre import delete_orphans
from lambdas.aws.passes import Look, Pass
from lambdas.aws.patrol import look_at_increase, look_at_launch, look_at_waiting, stop_idle
from lambdas.aws.services import Services, logger, services


class WatchdogErrors(Exception):
    """Raised after the pass, so that the alarm on this function's errors sees it."""


def act(services: Services) -> dict[str, int]:
    services.ready()  # clients are safe to share, and not to make, among threads
    todo, active = Pass(services.env.looks_at_once), services.store.active
    counts = {
        "launches": todo.take(
            Look(f"{run} {item}", lambda r=run, i=item: look_at_launch(r, i, services))  # type: ignore[misc]
            for run, item in active("launch")
        ),
        "increases": todo.take(
            Look(f"{key} {item}", lambda k=key: look_at_increase(k, services))  # type: ignore[misc]
            for key, item in active("increase")
        ),
        "waiting": todo.take(
            Look(f"{run} {item}", lambda r=run, i=item: look_at_waiting(r, i, services))  # type: ignore[misc]
            for run, item in active("waiting")
        ),
    }
    if services.env.run_file_systems:
        todo.take([Look("file systems", lambda: delete_orphans(services))])
    if stepping := sorted(todo.stepping, key=lambda found: found.launch.job_name):
        todo.take([Look("GPU metrics", lambda: stop_idle(stepping, services))])
    if todo.failed:
        raise WatchdogErrors("; ".join(sorted(todo.failed)))
    return counts


def handler(event: dict[str, Any], context: Any) -> dict[str, int]:
    counts = act(services())
    logger.info(counts)
    return counts
