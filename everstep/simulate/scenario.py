"""What is simulated: a spec on so many hosts, for so long, with these rates and inputs."""

from dataclasses import dataclass, replace
from enum import StrEnum

from everstep.contracts.instances import INSTANCE_TYPES
from everstep.contracts.run_spec import RunSpec
from everstep.policy.checkpoint_interval import (
    FAILURES_PER_NODE_DAY,
    interval,
    mean_time_between_failures,
)
from everstep.simulate.inputs import DAY, Inputs, Rates, given, load_inputs, load_rates

MONTH = 30.44 * DAY
MOST_FAILURES = 100_000
"""A run; more take gigabytes, and leave no time to train."""


class Spares(StrEnum):
    """Hosts beside the job that take a failed one's place. ``policy.ladder`` has no rung for them:
    a restart on new hosts takes their time instead."""

    NONE = "none"
    WARM = "warm"
    """Booted; the job starts again on them."""
    HOT = "hot"
    """Inside the job; the worker group starts again."""


@dataclass(frozen=True)
class Scenario:
    """``interval``: seconds of training between two saves."""

    spec: RunSpec
    days: float
    rates: Rates
    inputs: Inputs
    interval: float
    seeds: int = 200
    seed: int = 0
    spares: Spares = Spares.NONE
    burn_in: bool = False
    """Twice the failures in the first two weeks."""

    @property
    def nodes(self) -> int:
        return self.spec.compute[0].nodes

    @property
    def gpus(self) -> int:
        return self.nodes * INSTANCE_TYPES[self.spec.compute[0].instance_type].processes

    @property
    def spot(self) -> bool:
        return self.spec.compute[0].purchase == "spot"

    @property
    def horizon(self) -> float:
        return self.days * DAY

    @property
    def all_rates(self) -> Rates:
        """With spot reclaims, where there are any."""
        if not self.spot:
            return self.rates
        monthly = self.inputs["spot_reclaims_per_node_month"].mean
        return self.rates.plus("spot_reclaim", monthly / MONTH)

    @property
    def failures(self) -> float:
        """That a run meets at most, hosts held all the time; in the mean."""
        early = 2.0 if self.burn_in else 1.0
        return self.all_rates.total * self.nodes * self.horizon * early

    @property
    def mtbf(self) -> float:
        """Seconds between two unplanned interruptions of the job, hosts held."""
        rates = self.all_rates
        unplanned = rates.total - rates.per_node_second.get("planned", 0.0)
        return 1 / (unplanned * self.nodes) if unplanned else float("inf")

    def but(self, **inputs: float) -> "Scenario":
        """With these inputs scaled by a factor each."""
        scaled = {name: self.inputs[name].scaled(factor) for name, factor in inputs.items()}
        return replace(self, inputs={**self.inputs, **scaled})

    def setting(self, **inputs: float) -> "Scenario":
        """With these inputs at a value each."""
        values = {name: given(value) for name, value in inputs.items()}
        return replace(self, inputs={**self.inputs, **values})


def interval_of(spec: RunSpec, inputs: Inputs) -> float:
    """Training between two saves as the trainer makes them: every so many steps, else every so
    many minutes, else by the policy's own arithmetic."""
    checkpoint = spec.checkpoint
    if checkpoint.every_steps is not None:
        return checkpoint.every_steps * inputs["step"].mean
    if checkpoint.every_minutes is None:
        rate = checkpoint.failures_per_node_day or FAILURES_PER_NODE_DAY
        mtbf = mean_time_between_failures(spec.compute[0].nodes, rate)
        stall = inputs["stall"].mean
        return interval(stall, inputs["durable"].mean, mtbf) - stall
    return 60 * checkpoint.every_minutes


def with_measured_interval(scenario: "Scenario") -> "Scenario":
    """The same run without an interval given."""
    no_interval = {"every_steps": None, "every_minutes": None}
    auto = scenario.spec.checkpoint.model_copy(update=no_interval)
    spec = scenario.spec.model_copy(update={"checkpoint": auto})
    return replace(scenario, interval=interval_of(spec, scenario.inputs))


def default_spec(
    nodes: int, instance_type: str = "ml.p5.48xlarge", *, spot: bool = False, bare: bool = False
) -> RunSpec:
    """RunSpec's defaults, but (unless ``bare``) a warm pool as in examples/."""
    target = {"instance_type": instance_type, "nodes": nodes}
    raw = {"model": "llama3-70b", "data": "datasets/any", "stop": {"steps": 1}}
    if bare:
        return RunSpec.model_validate({**raw, "compute": [target]})
    more = {"purchase": "spot"} if spot else {"warm_pool_seconds": 1800}
    return RunSpec.model_validate({**raw, "compute": [{**target, **more}]})


def scenario(
    nodes: int, days: float = 54, rates: str = "llama3", seeds: int = 200, *, spot: bool = False
) -> Scenario:
    """The defaults, for tests and benchmarks."""
    spec, inputs = default_spec(nodes, spot=spot), load_inputs()
    return Scenario(
        spec=spec,
        days=days,
        rates=load_rates(rates),
        inputs=inputs,
        interval=interval_of(spec, inputs),
        seeds=seeds,
    )
