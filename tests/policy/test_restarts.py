"""Restart time by part, and the length of an execution's history: from the rows alone."""

from everstep.contracts.failures import Decision, DecisionKind, Rung
from everstep.contracts.records import Launch, Outcome
from everstep.policy.restarts import restart_time
from everstep.policy.turns import patience, turns
from tests.policy.test_retry import launch_of


def two() -> tuple[Launch, Launch]:
    former = launch_of(1, None).model_copy(
        update={
            "progress_epoch": 100.0,
            "settled_epoch": 160.0,
            "outcome": Outcome(status="Failed", secondary_status="Failed", ended_epoch=130.0),
            "decision": Decision(kind=DecisionKind.RETRY, reason="r", wait_seconds=20),
        }
    )
    launch = launch_of(2, None).model_copy(
        update={
            "rung": Rung.NEW_HOSTS,
            "planned_epoch": 185.0,
            "training_epoch": 400.0,
            "loaded_epoch": 430.0,
            "first_step_epoch": 440.0,
        }
    )
    return former, launch


def test_the_parts_follow_one_another_and_add_up() -> None:
    time = restart_time(*two())
    parts = (time.notice, time.decide, time.wait, time.provision, time.load, time.first_step)
    assert parts == (60, 5, 20, 215, 30, 10)
    assert time.total == sum(p for p in parts if p is not None) == 340
    assert time.rung is Rung.NEW_HOSTS


def test_a_former_launch_without_a_step_lost_its_time_elsewhere() -> None:
    former, launch = two()
    former = former.model_copy(update={"progress_epoch": None})
    assert restart_time(former, launch).notice == 30


def test_what_rows_do_not_say_is_not_guessed() -> None:
    former, launch = launch_of(1, None), launch_of(2, None)
    time = restart_time(former, launch)
    assert set(time.model_dump().values()) == {None}


def test_turns_are_those_of_one_execution() -> None:
    launches = [
        launch_of(1, None),
        launch_of(2, None).model_copy(update={"execution_arn": "b", "inspections": 4}),
        launch_of(3, None).model_copy(update={"execution_arn": "b"}),
    ]
    assert (turns(launches, "a"), turns(launches, "b"), turns(launches, "c")) == (1, 6, 0)


def test_patience_grows_and_has_an_end() -> None:
    assert [patience(60, n) for n in (0, 1, 2, 9, 10**6)] == [60, 120, 240, 1800, 1800]
