"""A file system that does not answer, and the reference trainer. See ``emulator/fsx_stall.py``."""

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from everstep.contracts.failures import FailureClass
from tests.scenarios.lab import ROOT, Lab

pytestmark = pytest.mark.scenario
DATA = "datasets/many-shards"
STEPS = 24
AT = 6
BUDGET = 8
"""Seconds for a step."""


@pytest.fixture(scope="module")
def shards(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> None:
    """So many shards that at no step of these runs all have been opened."""
    folder: Path = tmp_path_factory.mktemp("shards") / "data"
    command = [sys.executable, "-m", "trainer.prepare", "--out", str(folder)]
    command += ["--limit-mb", "1", "--shard-tokens", "2048"]
    subprocess.run(command, cwd=ROOT, env=lab.environ, check=True, capture_output=True)
    bucket, _, prefix = lab.cloud.outputs["DataBucket"], "", "research"
    for file in folder.iterdir():
        lab.cloud.client("s3").upload_file(str(file), bucket, f"{prefix}/{DATA}/{file.name}")


def run(lab: Lab, run_id: str, step_budget: int, stall: float = 0.0) -> None:
    spec: dict[str, Any] = {
        "model": "tiny",
        "data": {"prefix": DATA, "mode": "fsx"},
        "compute": [{"instance_type": "ml.m5.large", "nodes": 1}],
        "train": {
            "sequence_length": 128,
            "global_batch": 16,
            "micro_batch": 8,
            "dtype": "fp32",
        },
        "checkpoint": {"every_steps": 4},
        "retry": {"backoff_seconds": 1, "backoff_cap_seconds": 2},
        "watch": {"starting": 120, "warmup": 120, "step": step_budget, "stopping": 60},
        "stop": {"steps": STEPS, "max_runtime_hours": 1},
    }
    arn = lab.start(run_id, spec)
    if stall:
        lab.at_step(run_id, 1, AT)
        assert lab.control.stall_file_systems(stall) > 0
    ended = lab.end(arn)
    assert ended["status"] == "SUCCEEDED", ended.get("cause")


@pytest.fixture(scope="module")
def unbroken(lab: Lab, shards: None) -> str:
    run(lab, "stall-none", 60)
    return lab.weights("stall-none")


def gap(lab: Lab, run_id: str) -> float:
    """The longest time between two steps of the first launch."""
    times = [at for at, _, text in lab.cloud.log_lines(run_id, 1) if '"everstep":"step"' in text]
    return max(b - a for a, b in itertools.pairwise(times))


def test_a_short_stall_costs_no_attempt(lab: Lab, unbroken: str) -> None:
    run(lab, "stall-short", 60, stall=6)
    (launch,) = lab.launches("stall-short")
    assert launch.failure is None
    assert gap(lab, "stall-short") >= 4  # it did meet the stall
    assert lab.weights("stall-short") == unbroken


def test_a_long_stall_is_a_hang_that_names_the_file_system(lab: Lab, unbroken: str) -> None:
    run(lab, "stall-long", BUDGET, stall=BUDGET + 22)
    first, second = lab.launches("stall-long")
    assert first.failure is not None
    assert first.failure.failure_class is FailureClass.HANG
    system = lab.cloud.run("stall-long").team.file_system_id
    assert f"budget watch.step is {BUDGET} s" in first.failure.cause
    assert f"it works on {system}" in first.failure.cause
    assert second.failure is None
    assert lab.weights("stall-long") == unbroken
