"""Start, stop, and what is left after a kill: nothing."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from emulator.processes import alive
from emulator.service import start, status, stop

from .conftest import Cloud, unique, until

SLEEPER = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', "
SLEEPER += "'import time; time.sleep(600)'], start_new_session=True); time.sleep(600)"


def busy(state: Path) -> tuple[Any, list[int]]:
    """An emulator with a function's worker, and a host whose child has its own session."""
    endpoint = start(state, with_parent=True)
    cloud = Cloud(endpoint.endpoint, state)
    cloud.invoke(cloud.function("def handler(event, context): return 1"))
    cloud("s3").create_bucket(Bucket="out")
    cloud("sagemaker").create_training_job(
        TrainingJobName=unique("job"),
        RoleArn=cloud.role(),
        AlgorithmSpecification={
            "TrainingImage": "x/y:1",
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["python", "-c", SLEEPER],
        },
        OutputDataConfig={"S3OutputPath": "s3://out/x"},
        ResourceConfig={
            "InstanceType": "ml.m5.large",
            "InstanceCount": 1,
            "VolumeSizeInGB": 1,
        },
        StoppingCondition={"MaxRuntimeInSeconds": 600},
    )
    until(lambda: len(cloud.control.processes()) >= 3)
    return endpoint, [row["pid"] for row in cloud.control.processes()]


def test_start_is_idempotent_and_stop_ends_all(tmp_path: Path) -> None:
    endpoint, pids = busy(tmp_path)
    assert start(tmp_path) == endpoint
    found = status(tmp_path)
    assert (found["running"], found["endpoint"]) == (True, endpoint.endpoint)
    assert stop(tmp_path)
    until(lambda: not any(alive(pid) for pid in pids), 20)
    assert not (tmp_path / "emulator.json").exists()
    assert status(tmp_path) == {"running": False}
    assert not stop(tmp_path)


def test_two_starts_at_once_are_one(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: start(tmp_path, with_parent=True), range(2))
    assert first == second
    assert stop(tmp_path)


def test_kill_leaves_nothing_behind(tmp_path: Path) -> None:
    endpoint, pids = busy(tmp_path)
    os.kill(endpoint.pid, signal.SIGKILL)
    until(lambda: not any(alive(pid) for pid in pids), 20)
    assert status(tmp_path) == {"running": False}


def test_a_taken_port_is_said(tmp_path: Path, cloud: Cloud) -> None:
    port = int(cloud.endpoint.rpartition(":")[2])
    with pytest.raises(RuntimeError, match=r"serve\.log"):
        start(tmp_path, port=port)
