"""How full an execution's history is, counted from the run's rows instead of asked for.

Step Functions stops at 25,000 events. A launch with all its states costs about forty, and
at worst, with every call retried to the end, what ``tests/stacks/test_definition.py`` counts.
"""

from collections.abc import Iterable

from everstep.contracts.records import Launch

MOST_PERIODS = 30


def turns(launches: Iterable[Launch], execution_arn: str) -> int:
    return sum(1 + x.inspections for x in launches if x.execution_arn == execution_arn)


def patience(period_seconds: int, rounds: int) -> int:
    """Seconds between two looks at a job whose state fails although the job runs: whatever it is,
    it is not cured by asking faster."""
    return period_seconds * min(1 << min(rounds, 10), MOST_PERIODS)
