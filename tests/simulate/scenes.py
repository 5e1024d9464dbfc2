"""Scenarios in which nothing takes time but what a test gives."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from everstep.simulate.draws import strikes
from everstep.simulate.inputs import Rates, load_inputs
from everstep.simulate.policies import Everstep, Make
from everstep.simulate.production import Production
from everstep.simulate.run import PROVISION, Tally
from everstep.simulate.scenario import Scenario, default_spec, scenario

PROVISIONS = [*sorted(set(PROVISION.values())), "provision_warm_spare", "provision_hot_spare"]


def bare(nodes: int, days: float, rates: Rates | None = None, **inputs: float) -> Scenario:
    """Every input zero but those given; no backoff."""
    found = scenario(nodes, days)
    spec = default_spec(nodes)
    retry = spec.retry.model_copy(update={"backoff_seconds": 0.0})
    nothing = dict.fromkeys(load_inputs(), 0.0)
    found = replace(found, spec=spec.model_copy(update={"retry": retry}))
    found = found.setting(**{**nothing, "step": 1.0, **inputs})
    return found if rates is None else replace(found, rates=rates)


def only(fault: str, mtbf: float) -> Rates:
    """One kind of failure; ``mtbf`` seconds of one node."""
    return Rates("test", "test", {fault: 1 / mtbf})


def runs(given: Scenario, seeds: int, make: Make = Everstep) -> list[Tally]:
    asked = Production(given.spec, given.inputs["step"].mean)
    return [make(given, strikes(given, i), asked).simulate() for i in range(seeds)]


def goodput(given: Scenario, found: Sequence[Tally]) -> float:
    return fmean(x.parts["useful"] for x in found) / given.horizon
