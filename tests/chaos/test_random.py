"""A few seeds of the long suite, at once: `make chaos` runs hundreds. And the generator itself."""

import pytest

from tests.chaos.random_faults import HANDLERS, plan
from tests.chaos.seeds import Seeds, line
from tests.scenarios.lab import ROOT, Lab

SEEDS = (1, 3, 7, 9, 15, 20, 25, 30)
"""Between them: lost and doubled events, stop and redrive, spot, capacity, S3, damaged checkpoints,
a silent watchdog, handlers that die. Seed 9 once ended a run: a process that Lambda killed was not
tried again."""


def test_a_seed_is_a_plan() -> None:
    assert [plan(seed) for seed in range(50)] == [plan(seed) for seed in range(50)]
    assert str(plan(9).faults[0]) == "crash_lambda@0(function=Decide,times=2)"


def test_every_fault_and_every_handler_has_its_turn() -> None:
    faults = [fault for seed in range(200) for fault in plan(seed).faults]
    kinds = {fault.kind for fault in faults}
    assert len(kinds) == 12
    crashed = {f.details["function"] for f in faults if f.kind == "crash_lambda"}
    assert crashed == set(HANDLERS)
    folders = {p.parent.name.replace("_", "") for p in ROOT.glob("lambdas/*/handler.py")}
    spared = {"giveup", "waitforroom"}
    assert {name.lower() for name in HANDLERS} >= folders & {h.lower() for h in HANDLERS}
    assert spared <= folders


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
