"""A job made in a notebook, killed, taken over; and everything that must not be."""

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from everstep.contracts import names
from everstep.contracts.records import job_name
from everstep.contracts.run_id import adoption_name
from tests.scenarios.lab import ROOT, Lab

pytestmark = pytest.mark.scenario

ROLE = "arn:aws:iam::123456789012:role/notebook-jobs"
"""The one that config/local.toml names."""
STEPS = 200
"""Long enough to be killed in, on a busy machine too."""


def notebook(
    lab: Lab,
    name: str,
    *arguments: str,
    role: str = ROLE,
    script: str = "examples/adopt_notebook_job.py",
    python: str = sys.executable,
) -> str:
    """Run the example; the job's ARN."""
    place = ("--bucket", bucket(lab), "--steps", str(STEPS))
    done = subprocess.run(
        [python, script, "--role", role, "--name", name, *place, *arguments],
        cwd=ROOT,
        env=lab.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


def bucket(lab: Lab) -> str:
    return str(lab.cloud.outputs[names.OUTPUT_CHECKPOINTS])


def state(lab: Lab, name: str) -> dict[str, Any] | None:
    """The program's own checkpoint, as SageMaker has copied it."""
    uri = f"s3://{bucket(lab)}/research/notebook/{name}/checkpoints/state.json"
    try:
        return dict(json.loads(lab.object(uri)))
    except lab.cloud.client("s3").exceptions.NoSuchKey:
        return None


def kill(lab: Lab, name: str) -> None:
    """Its host, once a checkpoint is in S3."""
    lab.until(lambda: state(lab, name), f"a checkpoint of {name}")
    lab.control.kill_host(name, "algo-1")
    client = lab.cloud.client("sagemaker")
    lab.until(
        lambda: client.describe_training_job(TrainingJobName=name)["TrainingJobStatus"] == "Failed",
        f"the end of {name}",
    )


def execution_of(lab: Lab, arn: str) -> dict[str, Any] | None:
    run_id = adoption_name(arn)
    machine = lab.cloud.machine_arn(None)
    execution = machine.replace(":stateMachine:", ":execution:") + f":{run_id}"
    client = lab.cloud.client("stepfunctions")
    try:
        return dict(client.describe_execution(executionArn=execution))
    except client.exceptions.ExecutionDoesNotExist:
        return None


def weights(steps: int) -> str:
    made = "start"
    for step in range(1, steps + 1):
        made = hashlib.sha256(f"{made} {step}".encode()).hexdigest()
    return made


def handled(lab: Lab, name: str, word: str) -> int:
    """Lines of on_job_event's own log that hold a job's name and a word."""
    client = lab.cloud.client("logs")
    pages = client.get_paginator("filter_log_events").paginate(
        logGroupName="/aws/lambda/everstep-local-OnJobEvent", filterPattern=f'"{name}"'
    )
    return sum(word in e["message"] for page in pages for e in page["events"])


@pytest.mark.parametrize("events", ["", "triple"])
def test_a_notebooks_job_that_lost_its_host_arrives(lab: Lab, events: str) -> None:
    name = f"notebook{events}"
    lab.control.events(events)
    arn = notebook(lab, name)
    kill(lab, name)
    run_id = adoption_name(arn)
    started = lab.until(lambda: execution_of(lab, arn), "an execution that takes over")
    ended = lab.end(started["executionArn"])
    assert ended["status"] == "SUCCEEDED", ended
    assert state(lab, name) == {"step": STEPS, "weights": weights(STEPS)}

    run, launches = lab.cloud.run(run_id), lab.launches(run_id)
    assert run.status == "done"
    assert [x.job_name for x in launches] == [name, job_name(run_id, 2)]
    assert launches[0].failure is not None
    assert launches[0].failure.failure_class == "infrastructure"
    assert lab.jobs_of(run_id) == [job_name(run_id, 2)]

    client = lab.cloud.client("sagemaker")
    first = client.describe_training_job(TrainingJobName=name)
    second = client.describe_training_job(TrainingJobName=job_name(run_id, 2))
    for key in ("RoleArn", "HyperParameters", "CheckpointConfig", "ResourceConfig"):
        assert first[key] == second[key]
    tags = client.list_tags(ResourceArn=second["TrainingJobArn"])["Tags"]
    assert "everstep:auto-retry" not in {tag["Key"] for tag in tags}
    machine = lab.cloud.machine_arn(None)
    all_of_them = lab.cloud.client("stepfunctions").list_executions(stateMachineArn=machine)
    assert [e["name"] for e in all_of_them["executions"]].count(run_id) == 1


def test_without_the_tag_or_with_a_role_that_config_does_not_name_nothing_is_started(
    lab: Lab,
) -> None:
    endless = ("--steps", "100000")
    quiet = notebook(lab, "untagged", "--no-auto-retry", *endless)
    other = notebook(lab, "other-role", *endless, role="arn:aws:iam::123456789012:role/somebody")
    kill(lab, "untagged")
    kill(lab, "other-role")
    lab.until(lambda: handled(lab, "other-role", "is not in adopt_job_roles"), "a refusal")
    lab.until(lambda: handled(lab, "untagged", "acted"), "a look at the other job")
    time.sleep(2)
    assert execution_of(lab, quiet) is None
    assert execution_of(lab, other) is None
    assert handled(lab, "other-role", "is not in adopt_job_roles") == 1


def sdk_python() -> str:
    """An interpreter that has the SDK: this one, or one of an environment of its own."""
    named = os.environ.get("EVERSTEP_SDK_PYTHON")
    if named:
        return named
    pytest.importorskip("sagemaker.core", reason="the SDK is not installed: see docs/adopt.md")
    return sys.executable


def test_a_job_that_the_real_sdk_made_arrives(lab: Lab) -> None:
    """Only where the SDK is: it is big, its pins are tight, and nothing else here needs it."""
    arn = notebook(lab, "sdk", script="examples/adopt_sdk_job.py", python=sdk_python())
    kill(lab, "sdk")
    started = lab.until(lambda: execution_of(lab, arn), "an execution that takes over")
    assert lab.end(started["executionArn"])["status"] == "SUCCEEDED"
    assert state(lab, "sdk") == {"step": STEPS, "weights": weights(STEPS)}


def test_an_increase_that_aws_grants_wakes_the_run_that_asked(lab: Lab) -> None:
    quota = "ml.g5.2xlarge for training job usage"  # AWS's default for GPU types: 0
    spec = lab.foreign(steps=10)
    spec["compute"] = [{"instance_type": "ml.g5.2xlarge", "nodes": 2}]
    arn = lab.start("asks", {**spec, "quota": {"request_increase": True}})
    lab.until(lambda: lab.status_of("asks") == "waiting", "the run waits for the increase")
    waiting = lab.cloud.run("asks").waiting
    assert waiting is not None
    assert f"waits for the increase of quota {quota!r} to 2" in waiting.reason
    lab.control.quota_answer(quota, "APPROVED")
    assert lab.end(arn)["status"] == "SUCCEEDED"
    assert len(lab.launches("asks")) == 1


def test_every_call_that_was_made_is_allowed(lab: Lab) -> None:
    from emulator.access_report import access_report

    assert access_report(Path(lab.work))["denied"] == []
