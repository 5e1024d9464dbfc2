"""A torchrun program that imports nothing of ours: started, watched, killed and resumed."""

import copy
import io
import json
from typing import Any

import pytest
import torch

from everstep.contracts.records import job_name
from tests.scenarios.lab import FOREIGN, Lab

pytestmark = pytest.mark.scenario
STEPS = 40


def torchrun_spec(step_seconds: float) -> dict[str, Any]:
    spec = copy.deepcopy(FOREIGN)
    spec["stop"] = {"steps": STEPS, "max_runtime_hours": 1}
    spec["trainer"] = {
        "launcher": "torchrun",
        "command": ["examples/foreign_torchrun.py"],
        "hyperparameters": {"save_every": "5", "step_seconds": str(step_seconds)},
    }
    return spec


def test_a_foreign_torchrun_program_survives_a_lost_host(lab: Lab) -> None:
    unbroken = lab.start("torchrun-whole", torchrun_spec(0))
    arn = lab.start("torchrun-broken", torchrun_spec(0.2))
    lab.at_step("torchrun-broken", 1, 12)
    lab.control.kill_host(job_name("torchrun-broken", 1), "algo-2")
    assert lab.end(unbroken)["status"] == "SUCCEEDED"
    assert lab.end(arn)["status"] == "SUCCEEDED"

    first, second = lab.launches("torchrun-broken")
    assert first.failure is not None
    assert second.resume_step >= 10
    whole, broken = lab.view("torchrun-whole"), lab.view("torchrun-broken")
    assert sorted(whole.losses) == list(range(1, STEPS + 1))
    assert broken.losses == whole.losses
    torch.testing.assert_close(
        final_state(lab, "torchrun-broken", 2),
        final_state(lab, "torchrun-whole", 1),
        rtol=0,
        atol=0,
    )
    entry = lab.job("torchrun-whole", 1)["AlgorithmSpecification"]
    assert entry["ContainerEntrypoint"][:3] == ["torchrun", "--nnodes=2", "--nproc-per-node=1"]


def final_state(lab: Lab, run_id: str, launch: int) -> dict[str, Any]:
    """All weights and optimizer state after the last step."""
    uri = lab.cloud.run(run_id).team.checkpoint_uri.removeprefix("s3://")
    bucket, _, prefix = uri.partition("/")
    folder = f"{prefix}/{run_id}/step-{STEPS:08d}.{launch:05d}"
    s3 = lab.cloud.client("s3")
    manifest = json.loads(
        s3.get_object(Bucket=bucket, Key=f"{folder}/manifest.json")["Body"].read()
    )
    assert manifest["final"] is True
    data = s3.get_object(Bucket=bucket, Key=f"{folder}/state.pt")["Body"].read()
    return dict(torch.load(io.BytesIO(data), weights_only=True))
