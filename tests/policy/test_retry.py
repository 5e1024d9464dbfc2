"""Decide: what is never retried, what ends, what waits; as properties over any history."""

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everstep.contracts.failures import Action, Decision, DecisionKind, Failure, FailureClass, Rung
from everstep.contracts.records import Launch, Outcome
from everstep.contracts.run_spec import RunSpec
from everstep.policy.classify import ACTIONS
from everstep.policy.cost import Spend, spend_of
from everstep.policy.retry import (
    PAYS_SECONDS,
    TABLE,
    WITHOUT_ATTEMPT,
    History,
    backed_off,
    decide,
)

F, K = FailureClass, DecisionKind
HOPELESS = [c for c, row in TABLE.items() if row.kind is K.GIVE_UP]
FREE = sorted(WITHOUT_ATTEMPT - {F.MAX_RUNTIME})
RETRIED = [F.COMMUNICATION_HANG, F.HANG, F.INFRASTRUCTURE, F.INTERRUPTED, F.STORAGE_TRANSIENT]
classes = st.sampled_from(list(F))
draws = st.floats(0, 1, exclude_max=True)


def a_spec(targets: int = 1, **retry: Any) -> RunSpec:
    return RunSpec.model_validate(
        {
            "model": "tiny",
            "data": "d",
            "stop": {"steps": 9},
            "retry": retry,
            "compute": [{"instance_type": "ml.m5.large"}] * targets,
        }
    )


def failure_of(name: FailureClass, cause: str = "c", action: Action | None = None) -> Failure:
    return Failure(failure_class=name, action=action or ACTIONS[name], cause=cause, rule="r")


def launch_of(
    number: int,
    failure: Failure | None,
    *,
    committed: int | None = None,
    resume: int = 0,
    step: int | None = None,
    target: int = 0,
    decision: Decision | None = None,
    trained: float | None = None,
) -> Launch:
    ended = Outcome(status="Failed", secondary_status="Failed", ended_epoch=trained)
    return Launch(
        run_id="r",
        launch=number,
        job_name=f"r-{number:05d}",
        execution_arn="a",
        nodes=1,
        instance_type="ml.m5.large",
        planned_epoch=0,
        failure=failure,
        committed_step=committed,
        resume_step=resume,
        last_step=step,
        target=target,
        decision=decision,
        training_epoch=None if trained is None else 0.0,
        outcome=None if trained is None else ended,
    )


Next = tuple[FailureClass, bool]


def run(
    spec: RunSpec,
    failures: Iterable[Next],
    draw: Callable[[], float],
    cause: Callable[[int], str] = str,
    trained: float | None = None,
) -> list[Launch]:
    """The life of a run whose every launch fails as ``failures`` says (class, progress?), after
    training for so many seconds."""
    launches: list[Launch] = []
    step, target, waited, rung = 0, 0, 0.0, None
    for number, (name, progress) in enumerate(failures, start=1):
        committed = step + 10 if progress else step
        failure = failure_of(name, cause(number))
        last = launch_of(
            number,
            failure,
            committed=committed,
            resume=step,
            step=committed + 3,
            target=target,
            trained=trained,
        ).model_copy(update={"rung": rung})
        decision = decide(
            spec, failure, History(launches=[*launches, last], waited_seconds=waited), draw
        )
        launches.append(last.model_copy(update={"decision": decision}))
        if decision.kind is K.GIVE_UP:
            break
        if decision.kind is K.WAIT:
            waited += max(1, decision.wait_seconds)
        step, target, rung = committed, decision.target, decision.rung
    return launches


# --- never retried ---------------------------------------------------------------------------


@given(st.sampled_from(HOPELESS), st.lists(st.tuples(classes, st.booleans()), max_size=5), draws)
def test_a_hopeless_class_is_never_retried_whatever_came_before(
    name: FailureClass, before: list[Next], draw: float
) -> None:
    history = [
        launch_of(i + 1, failure_of(c), committed=i + 1 if p else 0, resume=i)
        for i, (c, p) in enumerate(before)
    ]
    last = launch_of(len(before) + 1, failure_of(name), committed=99)
    found = decide(a_spec(3), failure_of(name), History(launches=[*history, last]), lambda: draw)
    assert found.kind is K.GIVE_UP


