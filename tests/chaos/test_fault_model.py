"""Every row of the design's fault model: a run that meets the fault, and its end."""

import ast
import copy
from typing import Any

import pytest

from tests.chaos.cases import Case
from tests.chaos.fault_model import FAULT_MODEL
from tests.chaos.invariants import expected_state
from tests.scenarios.lab import ROOT, Lab

CASES = [case for row in FAULT_MODEL for case in row.cases]
STEPS = {"torch": 30, "lean": 40}
COMMAND = {
    "torch": ["python", "-m", "tests.chaos.sabotage"],
    "lean": ["python", "tests/chaos/lean.py"],
}


def spec_of(case: Case) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "model": "tiny",
        "data": "datasets/stdlib",
        "compute": [{"instance_type": "ml.m5.large", "nodes": 2}],
        "train": {
            "sequence_length": 128,
            "global_batch": 16,
            "micro_batch": 4,
            "lr": 0.003,
            "warmup_steps": 10,
            "dtype": "fp32",
        },
        "checkpoint": {"every_steps": 10 if case.trainer == "torch" else 5},
        "retry": {"backoff_seconds": 1, "backoff_cap_seconds": 2},
        "watch": {"starting": 120, "warmup": 120, "step": 30, "save": 60, "stopping": 60},
        "stop": {"steps": STEPS[case.trainer], "max_runtime_hours": 1},
    }
    if case.trainer == "lean" or case.environment:
        environment = dict(case.environment)
        spec["trainer"] = {"command": COMMAND[case.trainer], "environment": environment}
    spec |= copy.deepcopy(dict(case.spec))
    return spec


@pytest.fixture(scope="module")
def unbroken(lab: Lab) -> dict[str, Any]:
    """The torch run that nothing happened to."""
    plain = Case("unbroken", "torch", "same")
    assert lab.end(lab.start("fault-unbroken", spec_of(plain)))["status"] == "SUCCEEDED"
    return {
        "losses": lab.view("fault-unbroken").losses,
        "weights": lab.weights("fault-unbroken"),
    }


@pytest.mark.faults
@pytest.mark.scenario
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_a_fault_ends_as_the_table_says(
    lab: Lab, case: Case, request: pytest.FixtureRequest
) -> None:
    run_id = f"fault-{case.name}"
    case.before(lab, run_id, "")
    try:
        arn = lab.start(run_id, spec_of(case))
        case.ask(lab, run_id, arn)
        ended = lab.end(arn)
        case.after(lab, run_id, arn)
    finally:
        lab.control.forget(run_id)
    view = lab.view(run_id)
    said = "\n".join(
        text for x in view.launches for _, _, text in lab.cloud.log_lines(run_id, x.launch)
    )
    story = [(x.failure.failure_class, x.failure.cause) for x in view.launches if x.failure]
    if case.end == "refused":
        assert ended["status"] == "FAILED", story
        assert ended["error"] == case.classes[-1].error_name, story
        assert case.says in ended["cause"]
        assert view.run.note
        assert case.classes[-1] in view.run.note
    else:
        assert ended["status"] == "SUCCEEDED", (ended.get("cause"), story)
        assert view.run.status == "done"
        assert case.says in said + " ".join(cause for _, cause in story)
    if case.end == "same" and case.trainer == "torch":
        baseline = request.getfixturevalue("unbroken")
        assert view.losses == baseline["losses"]
        assert lab.weights(run_id) == baseline["weights"]
    elif case.end == "same":
        state = lab.object(f"{lab.final_checkpoint(run_id)}/state.txt")
        assert state == expected_state(STEPS[case.trainer])
    if case.classes or case.launches:
        assert tuple(found for found, _ in story) == case.classes, story
    if case.launches is not None:
        assert len(view.launches) == case.launches, story
    if case.attempts is not None:
        assert sum(x.spent_attempt for x in view.launches) == case.attempts, story
    made = [x.job_name for x in view.launches if x.created]
    assert lab.jobs_of(run_id) == made
    assert not [p for p in lab.control.processes() if f"{run_id}-" in p["name"]]


def test_every_row_of_the_fault_model_is_shown_or_named_as_not_done() -> None:
    for row in FAULT_MODEL:
        assert row.cases or row.shown_by or row.not_yet, row.fault
        for test in row.shown_by:
            file, _, name = test.partition("::")
            tree = ast.parse((ROOT / file).read_text())
            names = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
            assert name in names, f"{row.fault}: {test} does not exist"
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))


def test_docs_list_every_row() -> None:
    text = (ROOT / "docs" / "chaos.md").read_text()
    for row in FAULT_MODEL:
        line = next((x for x in text.splitlines() if x.startswith(f"| {row.fault} |")), "")
        assert line, f"docs/chaos.md has no row for {row.fault!r}"
        assert all(case.name in line for case in row.cases), row.fault
        assert ("not yet" in line) == bool(row.not_yet), row.fault
