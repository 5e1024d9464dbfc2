"""A run's figures as metrics."""

from collections.abc import Mapping

from everstep.contracts.metrics import (
    BUDGET_USED,
    GOODPUT,
    SPENT_GPU_HOURS,
    SPENT_USD,
    Metric,
)
from everstep.contracts.records import Run
from everstep.policy.cost import Spend, used


def of_run(
    run: Run, spend: Spend, goodput: float | None, now: float
) -> Mapping[Metric, float | None]:
    """``goodput``: 0 to 1. None is what is not known, and is not emitted."""
    nearest = max(
        (one.share for one in used(run.spec.budget, spend, now, run.created_epoch)), default=None
    )
    return {
        GOODPUT: None if goodput is None else 100 * goodput,
        SPENT_USD: spend.usd,
        SPENT_GPU_HOURS: spend.gpu_hours,
        BUDGET_USED: None if nearest is None else 100 * nearest,
    }