@given(classes, st.booleans())
def test_do_not_retry_is_obeyed_for_every_class(name: FailureClass, progress: bool) -> None:
    failure = failure_of(name, action=Action.DO_NOT_RETRY)
    last = launch_of(1, failure, committed=9 if progress else 0)
    assert decide(a_spec(), failure, History(launches=[last]), lambda: 0.5).kind is K.GIVE_UP


# --- it ends ---------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.lists(classes.filter(lambda c: c not in HOPELESS), min_size=1, max_size=6),
    st.integers(1, 4),
    st.integers(1, 6),
    st.integers(1, 30),
    draws,
)
def test_without_progress_every_endless_sequence_of_failures_ends(
    names: list[FailureClass], targets: int, limit: int, attempts: int, draw: float
) -> None:
    spec = a_spec(
        targets,
        no_progress_limit=limit,
        max_attempts=attempts,
        wait_deadline_hours=0.05,
        backoff_seconds=0,
    )
    endless = ((name, False) for name in itertools.cycle(names))
    launches = run(spec, itertools.islice(endless, 2000), lambda: draw, cause=lambda n: f"c{n}x")
    last = launches[-1].decision
    assert last is not None
    assert last.kind is K.GIVE_UP


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(classes, st.booleans()), min_size=1, max_size=60),
    st.integers(1, 12),
    st.integers(1, 4),
    draws,
    st.sampled_from([None, 0.0, PAYS_SECONDS - 1]),
)
def test_attempts_that_train_briefly_never_exceed_the_cap_progress_or_not(
    failures: list[Next], cap: int, targets: int, draw: float, trained: float | None
) -> None:
    spec = a_spec(targets, max_attempts=cap, no_progress_limit=20)
    launches = run(spec, failures, lambda: draw, trained=trained)
    assert len(costly(launches)) <= cap


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(classes, st.booleans()), min_size=1, max_size=60), st.integers(1, 12), draws
)
def test_attempts_in_a_row_that_did_not_pay_off_never_exceed_the_cap(
    failures: list[Next], cap: int, draw: float
) -> None:
    spec = a_spec(max_attempts=cap, no_progress_limit=20)
    launches = run(spec, failures, lambda: draw, trained=PAYS_SECONDS)
    fruitless = 0
    for launch in launches:
        saved = launch.committed_step is not None and launch.committed_step > launch.resume_step
        fruitless = 0 if saved else fruitless + len(costly([launch]))
        assert fruitless <= cap


def costly(launches: list[Launch]) -> list[Launch]:
    return [x for x in launches if x.failure and x.failure.failure_class not in WITHOUT_ATTEMPT]


@pytest.mark.parametrize("name", RETRIED)
def test_attempts_that_paid_off_do_not_use_up_a_long_run(name: FailureClass) -> None:
    """54 days at a failure every three hours; then nothing but starts, and it ends."""
    good = itertools.repeat((name, True), 430)
    launches = run(a_spec(), good, lambda: 0.5, trained=3 * 3600)
    assert len(launches) == 430
    assert launches[-1].decision
    assert launches[-1].decision.kind is K.RETRY
    after = run(a_spec(max_attempts=5, no_progress_limit=20), [(name, False)] * 9, lambda: 0.5)
    assert len(after) == 5


def test_one_attempt_is_one_attempt_however_long_it_trained() -> None:
    launches = run(a_spec(max_attempts=1), [(F.HANG, True)] * 3, lambda: 0.5, trained=1e6)
    assert len(launches) == 1


# --- whose streak it is ------------------------------------------------------------------------


def last_of(*failures: Next, limit: int = 2) -> Decision:
    launches = run(a_spec(no_progress_limit=limit), failures, lambda: 0.5)
    assert len(launches) == len(failures), "it gave up before"
    assert launches[-1].decision is not None
    return launches[-1].decision


def test_an_exception_is_not_blamed_for_the_hosts_that_died_before_it() -> None:
    host = (F.INFRASTRUCTURE, False)
    assert last_of(host, (F.USER_CODE, False)).kind is K.RETRY
    assert last_of(host, host, (F.USER_CODE, False)).kind is K.RETRY
    assert last_of(host, (F.USER_CODE, False), (F.USER_CODE, False)).kind is K.GIVE_UP


