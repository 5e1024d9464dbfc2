"""Against the closed forms, and against brute force over the cost that they minimise."""

from math import exp, sqrt

import pytest

from everstep.policy.checkpoint_interval import (
    DAY,
    LONGEST_SECONDS,
    SHORTEST_SECONDS,
    interval,
    mean_time_between_failures,
    optimum,
)


def test_failures_add_up_over_nodes() -> None:
    assert mean_time_between_failures(1, 0.01) == pytest.approx(100 * DAY)
    # Llama 3: 419 unexpected interruptions in 54 days, one every 3.1 h
    rate = 419 / 54 / 2048
    assert mean_time_between_failures(2048, rate) == pytest.approx(54 * DAY / 419)


def test_a_cheap_save_has_youngs_optimum() -> None:
    assert optimum(1.0, 1e6) == pytest.approx(sqrt(2 * 1.0 * 1e6), rel=2e-3)


def test_a_save_dearer_than_the_time_between_failures_is_made_once_in_it() -> None:
    assert optimum(250.0, 100.0) == 100.0


@pytest.mark.parametrize(("cost", "mtbf"), [(1.0, 10_800.0), (60.0, 10_800.0), (300.0, 3600.0)])
def test_no_other_interval_is_expected_to_take_less_time(cost: float, mtbf: float) -> None:
    """Daly's eq. 13 without restart time: M e^{0} (e^{(τ+C)/M} − 1) / τ for a second of work."""

    def expected(work: float) -> float:
        return mtbf * (exp((work + cost) / mtbf) - 1) / work

    best = min(expected(work / 100 * mtbf) for work in range(1, 300))
    assert expected(optimum(cost, mtbf)) <= best * 1.0005


def test_the_interval_has_bounds() -> None:
    assert interval(0.0, 90.0, 1e6) == 90.0, "not before the former one is durable"
    assert interval(60.0, 90.0, 1e9) == LONGEST_SECONDS == 3600
    assert interval(0.001, 0.5, 5000.0) == SHORTEST_SECONDS == 60
    assert interval(10.0, 20.0, 10_000.0) == pytest.approx(optimum(10.0, 10_000.0) + 10.0)
