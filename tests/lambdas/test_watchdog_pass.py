"""A pass looks at many runs at once, in a bound of its own, and one ill run hides no other."""

import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from everstep.contracts.env import ControlEnv
from lambdas.aws.passes import Look, Pass
from lambdas.aws.services import Services
from lambdas.watchdog import handler
from lambdas.watchdog.handler import WatchdogErrors, act

RUNS, AT_ONCE = 300, 15


class Died(BaseException):
    """The process, not the look."""


class Few:
    """As much of ``Services`` as a pass itself asks for."""

    def __init__(self, at_once: int) -> None:
        self.env = ControlEnv(table="t", topic_arn="arn", looks_at_once=at_once)
        self.store, self.made = self, False

    def ready(self) -> None:
        self.made = True

    def active(self, kind: str) -> Iterator[tuple[str, str]]:
        assert self.made, "clients are made before threads share them"
        return ((f"run-{i:03d}", "launch#1") for i in range(RUNS if kind == "launch" else 0))


def pass_over(at_once: int) -> dict[str, int]:
    return act(cast(Services, Few(at_once)))


def test_three_hundred_slow_looks_are_taken_as_many_at_once_as_asked_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each look waits until fourteen others wait beside it: one after another, none would end."""
    beside, lock = threading.Barrier(AT_ONCE, timeout=60), threading.Lock()
    now, most = 0, 0
    seen: list[str] = []

    def look(run_id: str, item: str, services: Any) -> None:
        nonlocal now, most
        with lock:
            seen.append(run_id)
            now += 1
            most = max(most, now)
        beside.wait()
        with lock:
            now -= 1

    monkeypatch.setattr(handler, "look_at_launch", look)
    assert pass_over(AT_ONCE) == {"launches": RUNS, "increases": 0, "waiting": 0}
    assert sorted(seen) == [f"run-{i:03d}" for i in range(RUNS)]
    assert most <= AT_ONCE


@pytest.mark.parametrize("at_once", [1, AT_ONCE])
def test_runs_that_cannot_be_looked_at_stop_no_other_and_are_all_named(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    seen = []

    def look(run_id: str, item: str, services: Any) -> None:
        seen.append(run_id)
        if run_id in {"run-007", "run-299"}:
            raise RuntimeError("ill")

    monkeypatch.setattr(handler, "look_at_launch", look)
    with pytest.raises(WatchdogErrors, match=r"^run-007 .*ill.*; run-299 .*ill"):
        pass_over(at_once)
    assert len(seen) == RUNS


def test_what_ends_the_process_ends_the_pass() -> None:
    """Else a half-run that dies at one call would go on with the next run, and prove nothing."""
    begun: list[int] = []

    def look(number: int) -> None:
        begun.append(number)
        if number == 1:
            raise Died

    with pytest.raises(Died):
        Pass(1).take(Look(str(n), lambda n=n: look(n)) for n in range(5))  # type: ignore[misc]
    assert begun == [0, 1]
