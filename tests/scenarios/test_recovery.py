"""A run that is broken ends as an unbroken one: the same losses, the same weights, bit for bit."""

from typing import Any

import pytest

from everstep.contracts.failures import FailureClass
from everstep.contracts.records import job_name
from tests.scenarios.lab import Lab

pytestmark = pytest.mark.scenario
STEPS = 60


@pytest.fixture(scope="module")
def spec(tiny: dict[str, Any]) -> dict[str, Any]:
    return {**tiny, "stop": {"steps": STEPS, "max_runtime_hours": 1}}


@pytest.fixture(scope="module")
def unbroken(lab: Lab, spec: dict[str, Any]) -> dict[str, Any]:
    """The run that nothing happened to."""
    assert lab.end(lab.start("unbroken", spec))["status"] == "SUCCEEDED"
    view = lab.view("unbroken")
    assert len(view.launches) == 1
    assert sorted(view.losses) == list(range(1, STEPS + 1))
    return {"losses": view.losses, "weights": lab.weights("unbroken")}


def check_equal_to_unbroken(lab: Lab, run_id: str, unbroken: dict[str, Any]) -> None:
    view = lab.view(run_id)
    assert view.losses == unbroken["losses"]
    # Every step of every launch, not only the ones that counted in the end.
    for launch in view.launches:
        for one in view.steps[launch.launch]:
            assert one.loss == unbroken["losses"][one.step], (launch.launch, one.step)
    assert lab.weights(run_id) == unbroken["weights"]
    assert view.run.status == "done"
    assert view.run.final_step == STEPS


def test_a_killed_host_costs_steps_and_nothing_else(
    lab: Lab, spec: dict[str, Any], unbroken: dict[str, Any]
) -> None:
    arn = lab.start("killed", spec)
    lab.at_step("killed", 1, 25)
    lab.control.kill_host(job_name("killed", 1), "algo-2")
    assert lab.end(arn)["status"] == "SUCCEEDED"

    first, second = lab.launches("killed")
    assert first.failure is not None
    assert first.failure.failure_class is FailureClass.INFRASTRUCTURE
    assert first.decision is not None
    assert first.decision.kind == "retry"
    assert second.resume_step >= 10
    assert second.resume_step == first.committed_step
    assert lab.job("killed", 1)["FailureReason"].startswith("InternalServerError:")
    check_equal_to_unbroken(lab, "killed", unbroken)


def test_a_frozen_rank_is_seen_stopped_and_resumed(
    lab: Lab, spec: dict[str, Any], unbroken: dict[str, Any]
) -> None:
    hasty = {**spec, "watch": {**spec["watch"], "step": 6}}
    arn = lab.start("frozen", hasty)
    lab.at_step("frozen", 1, 15)
    lab.control.freeze_host(job_name("frozen", 1), "algo-1")
    assert lab.end(arn)["status"] == "SUCCEEDED"

    first = lab.launches("frozen")[0]
    assert first.stop_reason == "hang"
    assert first.failure is not None
    assert first.failure.failure_class is FailureClass.HANG
    assert "step" in first.failure.cause
    assert lab.job("frozen", 1)["TrainingJobStatus"] == "Stopped"
    check_equal_to_unbroken(lab, "frozen", unbroken)
