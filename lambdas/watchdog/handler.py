"""watchdog: each minute, a look at what may still change by itself. One ill run hides no other."""

from collections.abc import Callable
from typing import Any

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


def act(services: Services) -> dict[str, int]:
    failed: list[str] = []
    counts = {"launches": 0, "increases": 0, "waiting": 0}
    stepping: list[Stepping] = []

    def each(name: str, one: Callable[[], Stepping | None]) -> None:
        try:
            found = one()
        except Exception as error:  # noqa: BLE001 - raised below; the others still get a look
            logger.exception("one run could not be looked at", item=name)
            failed.append(f"{name}: {error!r}")
        else:
            stepping.extend([found] if found else [])

    for run_id, item in services.store.active("launch"):
        counts["launches"] += 1
        each(f"{run_id} {item}", lambda r=run_id, i=item: look_at_launch(r, i, services))  # type: ignore[misc]
    for key, item in services.store.active("increase"):
        counts["increases"] += 1
        each(f"{key} {item}", lambda k=key: look_at_increase(k, services))  # type: ignore[misc]
    for run_id, item in services.store.active("waiting"):
        counts["waiting"] += 1
        each(f"{run_id} {item}", lambda r=run_id, i=item: look_at_waiting(r, i, services))  # type: ignore[misc]
    if stepping:
        each("GPU metrics", lambda: stop_idle(stepping, services))
    if failed:
        raise WatchdogErrors("; ".join(failed))
    return counts


def handler(event: dict[str, Any], context: Any) -> dict[str, int]:
    counts = act(services())
    logger.info(counts)
    return counts
