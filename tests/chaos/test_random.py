"""A few seeds of the long suite, at once: `make chaos` runs hundreds. And the generator itself."""

import pytest

from everstep.contracts.names import handler_folder
from tests.chaos.random_faults import HANDLERS, plan
from tests.chaos.seeds import Seeds, line
from tests.scenarios.lab import ROOT, Lab

SEEDS = (1, 3, 7, 9, 15, 20, 25, 30)
"""Between them: lost and doubled events, stop and redrive, spot, capacity, S3, damaged checkpoints,
a silent watchdog, handlers that die. Seed 9 once ended a run: a process that Lambda killed was not
tried again."""

NOT_IN_EVERY_RUN = {
    "continue_as_new",
    "export_model",
    "give_up",
    "quota_report",
    "register_model",
    "verify_export",
    "wait_for_room",
}
"""Handlers that a run on its way to its last step does not meet: half runs of them are tried in
tests/lambdas."""


def test_a_seed_is_a_plan() -> None:
    assert [plan(seed) for seed in range(50)] == [plan(seed) for seed in range(50)]
    assert str(plan(9).faults[0]) == "crash_lambda@0(function=Decide,times=2)"


def test_every_fault_and_every_handler_has_its_turn() -> None:
    faults = [fault for seed in range(200) for fault in plan(seed).faults]
    kinds = {fault.kind for fault in faults}
    assert len(kinds) == 12
    crashed = {f.details["function"] for f in faults if f.kind == "crash_lambda"}
    assert crashed == set(HANDLERS)
    folders = {path.parent.name for path in ROOT.glob("lambdas/*/handler.py")}
    assert folders - {handler_folder(name) for name in HANDLERS} == NOT_IN_EVERY_RUN


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
