"""What must hold of any scenario."""

from dataclasses import replace
from heapq import merge
from math import sqrt
from statistics import fmean, stdev

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everstep.simulate.draws import strikes
from everstep.simulate.inputs import Rates, load_rates, rate_names
from everstep.simulate.policies import ByHand, Everstep, Make, Oracle, RetryStrategy
from everstep.simulate.production import Production
from everstep.simulate.run import Tally
from everstep.simulate.scenario import Scenario, Spares, default_spec, scenario
from tests.simulate.scenes import runs

POLICIES: list[Make] = [ByHand, RetryStrategy, Everstep]
unhurried = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def scenes(draw: st.DrawFn) -> Scenario:
    nodes = draw(st.sampled_from([1, 16, 256, 1024]))
    spot = draw(st.booleans())
    found = scenario(nodes, draw(st.floats(0.5, 8)), spot=spot)
    spec = found.spec
    retry = {
        "max_attempts": draw(st.sampled_from([1, 5, 20, 1000])),
        "no_progress_limit": draw(st.integers(1, 5)),
        "service_restarts": draw(st.sampled_from([0, 2])),
        "straggler_restarts": draw(st.integers(0, 3)),
    }
    stop = {"max_runtime_hours": draw(st.sampled_from([1.0, 24.0, 120.0]))}
    update = {
        "retry": spec.retry.model_copy(update=retry),
        "stop": spec.stop.model_copy(update=stop),
    }
    if draw(st.booleans()):
        other = default_spec(nodes, "ml.p5e.48xlarge").compute
        update["compute"] = [*spec.compute, *other]
    rates = load_rates(draw(st.sampled_from([*rate_names(), "40"])))
    found = replace(
        found,
        spec=spec.model_copy(update=update),
        rates=rates.scaled(draw(st.sampled_from([0.1, 1.0, 3.0]))),
        interval=draw(st.floats(1, 20_000)),
        seed=draw(st.integers(0, 10_000)),
        spares=draw(st.sampled_from(list(Spares))),
        burn_in=draw(st.booleans()),
    )
    shares = st.sampled_from([0.0, 0.1, 0.3])
    return found.setting(
        stall=draw(st.floats(0, 300)),
        durable=draw(st.floats(0, 600)),
        share_hang=draw(shares),
        share_slow=draw(shares),
        share_nan=draw(shares),
        share_frozen=draw(st.floats(0, 1)),
        share_stays=draw(st.floats(0, 1)),
        share_no_capacity=draw(st.floats(0, 1)),
    )


@given(scenes())
@unhurried
def test_parts_are_all_of_the_time(scene: Scenario) -> None:
    for make in (*POLICIES, Oracle):
        [tally] = runs(scene, 1, make)
        assert sum(tally.parts.values()) == pytest.approx(scene.horizon, rel=1e-9)
        assert min(tally.parts.values()) >= 0


@given(scenes())
@unhurried
def test_no_policy_beats_the_oracle(scene: Scenario) -> None:
    """Run by run, not in the mean: all meet the same failures."""
    fate = strikes(scene, 0)
    asked = Production(scene.spec, scene.inputs["step"].mean)
    best = Oracle(scene, fate, asked).simulate().parts["useful"]
    for make in POLICIES:
        assert make(scene, fate, asked).simulate().parts["useful"] <= best + 1e-6


@given(scenes())
@settings(unhurried, max_examples=10)
def test_a_seed_is_a_run(scene: Scenario) -> None:
    """Twice the same, also where the policy has been asked before in another order."""
    first = runs(scene, 3)
    asked = Production(scene.spec, scene.inputs["step"].mean)
    again: list[Tally] = [
        Everstep(scene, strikes(scene, i), asked).simulate() for i in reversed(range(3))
    ]
    assert first == again[::-1]