def test_a_host_that_dies_is_one_of_a_row_of_any_failures() -> None:
    row = [(F.INFRASTRUCTURE, False), (F.USER_CODE, False)]
    assert last_of(*row, (F.INFRASTRUCTURE, False)).kind is K.RETRY
    row = [(F.USER_CODE, False), *[(F.INFRASTRUCTURE, False)] * 5]
    assert last_of(*row).kind is K.GIVE_UP


def test_no_room_after_early_deaths_is_waited_for() -> None:
    deaths = [(F.INFRASTRUCTURE, False)] * 5
    assert last_of(*deaths, *[(F.CAPACITY, False)] * 4).kind is K.RETRY
    assert last_of(*deaths, (F.QUOTA, False)).kind is K.WAIT


@settings(max_examples=100, deadline=None)
@given(st.lists(classes.filter(lambda c: TABLE[c].kind is not K.GIVE_UP), max_size=60), draws)
def test_without_progress_few_launches_cost_anything_in_any_mixture(
    names: list[FailureClass], draw: float
) -> None:
    """At most what each level of patience allows by itself."""
    spec = a_spec(max_attempts=1000)
    launches = run(spec, [(name, False) for name in names], lambda: draw, cause=lambda n: "x" * n)
    levels = {row.patience for row in TABLE.values()}
    count = sum(x.failure.failure_class not in FREE for x in launches if x.failure)
    assert count <= spec.retry.no_progress_limit * sum(levels)


# --- diverged: once on other hosts ---------------------------------------------------------------


def test_what_diverged_after_progress_gets_new_hosts_once() -> None:
    first = last_of((F.DIVERGED, True), limit=20)
    assert (first.kind, first.rung, first.spends_attempt) == (K.RETRY, Rung.NEW_HOSTS, True)
    second = last_of((F.DIVERGED, True), (F.DIVERGED, False), limit=20)
    assert second.kind is K.GIVE_UP
    assert "the same cause twice" in second.reason


def test_new_hosts_again_once_the_run_got_on() -> None:
    assert last_of((F.DIVERGED, True), (F.DIVERGED, True)).kind is K.RETRY


def test_what_diverges_from_the_beginning_gives_up_at_once() -> None:
    assert last_of((F.DIVERGED, False)).kind is K.GIVE_UP
    redriven = launch_of(9, failure_of(F.DIVERGED), committed=100, resume=100)
    found = decide(a_spec(), failure_of(F.DIVERGED), History(launches=[redriven]), lambda: 0)
    assert found.kind is K.RETRY, "it had got on before the redrive"


def test_new_hosts_for_what_diverged_even_where_a_pool_is_warm() -> None:
    spec = RunSpec.model_validate(
        a_spec().model_dump() | {"compute": [{"instance_type": "a", "warm_pool_seconds": 600}]}
    )
    launches = run(spec, [(F.DIVERGED, True)], lambda: 0, trained=60)
    assert launches[0].decision
    assert launches[0].decision.rung is Rung.NEW_HOSTS


@pytest.mark.parametrize("name", [F.USER_CODE, F.INCOMPLETE])
def test_the_same_bug_at_the_same_step_ends_the_run_after_the_second_attempt(
    name: FailureClass,
) -> None:
    one = launch_of(1, failure_of(name), committed=100, resume=0, step=107)
    two = launch_of(2, failure_of(name), committed=100, resume=100, step=107)
    spec = a_spec(no_progress_limit=20)
    first = decide(spec, failure_of(name), History(launches=[one]), lambda: 0.5)
    assert first.kind is K.RETRY
    second = decide(spec, failure_of(name), History(launches=[one, two]), lambda: 0.5)
    assert second.kind is K.GIVE_UP


def test_a_bug_is_known_again_behind_another_address_or_rank() -> None:
    causes = ["[rank3]: RuntimeError: bad at 0x7f21", "[rank11]: RuntimeError: bad at 0x9c02"]
    launches = [
        launch_of(i, failure_of(F.USER_CODE, c), committed=100, resume=(i - 1) * 100, step=107)
        for i, c in enumerate(causes, start=1)
    ]
    failure = failure_of(F.USER_CODE, causes[1])
    found = decide(a_spec(no_progress_limit=20), failure, History(launches=launches), lambda: 0)
    assert found.kind is K.GIVE_UP


