"""The restart ladder: the lowest rung that can cure it, and none twice for nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everstep.contracts.failures import FailureClass, Rung
from everstep.contracts.records import Launch, Outcome
from everstep.contracts.run_spec import RunSpec
from everstep.policy.ladder import BELOW_US, BUDGETS, RUNGS, choose, has_pool, rung_of
from everstep.policy.retry import TABLE, History, decide
from tests.policy.test_retry import K, a_spec, failure_of, launch_of

F, R = FailureClass, Rung
ENDED = Outcome(status="Failed", secondary_status="Failed", failure_reason="AlgorithmError: x")


def pooled(targets: int = 1, seconds: int = 600, **retry: object) -> RunSpec:
    spec = a_spec(targets, **{"no_progress_limit": 20, "max_attempts": 1000, **retry})
    compute = [t.model_copy(update={"warm_pool_seconds": seconds}) for t in spec.compute]
    return spec.model_copy(update={"compute": compute})


def climb(spec: RunSpec, name: FailureClass, count: int, outcome: Outcome = ENDED) -> list[Launch]:
    """The launches of a run that fails alike, without progress, every time."""
    launches: list[Launch] = []
    rung, target = None, 0
    for number in range(1, count + 1):
        last = launch_of(number, failure_of(name, str(number)), committed=0, target=target)
        last = last.model_copy(update={"rung": rung, "outcome": outcome})
        decision = decide(
            spec, failure_of(name, str(number)), History(launches=[*launches, last]), lambda: 0
        )
        launches.append(last.model_copy(update={"decision": decision}))
        rung, target = decision.rung, decision.target
    return launches


def rungs(launches: list[Launch]) -> list[Rung | None]:
    return [x.decision.rung for x in launches if x.decision]


def test_every_class_that_is_tried_again_has_rungs_and_every_rung_a_budget() -> None:
    again = {c for c, row in TABLE.items() if row.kind in (K.RETRY, K.CONTINUE)}
    assert set(RUNGS) == again
    assert set(BUDGETS) == set(Rung)


@pytest.mark.parametrize("name", RUNGS)
def test_rungs_stand_in_order_and_what_is_done_below_us_is_never_chosen(name: FailureClass) -> None:
    order = list(Rung)
    assert list(RUNGS[name]) == sorted(RUNGS[name], key=order.index)
    assert not BELOW_US & set(rungs(climb(pooled(3), name, 12)))


def test_a_hang_climbs_from_warm_hosts_to_new_ones_to_elsewhere() -> None:
    launches = climb(pooled(3), F.HANG, 5)
    assert rungs(launches) == [R.WARM_HOSTS, R.NEW_HOSTS, R.ELSEWHERE, R.ELSEWHERE, R.ELSEWHERE]
    assert [x.target for x in launches] == [0, 0, 0, 1, 2]


@pytest.mark.parametrize("name", [F.INFRASTRUCTURE, F.INTERRUPTED, F.STRAGGLER])
def test_a_fault_of_a_host_never_gets_the_same_hosts(name: FailureClass) -> None:
    assert R.WARM_HOSTS not in rungs(climb(pooled(2), name, 6))


def test_without_a_pool_or_another_target_there_are_new_hosts_until_the_limit() -> None:
    assert set(rungs(climb(a_spec(no_progress_limit=20), F.HANG, 5))) == {R.NEW_HOSTS}
    assert set(rungs(climb(a_spec(), F.CAPACITY, 3))) == {R.NEW_HOSTS}


def test_a_pool_that_would_be_gone_by_the_end_of_the_wait_is_not_counted_on() -> None:
    spec = pooled(seconds=60)
    last = launch_of(1, failure_of(F.USER_CODE), committed=0).model_copy(update={"outcome": ENDED})
    assert choose(spec, F.USER_CODE, [last], False, wait=59) == (R.WARM_HOSTS, 0)
    assert choose(spec, F.USER_CODE, [last], False, wait=60) == (R.NEW_HOSTS, 0)


@pytest.mark.parametrize(
    ("status", "reason", "kept"),
    [
        ("Completed", "", True),
        ("Stopped", "", True),
        ("Failed", "AlgorithmError: x", True),
        ("Failed", "ClientError: x", True),
        ("Failed", "InternalServerError: x", False),
        ("Failed", "CapacityError: x", False),
        ("NotCreated", "", False),
    ],
)
def test_sagemaker_keeps_a_pool_after_these_ends_only(status: str, reason: str, kept: bool) -> None:
    outcome = Outcome(status=status, secondary_status=status, failure_reason=reason)
    launch = launch_of(1, None).model_copy(update={"outcome": outcome})
    assert has_pool(pooled(), launch) is kept
    assert not has_pool(a_spec(), launch)


@given(
    st.sampled_from(sorted(RUNGS)),
    st.integers(1, 4),
    st.sampled_from([0, 600]),
    st.integers(1, 12),
)
def test_no_rung_is_tried_beyond_its_budget_while_a_higher_one_is_left(
    name: FailureClass, targets: int, pool: int, count: int
) -> None:
    tried = [r for r in rungs(climb(pooled(targets, pool), name, count)) if r is not None]
    order = list(Rung)
    for i, rung in enumerate(tried):
        before = tried[:i]
        if before.count(rung) >= BUDGETS[rung]:
            assert all(order.index(other) <= order.index(rung) for other in tried[i:])
    assert [order.index(r) for r in tried] == sorted(order.index(r) for r in tried)


def test_progress_starts_the_ladder_anew() -> None:
    spec = pooled(2)
    one, two = climb(spec, F.HANG, 2)
    moved = two.model_copy(update={"committed_step": 10})
    found = decide(spec, failure_of(F.HANG), History(launches=[one, moved]), lambda: 0)
    assert found.rung is R.WARM_HOSTS


def test_a_wait_for_capacity_in_between_does_not_hide_which_rungs_failed() -> None:
    spec = a_spec(2, no_progress_limit=20)
    one, two = climb(spec, F.HANG, 2)
    capacity = launch_of(3, failure_of(F.CAPACITY)).model_copy(update={"rung": R.ELSEWHERE})
    three = two.model_copy(update={"launch": 4})
    history = History(launches=[one, capacity, three])
    assert two.rung is R.NEW_HOSTS
    assert decide(spec, failure_of(F.HANG), history, lambda: 0).rung is R.ELSEWHERE


def test_the_first_choice_has_its_turn_again_after_hours_elsewhere() -> None:
    def ended_after(seconds: float) -> Launch:
        outcome = ENDED.model_copy(update={"ended_epoch": seconds})
        last = launch_of(1, failure_of(F.HANG), committed=9, target=2)
        return last.model_copy(update={"outcome": outcome, "training_epoch": 0.0})

    for seconds, target in ((6 * 3600, 0), (6 * 3600 - 1, 2)):
        history = History(launches=[ended_after(seconds)])
        assert decide(a_spec(3), failure_of(F.HANG), history, lambda: 0).target == target


def test_a_launch_knows_its_rung_also_where_quota_sent_it_elsewhere() -> None:
    (one,) = climb(pooled(), F.HANG, 1)
    assert rung_of(None, 0) is None
    assert rung_of(one, 0) is R.WARM_HOSTS
    assert rung_of(one, 1) is R.ELSEWHERE
