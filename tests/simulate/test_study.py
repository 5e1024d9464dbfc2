"""The comparison as a whole."""

from dataclasses import replace
from random import Random

import pytest

from everstep.policy.checkpoint_interval import interval
from everstep.simulate.run import PARTS
from everstep.simulate.scenario import default_spec, interval_of, scenario, with_measured_interval
from everstep.simulate.study import Study, _mean, expected, study

SCENE = replace(scenario(1024, 20, seeds=5), interval=1200.0)


@pytest.fixture(scope="module")
def found() -> Study:
    return study(SCENE, replace(SCENE, spec=default_spec(1024, bare=True)))


def test_one_row_is_the_same_alone(found: Study) -> None:
    assert expected(SCENE) == next(row for row in found.rows if row.name == "Everstep")


def test_a_gap_is_all_accounted_for(found: Study) -> None:
    """What the oracle has more of in useful time, it has less of elsewhere."""
    rows = {row.name: row for row in found.rows}
    for name, gap in found.gaps.items():
        assert sum(gap[part] for part in PARTS) == pytest.approx(0, abs=1e-9)
        spares = name.removeprefix("Everstep, auto")
        oracle = rows.get(f"oracle{spares}", rows["oracle"])
        assert -gap["useful"] == pytest.approx(oracle.goodput - rows[name].goodput)


def test_no_row_and_no_lever_is_there_twice(found: Study) -> None:
    """Saves at the policy's own interval are a row of their own where the spec has another one."""
    names = [row.name for row in found.rows]
    assert "Everstep, auto saves" in names
    measured = with_measured_interval(SCENE)
    same = study(replace(measured, seeds=2))
    assert "Everstep, auto saves" not in [row.name for row in same.rows]
    assert "measured save interval" not in [lever.name for lever in same.levers]


def test_levers_point_the_right_way(found: Study) -> None:
    gains = {lever.name: lever.gain for lever in found.levers}
    assert gains["halve the restart time"] > gains["halve hosts' provisioning alone"] > 0
    assert gains["hot spares"] > gains["warm spares"] > 0
    assert gains["half as many failures"] > 0 > gains["twice as many failures"]
    assert [x.gain for x in found.levers] == sorted(gains.values(), reverse=True)


def test_the_measured_interval_is_the_policys() -> None:
    mtbf = 86_400 / (1024 * 6.5e-3)
    assert with_measured_interval(SCENE).interval == interval(6.3, 148.8, mtbf) - 6.3


def test_saves_are_as_the_spec_says() -> None:
    spec = default_spec(4)
    inputs = SCENE.inputs
    assert interval_of(spec, inputs) == 3600 - 6.3, "four nodes fail so seldom"
    by_steps = spec.checkpoint.model_copy(update={"every_steps": 50, "every_minutes": 5.0})
    assert interval_of(spec.model_copy(update={"checkpoint": by_steps}), inputs) == 500
    by_minutes = spec.checkpoint.model_copy(update={"every_minutes": 5.0})
    assert interval_of(spec.model_copy(update={"checkpoint": by_minutes}), inputs) == 300


@pytest.mark.parametrize("count", [2, 3, 6, 20])
def test_the_confidence_covers_what_it_says(count: int) -> None:
    """Of many small studies 95 % have the true mean within it: the normal's 1.96 would cover 70 %
    of those of two runs."""
    random, studies = Random(count), 4000
    covered = 0
    for _ in range(studies):
        _, low, high = _mean([random.gauss(0.8, 0.02) for _ in range(count)])
        covered += low <= 0.8 <= high
    assert covered / studies == pytest.approx(0.95, abs=0.012)


def test_what_would_close_the_gap_is_among_the_levers(found: Study) -> None:
    """Saves, and noticing, are all that the oracle does not pay beside hosts."""
    gains = {lever.name: lever.gain for lever in found.levers}
    assert gains["saves at no cost"] > gains["halve a save's stall"] > 0
    assert gains["noticed and decided at once"] > gains["halve notice and decision"] > 0
