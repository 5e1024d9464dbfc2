"""A few seeds of the long suite, at once: `make chaos` runs hundreds. And the generator itself."""

from typing import get_args

import pytest

from everstep.contracts.names import handler_folder
from tests.chaos.random_faults import FINISHING, HANDLERS, OF_A_FILE_SYSTEM, Kind, plan
from tests.chaos.seeds import ENV, Seeds, line
from tests.scenarios.lab import ROOT, Lab

SEEDS = (1, 3, 7, 15, 20, 23, 36, 40, 53)
"""Between them: lost and tripled events, a bug that is mended, no room, capacity, S3, damaged
checkpoints, spot, a silent watchdog, exports, executions that are full, handlers that die, a file
system of the run's own."""


def test_a_seed_is_a_plan() -> None:
    assert [plan(seed) for seed in range(50)] == [plan(seed) for seed in range(50)]
    assert str(plan(9).faults[0]) == "crash_lambda@0(function=GiveUp,times=2)"


def test_every_fault_and_every_handler_has_its_turn() -> None:
    """In the 200 seeds of the long run: each handler there is crashes in a run that meets it."""
    plans = [plan(seed) for seed in range(200)]
    kinds = {fault.kind for made in plans for fault in made.faults}
    assert kinds == set(get_args(Kind))
    folders = {path.parent.name for path in ROOT.glob("lambdas/*/handler.py")}
    assert folders == {handler_folder(name) for name in (*HANDLERS, *OF_A_FILE_SYSTEM)}
    meets = {
        "ContinueAsNew": "capacity",
        "GiveUp": "bug",
        "InspectAttempt": "schedule_off",
        "WaitForRoom": "no_room",
    }
    crashed = set()
    for made in plans:
        there = {fault.kind for fault in made.faults}
        for fault in (f for f in made.faults if f.kind == "crash_lambda"):
            function = fault.details["function"]
            if function in FINISHING:
                assert made.spec["finish"]["register"]
            if function in OF_A_FILE_SYSTEM:
                assert made.spec["data"]["mode"] == "fsx"
            if made.trainer != "torch" or function != "GiveUp":
                assert meets.get(function, "crash_lambda") in there
                crashed.add(function)
    assert crashed == {*HANDLERS, *OF_A_FILE_SYSTEM}


@pytest.mark.scenario
def test_every_deployed_function_may_crash(lab: Lab) -> None:
    """What the template made, against what the seeds draw from."""
    pages = lab.cloud.client("lambda").get_paginator("list_functions").paginate()
    made = {f["FunctionName"] for page in pages for f in page["Functions"]}
    assert made == {f"everstep-{ENV}-{name}" for name in (*HANDLERS, *OF_A_FILE_SYSTEM)}


@pytest.mark.scenario
def test_random_faults_break_no_invariant(lab: Lab) -> None:
    seeds = Seeds(lab)
    try:
        rows = seeds.run(SEEDS, len(SEEDS), lambda row: print(line(row), flush=True))
        denied = seeds.denied()
    finally:
        seeds.close()
    assert [line(row) for row in rows if row["violations"]] == []
    assert denied == []