def test_a_wait_for_capacity_in_between_does_not_hide_that_a_bug_repeats() -> None:
    bug = failure_of(F.USER_CODE)
    launches = [
        launch_of(1, bug, step=7),
        launch_of(2, failure_of(F.CAPACITY)),
        launch_of(3, bug, step=7),
    ]
    found = decide(a_spec(no_progress_limit=20), bug, History(launches=launches), lambda: 0)
    assert found.kind is K.GIVE_UP


def test_the_same_exception_at_a_later_step_is_another_failure() -> None:
    bug = failure_of(F.USER_CODE)
    launches = [
        launch_of(1, bug, committed=100, step=107),
        launch_of(2, bug, committed=200, resume=100, step=207),
    ]
    assert decide(a_spec(), bug, History(launches=launches), lambda: 0).kind is K.RETRY


def test_an_unknown_cause_is_retried_only_after_progress() -> None:
    failure = failure_of(F.UNKNOWN)
    for committed, wanted in ((0, K.GIVE_UP), (5, K.RETRY)):
        last = launch_of(1, failure, committed=committed)
        assert decide(a_spec(), failure, History(launches=[last]), lambda: 0).kind is wanted


@pytest.mark.parametrize("name", RETRIED)
def test_progress_each_time_goes_on_until_the_cap(name: FailureClass) -> None:
    launches = run(a_spec(max_attempts=15), itertools.repeat((name, True)), lambda: 0.5)
    assert len(launches) == 15


def test_jobs_that_reach_their_run_time_go_on_for_ever_while_they_commit() -> None:
    steady = itertools.islice(itertools.repeat((F.MAX_RUNTIME, True)), 100)
    launches = run(a_spec(max_attempts=1), steady, lambda: 0.5)
    assert len(launches) == 100
    assert all(x.decision and x.decision.kind is K.CONTINUE for x in launches)
    stuck = run(a_spec(no_progress_limit=2), itertools.repeat((F.MAX_RUNTIME, False)), lambda: 0.5)
    assert len(stuck) == 2


# --- waiting costs no attempt, and has an end ----------------------------------------------------


@pytest.mark.parametrize("name", FREE)
@pytest.mark.parametrize("draw", [0.0, 0.5, 0.999])
def test_waiting_spends_no_attempt_but_has_a_deadline(name: FailureClass, draw: float) -> None:
    spec = a_spec(max_attempts=1, wait_deadline_hours=0.1, backoff_seconds=60)
    launches = run(spec, itertools.repeat((name, False)), lambda: draw)
    assert not any(x.decision.spends_attempt for x in launches[:-1] if x.decision)
    last = launches[-1].decision
    assert last is not None
    assert (last.kind, "waited 0.1 h" in last.reason) == (K.GIVE_UP, True)
    if name is not F.QUOTA:
        assert 360 <= backed_off(launches) <= 361


def test_waiting_that_came_before_does_not_shorten_the_attempts_left() -> None:
    before = [(F.CAPACITY, False)] * 10
    launches = run(a_spec(max_attempts=3), [*before, *[(F.HANG, True)] * 9], lambda: 0.1)
    assert len(launches) == 13


def test_a_wait_in_waitforroom_counts_against_the_same_deadline() -> None:
    failure = failure_of(F.CAPACITY)
    history = History(launches=[launch_of(1, failure)], waited_seconds=3600)
    assert decide(a_spec(wait_deadline_hours=1), failure, history, lambda: 0).kind is K.GIVE_UP


def test_a_spent_deadline_for_waiting_does_not_stop_a_crash_from_being_retried() -> None:
    failure = failure_of(F.HANG)
    history = History(launches=[launch_of(1, failure)], waited_seconds=1e9)
    assert decide(a_spec(), failure, history, lambda: 0).kind is K.RETRY


# --- backoff -----------------------------------------------------------------------------------


@given(
    st.sampled_from(RETRIED + FREE),
    st.integers(0, 40),
    draws,
    st.floats(0, 5000),
    st.floats(0, 5000),
)
def test_backoff_stays_within_its_cap(
    name: FailureClass, repeats: int, draw: float, base: float, cap: float
) -> None:
    spec = a_spec(
        backoff_seconds=base, backoff_cap_seconds=cap, no_progress_limit=20, max_attempts=1000
    )
    launches = [launch_of(i + 1, failure_of(name)) for i in range(repeats + 1)]
    found = decide(spec, failure_of(name), History(launches=launches), lambda: draw)
    least = 0 if TABLE[name].spends_attempt else 1
    assert least <= found.wait_seconds <= max(least, cap)


