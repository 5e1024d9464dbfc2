"""Budget: what is spent, what is left, when it is said, when it ends."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everstep.contracts.failures import FailureClass
from everstep.contracts.records import Outcome
from everstep.contracts.run_spec import Budget, Group, RunSpec, Target
from everstep.contracts.training_spec import Data
from everstep.policy.cost import (
    Spend,
    cost_of,
    hours,
    over,
    seconds_left,
    spend_now,
    spend_of,
    warning,
)
from everstep.policy.job_request import runtime_seconds
from everstep.policy.own_file_system import PRICE, spend_an_hour
from everstep.policy.retry import History, decide
from tests.policy.test_retry import K, a_spec, failure_of, launch_of

F = FailureClass
PRICES = {"ml.m5.large": 0.5, "ml.p5.48xlarge": 100.0}
T = 1_800_000_000.0


def budget(**limits: object) -> Budget:
    return Budget.model_validate(limits)


def at(epoch: float) -> str:
    return datetime.fromtimestamp(epoch, UTC).isoformat()


def test_a_deadline_needs_a_time_zone() -> None:
    with pytest.raises(ValueError, match="timezone"):
        budget(deadline="2027-01-31T18:00:00")
    assert budget(deadline="2027-01-31T18:00:00Z").deadline is not None


def test_hours_of_cpu_types_are_the_hosts() -> None:
    gpu = launch_of(1, None).model_copy(update={"instance_type": "ml.p5.48xlarge"})
    cpu = gpu.model_copy(update={"instance_type": "ml.m5.large"})
    assert [hours(x) for x in ([cpu], [cpu, gpu], [gpu], [])] == [
        "host hours", "GPU hours", "GPU hours", "GPU hours",
    ]  # fmt: skip


def test_what_runs_costs_from_its_start_on_all_its_nodes() -> None:
    launch = launch_of(1, None).model_copy(
        update={
            "instance_type": "ml.p5.48xlarge",
            "nodes": 2,
            "spent_gpu_hours": 10.0,
            "spent_usd": 5.0,
            "started_epoch": T,
        }
    )
    assert spend_now(launch, PRICES, T + 1800) == Spend(gpu_hours=18, usd=105)
    assert spend_now(launch, {}, T + 1800).usd is None
    pending = launch.model_copy(update={"started_epoch": None})
    assert spend_now(pending, PRICES, T + 1800) == Spend(gpu_hours=10, usd=5)


def test_every_group_costs_and_shortens_what_a_budget_leaves() -> None:
    group = Group(name="data", instance_type="ml.m5.large", count=4)
    launch = launch_of(1, None).model_copy(
        update={
            "instance_type": "ml.p5.48xlarge",
            "groups": [group],
            "spent_usd": 0.0,
            "started_epoch": T,
        }
    )
    assert spend_now(launch, PRICES, T + 3600) == Spend(gpu_hours=8 + 4, usd=100 + 2)
    target = Target(instance_type="ml.p5.48xlarge", groups=[group])
    left = seconds_left(budget(max_usd=204), Spend(usd=0.0), cost_of(target, 3600, PRICES), T)
    assert left == pytest.approx(2 * 3600)


def test_a_spot_jobs_saving_is_money_not_hours() -> None:
    ended = Outcome(
        status="Failed",
        secondary_status="Interrupted",
        started_epoch=T,
        ended_epoch=T + 3600,
        billable_seconds=900,
    )
    job = launch_of(1, None).model_copy(
        update={"instance_type": "ml.p5.48xlarge", "outcome": ended}
    )
    assert spend_of([job], PRICES) == Spend(gpu_hours=8, usd=25)


def test_hours_do_not_count_the_wait_between_a_reclaim_and_the_next_hosts() -> None:
    """An hour of hosts in ten of the clock; a row of an older handler knows the clock alone."""
    ended = Outcome(
        status="Completed",
        secondary_status="Completed",
        transitions=["Starting", "Training", "Interrupted", "Starting", "Training", "Completed"],
        started_epoch=T,
        ended_epoch=T + 36_000,
        billable_seconds=900,
        training_seconds=3600,
    )
    job = launch_of(1, None).model_copy(
        update={"instance_type": "ml.p5.48xlarge", "outcome": ended}
    )
    assert spend_of([job], PRICES) == Spend(gpu_hours=8, usd=25)
    old = json.dumps(ended.model_dump(exclude={"training_seconds"}))
    read = job.model_copy(update={"outcome": Outcome.model_validate_json(old)})
    assert spend_of([read], PRICES) == Spend(gpu_hours=80, usd=25)


def test_trainium_counts_by_chips_not_by_ranks() -> None:
    target = Target(instance_type="ml.trn1.32xlarge")
    left = seconds_left(budget(max_gpu_hours=16), Spend(), cost_of(target, 3600, {}), T)
    assert left == pytest.approx(3600)


@pytest.mark.parametrize(
    ("limits", "share"),
    [
        ({"max_gpu_hours": 10}, 1.0),
        ({"max_usd": 4}, 0.5),
        ({"deadline": at(T + 100)}, 0.0),
    ],
)
def test_a_limit_is_near_at_its_share_and_over_at_the_whole(
    limits: dict[str, object], share: float
) -> None:
    for part, near, end in ((0.79, False, False), (0.81, True, False), (1.0, True, True)):
        spend, now = Spend(gpu_hours=10 * part, usd=4 * part), T + 100 * part
        found = budget(**limits)
        assert (warning(found, spend, now, T) is not None) is near
        assert (over(found, spend, now, T) is not None) is end


def test_an_unknown_price_is_no_limit_that_is_reached() -> None:
    assert over(budget(max_usd=1), Spend(gpu_hours=99), T, T) is None
    assert over(budget(), Spend(gpu_hours=99, usd=99.0), T, T) is None


@given(
    st.floats(0.1, 1e4),
    st.floats(0.1, 1e4),
    st.floats(0, 1e4),
    st.floats(0, 1e4),
    st.integers(1, 9),
)
def test_a_job_that_runs_for_what_is_left_just_reaches_the_budget(
    hours: float, usd: float, spent_hours: float, spent_usd: float, nodes: int
) -> None:
    spec = a_spec()
    target = spec.compute[0].model_copy(update={"nodes": nodes})
    found = budget(max_gpu_hours=hours, max_usd=usd)
    spent = Spend(gpu_hours=spent_hours, usd=spent_usd)
    left = seconds_left(found, spent, cost_of(target, 3600, PRICES), T)
    assert left is not None
    launch = launch_of(1, None).model_copy(
        update={
            "nodes": nodes,
            "spent_gpu_hours": spent_hours,
            "spent_usd": spent_usd,
            "started_epoch": T,
        }
    )
    if left > 1:
        assert over(found, spend_now(launch, PRICES, T + 0.99 * left), T, T) is None
        assert over(found, spend_now(launch, PRICES, T + 1.01 * left), T, T) is not None
    if left < 0:
        assert over(found, spend_now(launch, PRICES, T), T, T) is not None


def test_the_nearest_limit_is_what_is_left() -> None:
    hour, spend = cost_of(a_spec().compute[0], 3600, PRICES), Spend(gpu_hours=1, usd=1.0)
    found = budget(max_gpu_hours=2, max_usd=4, deadline=at(T + 60))
    assert seconds_left(found, spend, hour, T) == 60
    assert seconds_left(budget(max_gpu_hours=2, max_usd=4), spend, hour, T) == 3600
    assert seconds_left(budget(), spend, hour, T) is None


def test_a_file_system_beside_the_job_shortens_what_a_budget_leaves() -> None:
    """73 USD an hour of it, at 730 hours a month."""
    data = {"prefix": "d", "mode": "fsx", "scratch_gib": 2400}
    spec = a_spec().model_copy(update={"data": Data.model_validate(data)})
    prices = {**PRICES, PRICE: 73 * 730 / 2400}
    target = Target(instance_type="ml.p5.48xlarge")
    hour = spend_an_hour(spec, target, prices)
    assert (hour.gpu_hours, hour.usd) == (8, pytest.approx(173))
    assert seconds_left(budget(max_usd=346), Spend(usd=0.0), hour, T) == pytest.approx(7200)
    assert spend_an_hour(spec, target, PRICES) == Spend(gpu_hours=8), "unknown is not zero"
    assert spend_an_hour(a_spec(), target, prices) == Spend(gpu_hours=8, usd=100)


def with_budget(**limits: object) -> RunSpec:
    return a_spec().model_copy(update={"budget": budget(**limits)})


def test_a_run_that_ends_for_its_budget_says_so_whatever_the_last_failure_was() -> None:
    last = launch_of(1, failure_of(F.HANG), committed=5)
    history = History(launches=[last], now=T + 61, created_epoch=T)
    found = decide(with_budget(deadline=at(T + 60)), failure_of(F.HANG), history, lambda: 0)
    assert (found.kind, found.gives_up_as) == (K.GIVE_UP, F.BUDGET)
    assert "has passed" in found.reason


def test_a_job_cut_short_by_the_budget_is_not_followed_by_ever_shorter_ones() -> None:
    last = launch_of(1, failure_of(F.MAX_RUNTIME), committed=5).model_copy(
        update={"budget_bound": True, "max_runtime_seconds": 100}
    )
    found = decide(a_spec(), failure_of(F.MAX_RUNTIME), History(launches=[last]), lambda: 0)
    assert (found.kind, found.gives_up_as) == (K.GIVE_UP, F.BUDGET)
    free = last.model_copy(update={"budget_bound": False})
    found = decide(a_spec(), failure_of(F.MAX_RUNTIME), History(launches=[free]), lambda: 0)
    assert found.kind is K.CONTINUE


def test_the_run_time_of_a_spec_is_at_least_a_second() -> None:
    stop = a_spec().stop.model_copy(update={"max_runtime_hours": 1e-9})
    assert runtime_seconds(a_spec().model_copy(update={"stop": stop})) == 1
