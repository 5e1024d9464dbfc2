"""What a run's jobs and file systems are tagged with, so that a bill says whose they are."""

from collections.abc import Mapping

from everstep.contracts.events import TAG_EXECUTION, TAG_RUN, TAG_TEAM
from everstep.contracts.records import Run

MOST = 50
"""Of one resource, in SageMaker and in FSx."""


def run_tags(
    run: Run,
    execution_arn: str,
    more: Mapping[str, str] | None = None,
    owners: Mapping[str, str] | None = None,
) -> list[dict[str, str]]:
    """``owners``: instead of the spec's. Where all are too many, the first of these stay.

    The environment's go before them: who pays is not the run's to say.
    """
    fixed = {
        **run.team.tags,
        TAG_EXECUTION: execution_arn,
        TAG_RUN: run.run_id,
        TAG_TEAM: run.team.name,
        **(more or {}),
    }
    given = run.spec.tags if owners is None else owners
    free = [(key, value) for key, value in given.items() if key not in fixed]
    return [
        {"Key": key, "Value": value} for key, value in [*free[: MOST - len(fixed)], *fixed.items()]
    ]
