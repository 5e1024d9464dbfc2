"""watchdog: each minute, a look at what may still change by itself. One ill run hides no other."""

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

from lambdas.aws.own_lustre import delete_orphans
from lambdas.aws.patrol import (
    Stepping,
    look_at_increase,
    look_at_launch,
    look_at_waiting,
    stop_idle,
)
from lambdas.aws.services import Services, logger, services


class WatchdogErrors(Exception):
    """Raised after the pass, so that the alarm on this function's errors sees it."""


class Look(NamedTuple):
    name: str
    take: Callable[[], Stepping | None]


class Pass:
    """Looks of one kind are taken at once, ``at_once`` of them; kinds one after another, since an
    increase that was granted lets a run go on in the same pass."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self.failed: list[str] = []
        self.stepping: list[Stepping] = []

    def take(self, looks: Iterable[Look]) -> int:
        """How many there were. No more are begun than are looked at, so that what ends this
        process (not an ``Exception``) ends the pass with it."""
        count, going = 0, dict[Future[Stepping | None], str]()
        with ThreadPoolExecutor(self._at_once, thread_name_prefix="look") as pool:
            for look in looks:
                count += 1
                if len(going) >= self._at_once:
                    self._collect(going, wait(going, return_when=FIRST_COMPLETED).done)
                going[pool.submit(look.take)] = look.name
            self._collect(going, wait(going).done)
        return count

    def _collect(
        self, going: dict[Future[Stepping | None], str], done: set[Future[Stepping | None]]
    ) -> None:
        for future in done:
            name = going.pop(future)
            try:
                found = future.result()
            except Exception as error:  # noqa: BLE001 - raised below; the others still get a look
                logger.exception("one run could not be looked at", item=name)
                self.failed.append(f"{name}: {error!r}")
            else:
                self.stepping.extend([found] if found else [])


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