def test_seeds_differ() -> None:
    scene = scenario(1024, 20)
    assert len({x.parts["useful"] for x in runs(scene, 5)}) == 5
    other = replace(scene, seed=1)
    assert runs(scene, 1) != runs(other, 1)


PAIRS = 8


def further(scene: Scenario, factor: float) -> Scenario:
    """``factor`` times as many failures, from another seed, to be met beside the scene's own.
    Planned stops are none: they save first, so that more of them are more saves. Nor are reclaims,
    whose warning is used for the same."""
    rates = {x: r for x, r in scene.rates.per_node_second.items() if x != "planned"}
    on_demand = [x.model_copy(update={"purchase": "on_demand"}) for x in scene.spec.compute]
    return replace(
        scene,
        spec=scene.spec.model_copy(update={"compute": on_demand}),
        rates=Rates("further", "test", rates).scaled(factor),
        seed=scene.seed + 1_000_000,
    )


def gains(scene: Scenario, factor: float, make: Make) -> list[float]:
    """What further failures bring, run by run, in shares of the horizon. Each run meets again what
    it met without them, at the same time: Poisson processes add up. Rates that are only scaled move
    every failure to another time, and differences of unlike runs are mostly chance."""
    asked, more = Production(scene.spec, scene.inputs["step"].mean), further(scene, factor)
    found = []
    for i in range(PAIRS):
        fate = strikes(scene, i)
        both = list(merge(fate, strikes(more, i), key=lambda x: x.at))
        few, many = (make(scene, x, asked).simulate().parts["useful"] for x in (fate, both))
        found.append((many - few) / scene.horizon)
    return found


@given(scenes(), st.sampled_from([1.0, 3.0]))
@settings(unhurried, max_examples=8)
def test_more_failures_less_goodput(scene: Scenario, factor: float) -> None:
    """In the mean of pairs; a single run may be lucky: a failure that comes just before a limit of
    the job's run time, or that moves the run off a slow host, saves more than it costs."""
    scene = replace(scene, days=8.0, rates=load_rates("llama3"), burn_in=False)
    saves = scene.interval + 2 * scene.inputs["stall"].mean + scene.inputs["durable"].mean
    for make in (*POLICIES, Oracle):
        if make in (ByHand, RetryStrategy) and saves > scene.spec.stop.max_runtime_hours * 3600:
            continue  # a job ends before its first save, and nothing at its end saves for them
        found = gains(scene, factor, make)
        doubt = stdev(found) / sqrt(PAIRS)
        assert fmean(found) <= 4 * doubt, (make, found)


@pytest.mark.parametrize("make", [*POLICIES, Oracle])
def test_more_failures_cost_what_is_more_than_chance(make: Make) -> None:
    """The bound above is one that bites: far on its other side where failures are many."""
    found = gains(scenario(1024, 8), 1.0, make)
    assert fmean(found) < -4 * stdev(found) / sqrt(PAIRS)


@pytest.mark.parametrize("name", ["load", "provision_new_hosts", "stall", "person", "durable"])
def test_what_takes_longer_costs(name: str) -> None:
    scene = replace(scenario(2048, 54), interval=900.0)
    few = fmean(x.parts["useful"] for x in runs(scene, 5))
    many = fmean(x.parts["useful"] for x in runs(scene.but(**{name: 3.0}), 5))
    assert many < few


def test_burn_in_doubles_the_first_two_weeks() -> None:
    scene = scenario(2048, 54)
    early = [sum(x.at < 14 * 86_400 for x in strikes(scene, i)) for i in range(20)]
    burnt = [
        sum(x.at < 14 * 86_400 for x in strikes(replace(scene, burn_in=True), i)) for i in range(20)
    ]
    assert fmean(burnt) == pytest.approx(2 * fmean(early), rel=0.05)
    late = [
        sum(x.at > 14 * 86_400 for x in strikes(replace(scene, burn_in=True), i)) for i in range(20)
    ]
    assert fmean(late) == pytest.approx(fmean(early) * 40 / 14, rel=0.05)
