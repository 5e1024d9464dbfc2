"""What a scenario does: start a run, wait for a condition, break something, look at the end."""

import copy
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from emulator import service
from emulator.control import Control
from everstep.cli.cloud import Cloud
from everstep.cli.errors import CliError
from everstep.cli.local import MINUTE, populate
from everstep.cli.view import RunView
from everstep.contracts.manifest import CheckpointName
from everstep.contracts.records import Launch, job_name

ROOT = Path(__file__).parents[2]
FOREIGN = {
    "model": "tiny",
    "data": "datasets/stdlib",
    "compute": [{"instance_type": "ml.m5.large", "nodes": 2}],
    "train": {"sequence_length": 128, "global_batch": 16, "micro_batch": 4, "dtype": "fp32"},
    "checkpoint": {"every_steps": 5},
    "retry": {"backoff_seconds": 1, "backoff_cap_seconds": 2},
    "watch": {"starting": 60, "warmup": 60, "step": 30},
    "trainer": {"command": ["python", "tests/scenarios/foreign.py"]},
    "stop": {"steps": 40, "max_runtime_hours": 1},
}
DEADLINE = 300.0
QUOTA = "ml.m5.large for training job usage"
QUOTA_VALUE = 4
"""Set once: handlers keep quotas for a while. Every scenario needs two, one needs all four."""


