"""The production policy decides: its answers, asked for once, are those to the whole history."""

from dataclasses import replace
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everstep.contracts.failures import Decision, DecisionKind, FailureClass, Rung
from everstep.policy.retry import History, decide
from everstep.simulate import production
from everstep.simulate.draws import strikes
from everstep.simulate.inputs import load_faults, load_rates
from everstep.simulate.policies import NO_ROOM, ByHand, Everstep
from everstep.simulate.production import LEVELS, Past, Production, Question, Tail
from everstep.simulate.scenario import default_spec, scenario
from tests.simulate.scenes import goodput, runs
from trainer.in_job import TRANSIENT

F = FailureClass
QUESTIONS = [
    Question("gpu_hbm3", "exit"),
    Question("cpu", "exit"),
    Question("host_maintenance_unplanned", "exit"),
    Question("software_bug", "exit"),
    Question("dependency", "exit"),
    Question("nccl_watchdog_unknown", "hang"),
    Question("nic", "frozen"),
    Question("nic", "slow"),
    Question("max_runtime", "max_runtime"),
    Question("spot_reclaim", "reclaim"),
    Question("gpu_hbm3", "nan"),
    NO_ROOM,
]
events = st.lists(
    st.tuples(
        st.sampled_from(QUESTIONS),
        st.sampled_from([(False, False), (True, False), (True, True)]),
        st.booleans(),
        st.floats(0, 1, exclude_max=True),
    ),
    max_size=25,
)


def spec_of(max_attempts: int, limit: int, hours: float, targets: int) -> Any:
    spec = default_spec(4)
    retry = spec.retry.model_copy(
        update={
            "max_attempts": max_attempts,
            "no_progress_limit": limit,
            "wait_deadline_hours": hours,
        }
    )
    return spec.model_copy(update={"retry": retry, "compute": spec.compute * targets})


