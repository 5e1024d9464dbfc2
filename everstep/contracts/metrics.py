"""Metrics that handlers emit and dashboards draw: one table, so that neither invents one.

CloudWatch makes them out of lines in the handlers' logs (embedded metric format): no call of an
API, no right to grant. What the trainer says of itself is in ``progress.METRICS``.
"""

from typing import NamedTuple

from everstep.contracts.failures import FailureClass

TEAM, RUN, ENDING, QUOTA = "Team", "Run", "Ending", "Quota"
DONE = "done"
"""The ``Ending`` of what arrived; of anything else it is the failure class."""


class Metric(NamedTuple):
    name: str
    unit: str
    """One of CloudWatch's."""
    dimensions: tuple[str, ...]


GOODPUT = Metric("Goodput", "Percent", (TEAM, RUN))
"""Useful step time ÷ time paid for, since the run began. See ``policy.goodput``: an estimate while
the run goes on, step by step once it has ended."""
SPENT_USD = Metric("SpentUsd", "None", (TEAM, RUN))
"""On demand, since the run began. Absent where config has no price."""
SPENT_GPU_HOURS = Metric("SpentGpuHours", "None", (TEAM, RUN))
BUDGET_USED = Metric("BudgetUsed", "Percent", (TEAM, RUN))
"""Of the limit that is nearest: USD, GPU hours or the deadline. Absent without a budget."""
ATTEMPTS = Metric("Attempts", "Count", (TEAM, ENDING))
RUNS = Metric("Runs", "Count", (TEAM, ENDING))
"""Both when they end."""
QUOTA_HEADROOM = Metric("QuotaHeadroom", "Count", (QUOTA,))
"""Held − in use, of each quota that jobs share: as the run that asks sees it, its own warm pool
counted as free. Asked for at each launch, each minute of a wait, and by the daily report."""

ALL = (GOODPUT, SPENT_USD, SPENT_GPU_HOURS, BUDGET_USED, ATTEMPTS, RUNS, QUOTA_HEADROOM)


def ending(failure_class: FailureClass | None) -> str:
    return DONE if failure_class is None else failure_class.value