class Lab:
    def __init__(self, cloud: Cloud, control: Control, environ: dict[str, str], work: Path) -> None:
        self.cloud, self.control, self.environ, self.work = cloud, control, environ, work

    def reset(self) -> None:
        """No fault of this scenario reaches the next one."""
        self.control.events("")
        self.control.schedule(on=True)
        assert self.control.status()["faults_left"] == {}

    def foreign(
        self, steps: int = 40, step_seconds: float = 0.05, **environment: str
    ) -> dict[str, Any]:
        """A spec whose trainer is the torch-free foreign script."""
        spec = copy.deepcopy(FOREIGN)
        spec["stop"]["steps"] = steps  # type: ignore[index]
        spec["trainer"]["environment"] = {  # type: ignore[index]
            "FOREIGN_STEP_SECONDS": str(step_seconds),
            **environment,
        }
        return spec

    def start(self, run_id: str, spec: dict[str, Any]) -> str:
        """The execution's ARN."""
        answer = self.cloud.client("stepfunctions").start_execution(
            stateMachineArn=self.cloud.machine_arn(None), name=run_id, input=json.dumps(spec)
        )
        return str(answer["executionArn"])

    def execution(self, arn: str) -> dict[str, Any]:
        return dict(self.cloud.client("stepfunctions").describe_execution(executionArn=arn))

    def end(self, arn: str, seconds: float = DEADLINE) -> dict[str, Any]:
        """The execution once it is over; where the run went on in another one, that one."""

        def over(arn: str) -> dict[str, Any] | None:
            found = self.execution(arn)
            return None if found["status"] == "RUNNING" else found

        while True:
            ended = self.until(partial(over, arn), f"end of {arn}", seconds)
            successor = goes_on_as(ended)
            if successor is None:
                return dict(ended)
            arn = successor

    def executions_of(self, run_id: str) -> dict[str, dict[str, Any]]:
        """Every execution of the run by name, whoever started it."""
        pages = (
            self.cloud.client("stepfunctions")
            .get_paginator("list_executions")
            .paginate(stateMachineArn=self.cloud.machine_arn(None))
        )
        return {
            e["name"]: e
            for page in pages
            for e in page["executions"]
            if re.fullmatch(rf"{re.escape(run_id)}(-c\d+)?", e["name"])
        }

    def until(self, holds: Callable[[], Any], what: str, seconds: float = DEADLINE) -> Any:
        """Poll until it holds; its value. Fails the test at the deadline."""
        deadline = time.monotonic() + seconds
        while True:
            value = holds()
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds:.0f} s: {what}")
            time.sleep(0.2)

    def step_of(self, run_id: str, launch: int) -> int:
        return max((s.step for s in self.cloud.steps(run_id, launch)), default=0)

    def at_step(self, run_id: str, launch: int, step: int) -> int:
        """Wait until the launch has done a step; how far it is then."""
        return int(
            self.until(
                lambda: (now := self.step_of(run_id, launch)) >= step and now,
                f"step {step} of launch {launch} of {run_id}",
            )
        )

    def status_of(self, run_id: str) -> str | None:
        """None until ValidateSpec has accepted it."""
        try:
            return str(self.cloud.run(run_id).status)
        except CliError:
            return None

    def view(self, run_id: str) -> RunView:
        return RunView.load(self.cloud, run_id)

    def launches(self, run_id: str) -> list[Launch]:
        return self.cloud.launches(run_id)

    def job(self, run_id: str, launch: int) -> dict[str, Any]:
        return dict(
            self.cloud.client("sagemaker").describe_training_job(
                TrainingJobName=job_name(run_id, launch)
            )
        )

    def jobs_of(self, run_id: str) -> list[str]:
        """Every job that SageMaker has of this run, by name: the table is not asked."""
        pages = (
            self.cloud.client("sagemaker")
            .get_paginator("list_training_jobs")
            .paginate(NameContains=run_id)
        )
        return sorted(
            j["TrainingJobName"]
            for page in pages
            for j in page["TrainingJobSummaries"]
            if j["TrainingJobName"].rpartition("-")[0] == run_id
        )

    def final_checkpoint(self, run_id: str) -> str:
        """The URI of the newest checkpoint; its folder here where a file system has it."""
        run = self.cloud.run(run_id)
        bucket, _, prefix = run.team.checkpoint_uri.removeprefix("s3://").partition("/")
        pages = (
            self.cloud.client("s3")
            .get_paginator("list_objects_v2")
            .paginate(Bucket=bucket, Prefix=f"{prefix}/{run_id}/")
        )
        names = {
            name
            for page in pages
            for item in page.get("Contents", [])
            if item["Key"].endswith("/manifest.json")
            and (name := CheckpointName.parse(item["Key"].removesuffix("/manifest.json")))
        }
        newest = max(names, key=lambda n: n.order)
        if run.spec.checkpoint.storage == "fsx":
            team = run.team
            mounted = self.work / "fsx" / str(team.file_system_id)
            return f"{mounted}{team.file_system_checkpoints}/{run_id}/{newest}"
        return f"s3://{bucket}/{prefix}/{run_id}/{newest}"

    def weights(self, run_id: str) -> str:
        """A digest over the full weights of the final checkpoint, after it was verified."""
        return self.digest(self.final_checkpoint(run_id))

    def digest(self, checkpoint: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "trainer.verify", checkpoint, "--digest"],
            cwd=ROOT,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return str(json.loads(done.stdout.splitlines()[-1])["weights_sha256"])

    def object(self, uri: str) -> str:
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        body = self.cloud.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
        return str(body.decode())

    def put(self, uri: str, text: str) -> None:
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        self.cloud.client("s3").put_object(Bucket=bucket, Key=key, Body=text.encode())

    def everstep(self, *arguments: str) -> None:
        """Everstep's own command line, as a user of this environment has it."""
        done = subprocess.run(
            [sys.executable, "-m", "everstep.cli.main", *arguments, "--env", self.cloud.env],
            cwd=ROOT,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def aws(self, *arguments: str) -> Any:
        """The stock AWS command line; its JSON."""
        done = subprocess.run(
            [str(Path(sys.executable).parent / "aws"), *arguments, "--output", "json"],
            cwd=ROOT,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"aws {' '.join(arguments)}: {done.stderr}"
        return json.loads(done.stdout) if done.stdout.strip() else None


def goes_on_as(execution: Mapping[str, Any]) -> str | None:
    """ARN of the execution that a described one has handed its run to."""
    if execution["status"] != "SUCCEEDED":
        return None
    said = json.loads(execution["output"]).get("message") or ""
    words, _, arn = said.rpartition(" ")
    return arn if words == "goes on as" else None


@contextmanager
def deployed(
    work: Path, quotas: Mapping[str, float], env: str = "local", minute: float = MINUTE
) -> Iterator[Lab]:
    """An emulator of its own, deployed with the real CDK command line."""
    endpoint = service.start(work, minute=minute, with_parent=True)
    try:
        environ = {**os.environ, **endpoint.environment}
        cloud = populate(environ, endpoint.endpoint, work, print, env)
        control = Control(endpoint.endpoint)
        for name, value in quotas.items():
            control.quota(name, value)
        yield Lab(cloud, control, environ, work)
    finally:
        service.stop(work)