@given(
    events, st.sampled_from([3, 8, 1000]), st.integers(1, 4), st.sampled_from([0.2, 2.0, 168.0]),
    st.integers(1, 3),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_decisions_are_those_of_the_whole_history(
    events: list[tuple[Question, tuple[bool, bool], bool, float]],
    max_attempts: int, limit: int, hours: float, targets: int,
) -> None:  # fmt: skip
    spec = spec_of(max_attempts, limit, hours, targets)
    asked = Production(spec, 10.0)
    for _ in range(2):  # the second time from memory
        tail, launches, waited = Tail(), [], 0.0
        target, rung = 0, None
        for question, (progressed, paid), long, u in events:
            progressed = progressed and question != NO_ROOM
            paid = progressed and (paid or long)
            past = Past(question, progressed, target, rung, long, paid)
            launches.append(asked._launch(past))
            tail.append(past, asked)
            told = asked.decide(tail, u)
            level = (int(u * LEVELS) + 0.5) / LEVELS
            history = History(launches=launches, waited_seconds=waited)
            said = decide(spec, asked.failure(question), history, lambda level=level: level)
            assert told == said
            if said.kind is DecisionKind.GIVE_UP:
                break
            if not said.spends_attempt and said.kind is not DecisionKind.CONTINUE:
                waited += said.wait_seconds
            target, rung = said.target, said.rung


def test_every_fault_gets_a_class_that_fits() -> None:
    """By the words that would be there to read; none is left to 'unknown'."""
    asked = Production(default_spec(4), 10.0)
    hopeless = {F.UNKNOWN, F.BAD_CONFIG, F.BAD_DATA, F.USER_STOP}
    for name, fault in load_faults()["faults"].items():
        if fault.get("symptom") in ("planned",):
            continue
        symptom = fault.get("symptom", "exit")
        found = asked.failure(Question(name, symptom)).failure_class
        assert found not in hopeless, name
        if symptom == "exit":
            assert (found is F.INFRASTRUCTURE) == fault["host"], name
    seen = {q: asked.failure(q).failure_class for q in QUESTIONS}
    assert seen[Question("nccl_watchdog_unknown", "hang")] is F.COMMUNICATION_HANG
    assert seen[Question("nic", "frozen")] is F.HANG
    assert seen[Question("nic", "slow")] is F.STRAGGLER
    assert seen[Question("max_runtime", "max_runtime")] is F.MAX_RUNTIME
    assert seen[Question("spot_reclaim", "reclaim")] is F.INTERRUPTED
    assert seen[NO_ROOM] is F.CAPACITY
    assert asked.failure(Question("nic", "nan")).failure_class is F.DIVERGED


def test_every_rate_is_of_a_fault_that_is_known() -> None:
    assert set(load_rates("llama3").per_node_second) <= set(load_faults()["faults"])


def test_a_policy_that_gives_up_needs_a_person_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the decisions made here, a changed policy would change nothing."""
    scene = replace(scenario(2048, 20), interval=900.0)
    ours = goodput(scene, runs(scene, 4))

    def never(*_: object) -> Decision:
        return Decision(kind=DecisionKind.GIVE_UP, reason="never")

    monkeypatch.setattr(production, "decide", never)
    given_up = runs(scene, 4)
    assert goodput(scene, given_up) < ours - 0.2
    launches = fmean(x.restarts[Rung.NEW_HOSTS] for x in given_up)
    assert fmean(x.people for x in given_up) > 0.8 * launches


def test_fewer_attempts_more_people() -> None:
    scene = scenario(2048, 20)
    few = scene.spec.retry.model_copy(update={"max_attempts": 1})
    bound = replace(scene, spec=scene.spec.model_copy(update={"retry": few}))
    many = sum(x.people for x in runs(bound, 4))
    assert many > 2 * sum(x.people for x in runs(scene, 4))
    reasons = {reason for x in runs(bound, 4) for reason in x.gave_up}
    assert any("1 attempts of 1 are spent" in reason for reason in reasons)


def test_the_specs_step_budget_bounds_a_hang() -> None:
    scene = scenario(1024, 20).setting(share_hang=1, share_frozen=1)
    tight = scene.spec.watch.model_copy(update={"step": 120})
    quick = replace(scene, spec=scene.spec.model_copy(update={"watch": tight}))
    long, short = runs(scene, 3), runs(quick, 3)
    assert sum(x.parts["hang"] for x in short) < 0.6 * sum(x.parts["hang"] for x in long)


def test_a_straggler_is_moved_as_often_as_the_spec_says() -> None:
    scene = scenario(1024, 30).setting(share_hang=0, share_nan=0, share_slow=1, slow_ratio=2)
    scene = replace(scene, rates=load_rates("llama3"))

    def stops(most: int) -> float:
        retry = scene.spec.retry.model_copy(update={"straggler_restarts": most})
        one = replace(scene, spec=scene.spec.model_copy(update={"retry": retry}))
        return fmean(x.parts["slow"] for x in runs(one, 3))

    assert stops(0) > stops(20) > 0


def test_retry_strategy_cures_internal_errors_alone() -> None:
    asked = Production(default_spec(4), 10.0)
    assert asked.service_repairs(Question("power_supply", "exit"))
    assert not asked.service_repairs(Question("gpu_hbm3", "exit"))
    assert not asked.service_repairs(Question("power_supply", "frozen"))


def test_what_starts_again_in_the_job() -> None:
    asked = Production(default_spec(4), 10.0)
    assert asked.in_job(Question("nic", "hang"))
    assert not asked.in_job(Question("nic", "frozen")), "the watchdog has stopped the job"
    assert not asked.in_job(Question("software_bug", "exit"))
    assert not asked.in_job(Question("gpu_hbm3", "exit"))


def test_the_launchers_classes_are_the_trainers() -> None:
    assert TRANSIENT == production.IN_JOB_CLASSES


def test_a_hang_of_a_hosts_making_climbs_the_ladder() -> None:
    """On the same hosts it comes again; the rungs above are tried in turn until new hosts."""
    scene = scenario(1024, 30).setting(share_hang=1, share_frozen=0, share_stays=1, share_slow=0)
    found = runs(scene, 2)
    restarts = {rung: sum(x.restarts.get(rung, 0) for x in found) for rung in Rung}
    assert restarts[Rung.IN_JOB] > 0
    assert restarts[Rung.NEW_HOSTS] > 0
    assert all(len(strikes(scene, i)) > 10 for i in range(2))


def test_by_hand_is_worse_than_ours() -> None:
    scene = scenario(2048, 20)
    assert goodput(scene, runs(scene, 4, ByHand)) < goodput(scene, runs(scene, 4, Everstep)) - 0.1
