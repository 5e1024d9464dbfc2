"""What a run has cost so far, from what its jobs were billed."""

from collections.abc import Iterable, Mapping

from pydantic import BaseModel, ConfigDict

from everstep.contracts.instances import INSTANCE_TYPES
from everstep.contracts.records import Launch
from everstep.contracts.run_spec import Budget


class Spend(BaseModel):
    """Hours of accelerators (of instances on CPU types) and on-demand USD."""

    model_config = ConfigDict(frozen=True)

    gpu_hours: float = 0.0
    usd: float | None = None
    """None where config has no price for a type that was used: unknown is not zero."""

    def over(self, budget: Budget) -> str | None:
        """Which limit is reached, in words."""
        if budget.max_gpu_hours is not None and self.gpu_hours >= budget.max_gpu_hours:
            return f"{self.gpu_hours:.1f} GPU hours of {budget.max_gpu_hours:g} are spent"
        if budget.max_usd is not None and self.usd is not None and self.usd >= budget.max_usd:
            return f"{self.usd:.2f} USD of {budget.max_usd:g} are spent"
        return None

    def __str__(self) -> str:
        money = "price unknown" if self.usd is None else f"about {self.usd:.2f} USD on demand"
        return f"{self.gpu_hours:.2f} GPU hours, {money}"


def spend_of(launches: Iterable[Launch], prices_usd: Mapping[str, float]) -> Spend:
    """Sum over jobs that have ended. Billable seconds are SageMaker's own figure."""
    gpu_hours, usd, known = 0.0, 0.0, True
    for launch in launches:
        seconds = launch.outcome.billable_seconds if launch.outcome else 0
        if not seconds:
            continue
        instance_hours = seconds / 3600 * launch.nodes
        kind = INSTANCE_TYPES.get(launch.instance_type)
        gpu_hours += instance_hours * (kind.processes if kind else 1)
        price = prices_usd.get(launch.instance_type)
        known = known and price is not None
        usd += instance_hours * (price or 0.0)
    return Spend(gpu_hours=gpu_hours, usd=usd if known else None)
