"""quota_report: each day, quotas against the runs in the table. Silent when nothing is short."""

from typing import Any

from everstep.policy.quota_report import Report, headroom_of, report, rows_of
from lambdas.aws.services import Services, logger, services


def act(services: Services, *, always: bool = False) -> Report:
    store = services.store
    waiting = frozenset(run_id for run_id, _ in store.active("waiting"))
    ids = sorted(waiting | {run_id for run_id, _ in store.active("launch")})
    keys = [key for key, _ in store.active("increase")]
    increases = [i for key in keys if (i := services.increases.by_key(key)) and i.open]
    services.quotas.forget()  # read once a day: today's
    runs = [run for run_id in ids if (run := store.find_run(run_id))]
    rows = rows_of(runs, waiting, services.quotas.held(), services.quotas.in_use())
    services.figures.headroom(headroom_of(rows))
    made = report(rows, increases, len(runs), len(waiting))
    if made.worth_saying or always:
        services.notifier.tell(made.subject, made.text)
    return made


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """``{"always": true}`` sends the report whatever it says."""
    made = act(services(), always=bool(event.get("always")))
    logger.info({"short": made.short, "requests": made.requests})
    return made.model_dump()
