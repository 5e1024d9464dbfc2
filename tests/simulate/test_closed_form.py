"""What is simulated against what can be calculated."""

from dataclasses import replace

import pytest

from everstep.policy.checkpoint_interval import optimum
from everstep.simulate.closed_form import expected_goodput, young
from everstep.simulate.inputs import DAY
from everstep.simulate.scenario import Scenario
from everstep.simulate.study import _peak
from tests.simulate.scenes import bare, goodput, only, runs

CASES = [
    # interval, stall, restart, mtbf
    (1000.0, 60.0, 300.0, 11_136.0),
    (3600.0, 10.0, 1200.0, 20_000.0),
    (500.0, 120.0, 900.0, 5_000.0),
    (374.0, 6.3, 1800.0, 10_000.0),
    (7200.0, 300.0, 60.0, 14_400.0),
]


SEEDS = 2


def broken_every(mtbf: float, **inputs: float) -> Scenario:
    """For so long that a seed sees 7,500 failures: half a percent of what they cost."""
    return bare(1, 7500 * mtbf / DAY, only("host_maintenance_unplanned", mtbf), **inputs)


@pytest.mark.parametrize(("interval", "stall", "restart", "mtbf"), CASES)
def test_goodput_is_dalys_within_one_percent(
    interval: float, stall: float, restart: float, mtbf: float
) -> None:
    """Failures strike restarts and saves too; the restart is one number."""
    scene = broken_every(mtbf, load=restart, stall=stall)
    found = goodput(scene, runs(replace(scene, interval=interval), SEEDS))
    assert found == pytest.approx(expected_goodput(interval, stall, restart, mtbf), rel=0.01)


def test_best_interval_is_dalys() -> None:
    """The optimum is flat: the place is found within 15 %, its goodput within 1 %."""
    stall, restart, mtbf = 60.0, 300.0, 10_000.0
    best = optimum(stall, mtbf)
    scene = broken_every(mtbf, load=restart, stall=stall)
    curve = []
    for factor in (0.4, 0.65, 1.0, 1.55, 2.5):
        one = replace(scene, interval=factor * best)
        curve.append((one.interval, goodput(one, runs(one, SEEDS))))
    assert _peak(curve) == pytest.approx(best, rel=0.15)
    assert max(y for _, y in curve) == pytest.approx(
        expected_goodput(best, stall, restart, mtbf), rel=0.01
    )
    assert curve[0][1] < curve[2][1] > curve[-1][1]


def test_young_is_daly_for_a_small_stall() -> None:
    assert young(1.0, 1e6) == pytest.approx(optimum(1.0, 1e6), rel=0.001)


def test_work_that_is_not_safe_yet_is_lost_too() -> None:
    """Each failure costs the background write beside half an interval."""
    mtbf, interval, durable = 20_000.0, 1000.0, 400.0
    scene = broken_every(mtbf)
    at_once = goodput(scene, runs(replace(scene, interval=interval), SEEDS))
    later = scene.setting(durable=durable)
    lost = at_once - goodput(later, runs(replace(later, interval=interval), SEEDS))
    assert lost == pytest.approx(durable / mtbf, rel=0.1)


def test_without_failures_only_saves_cost() -> None:
    scene = replace(bare(1, 10, only("host_maintenance_unplanned", 1e18), stall=100), interval=900)
    [tally] = runs(scene, 1)
    assert tally.parts["useful"] / scene.horizon == pytest.approx(0.9, rel=0.01)
    assert expected_goodput(900, 100, 0, float("inf")) == 0.9