def test_jitter_is_full_and_the_ceiling_doubles() -> None:
    spec = a_spec(backoff_seconds=10, backoff_cap_seconds=35, no_progress_limit=20)
    for repeats, ceiling in ((1, 10), (2, 20), (3, 35), (9, 35)):
        launches = [launch_of(i, failure_of(F.HANG)) for i in range(repeats)]
        history = History(launches=launches)
        waits = [
            decide(spec, failure_of(F.HANG), history, lambda d=d: d).wait_seconds
            for d in (0.0, 0.5, 0.9999)
        ]
        assert waits[0] == 0
        assert waits[1] == pytest.approx(ceiling / 2, abs=1)
        assert waits[2] == ceiling


def test_nothing_waits_after_progress() -> None:
    last = launch_of(1, failure_of(F.INFRASTRUCTURE), committed=10)
    history = History(launches=[last])
    assert decide(a_spec(), failure_of(F.INFRASTRUCTURE), history, lambda: 0.9).wait_seconds == 0


# --- elsewhere -----------------------------------------------------------------------------------


def test_capacity_tries_the_alternatives_in_order_and_round_again() -> None:
    launches = run(
        a_spec(3), itertools.islice(itertools.repeat((F.CAPACITY, False)), 7), lambda: 0.1
    )
    assert [x.target for x in launches] == [0, 1, 2, 0, 1, 2, 0]


def test_host_faults_get_new_hosts_once_and_then_move_on() -> None:
    launches = run(
        a_spec(2, no_progress_limit=5),
        itertools.islice(itertools.repeat((F.INFRASTRUCTURE, False)), 7),
        lambda: 0,
    )
    assert [x.target for x in launches] == [0, 0, 1, 0, 1, 0, 1]


def test_with_one_target_there_is_no_elsewhere() -> None:
    launches = run(
        a_spec(1), itertools.islice(itertools.repeat((F.CAPACITY, False)), 4), lambda: 0.1
    )
    assert {x.decision.kind for x in launches if x.decision} == {K.RETRY}


def test_a_new_job_after_the_run_time_asks_for_the_first_choice_again() -> None:
    last = launch_of(1, failure_of(F.MAX_RUNTIME), committed=10, target=2)
    history = History(launches=[last])
    assert decide(a_spec(3), failure_of(F.MAX_RUNTIME), history, lambda: 0).target == 0


# --- the table, and money ------------------------------------------------------------------------


def test_every_class_has_a_row() -> None:
    assert set(TABLE) == set(F)


def test_a_budget_that_is_spent_ends_the_run() -> None:
    spec = a_spec().model_copy(
        update={"budget": a_spec().budget.model_copy(update={"max_gpu_hours": 2.0})}
    )
    history = History(
        launches=[launch_of(1, failure_of(F.HANG), committed=5)],
        spend=Spend(gpu_hours=2.0, usd=None),
    )
    found = decide(spec, failure_of(F.HANG), history, lambda: 0)
    assert (found.kind, "GPU hours" in found.reason) == (K.GIVE_UP, True)


def test_spend_counts_gpus_and_says_when_a_price_is_unknown() -> None:
    def job(kind: str, nodes: int) -> Launch:
        ended = Outcome(status="Failed", secondary_status="Failed", billable_seconds=1800)
        return launch_of(1, None).model_copy(
            update={"instance_type": kind, "nodes": nodes, "outcome": ended}
        )

    jobs = [job("ml.p5.48xlarge", 2), job("ml.m5.large", 1)]
    assert spend_of(jobs, {"ml.p5.48xlarge": 100.0, "ml.m5.large": 0.2}) == Spend(
        gpu_hours=8.5, usd=100.1
    )
    assert spend_of(jobs, {"ml.p5.48xlarge": 100.0}).usd is None
    assert "unknown" in spend_of(jobs, {}).words("GPU hours")
    assert spend_of([launch_of(1, None)], {}) == Spend(gpu_hours=0, usd=0)
