"""Is a run spec refused? ``everstep plan`` and ValidateSpec ask here, so they answer alike.

ValidateSpec asks beside it what a plan tells and goes on (a budget), and what only the cloud knows:
whether the dataset, the weights and the checkpoint to begin from are there, what the team's
environment turns on, and how many hosts its subnets hold.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from everstep.contracts.check import check_spec
from everstep.contracts.problems import Problem
from everstep.contracts.run_spec import RunSpec
from everstep.policy.forecast import host_problems
from everstep.policy.memory import memory_problems
from everstep.policy.own_file_system import PRICE


def verdict(raw: Any) -> tuple[RunSpec | None, list[Problem]]:
    """The spec is given wherever it could be read, refused or not."""
    spec, problems = check_spec(raw)
    if spec is not None:
        problems = [*memory_problems(spec), *host_problems(spec)]
    return spec, problems


def budget_problems(
    spec: RunSpec, prices_usd: Mapping[str, float], now: float
) -> Iterator[Problem]:
    """A limit that could never be reached, or has been already, is refused, not ignored."""
    if spec.budget.max_usd is not None:
        paid = {target.instance_type for target in spec.compute}
        if spec.data.scratch_gib is not None:
            paid.add(PRICE)
        missing = sorted(paid - prices_usd.keys())
        if missing:
            yield Problem(
                path="budget.max_usd",
                value=spec.budget.max_usd,
                message=f"no price is configured for {', '.join(missing)}",
                hint="add it to prices_usd in the environment's config, or use "
                "budget.max_gpu_hours",
            )
    deadline, moment = spec.budget.deadline, datetime.fromtimestamp(now, UTC)
    if deadline is not None and deadline <= moment:
        yield Problem(
            path="budget.deadline",
            value=deadline.isoformat(),
            message="has passed",
            hint=f"it is {moment.isoformat(timespec='seconds')}",
        )
