"""Runs that outgrow something, on the emulator: an execution's history, a budget."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from everstep.contracts.failures import FailureClass, StopReason
from everstep.contracts.names import OUTPUT_TABLE, OUTPUT_TOPIC
from everstep.contracts.records import job_name
from tests.chaos.invariants import expected_state
from tests.chaos.random_faults import CONTINUE_AFTER_TURNS
from tests.scenarios.lab import Lab

pytestmark = pytest.mark.scenario
STEPS = 40
LOSSES = 4
"""Of a host: with the launch that arrives, more than one execution holds."""


def spec_of(**sections: Any) -> dict[str, Any]:
    return {
        "model": "tiny",
        "data": "datasets/stdlib",
        "compute": [{"instance_type": "ml.m5.large", "nodes": 1}],
        "train": {"sequence_length": 128, "global_batch": 16, "micro_batch": 4, "dtype": "fp32"},
        "checkpoint": {"every_steps": 5},
        "retry": {"backoff_seconds": 1, "backoff_cap_seconds": 2},
        "watch": {"starting": 60, "warmup": 60, "step": 30},
        "stop": {"steps": STEPS, "max_runtime_hours": 1},
        **sections,
    }


def lean(step_seconds: float, **environment: str) -> dict[str, Any]:
    return {
        "command": ["python", "tests/chaos/lean.py"],
        "environment": {"LEAN_STEP_SECONDS": str(step_seconds), **environment},
    }


def rows_of(lab: Lab, run_id: str) -> list[str]:
    """Runs in the table whose id begins so: an execution's name must not have become a run."""
    pages = lab.cloud.client("dynamodb").get_paginator("scan")
    items = [
        item
        for page in pages.paginate(TableName=lab.cloud.outputs[OUTPUT_TABLE])
        for item in page["Items"]
    ]
    runs = [item["run_id"]["S"] for item in items if item["item"]["S"] == "run"]
    return [name for name in runs if name.startswith(run_id)]


def test_a_run_of_more_launches_than_an_execution_holds_arrives(lab: Lab) -> None:
    """``continue_after_turns`` of this environment is low; nothing else differs."""
    run_id = "long-life"
    first = lab.start(run_id, spec_of(trainer=lean(0.1)))
    for number in range(1, LOSSES + 1):
        lab.at_step(run_id, number, 8 * number)
        lab.control.kill_host(job_name(run_id, number))
    last = lab.end(first)
    assert last["status"] == "SUCCEEDED"
    there = lab.executions_of(run_id)
    assert {name: e["status"] for name, e in there.items()} == {
        run_id: "SUCCEEDED",
        f"{run_id}-c01": "SUCCEEDED",
    }
    assert last["name"] == f"{run_id}-c01"
    run, launches = lab.cloud.run(run_id), lab.launches(run_id)
    assert (run.status, run.execution_arn) == ("done", last["executionArn"])
    assert rows_of(lab, run_id) == [run_id]
    held = [x.execution_arn.rpartition(":")[2] for x in launches]
    assert held == [run_id] * CONTINUE_AFTER_TURNS + [f"{run_id}-c01"] * (
        LOSSES + 1 - CONTINUE_AFTER_TURNS
    )
    assert sum(x.spent_attempt for x in launches) == LOSSES + 1
    assert lab.jobs_of(run_id) == [job_name(run_id, n + 1) for n in range(LOSSES + 1)]
    assert lab.object(f"{lab.final_checkpoint(run_id)}/state.txt") == expected_state(STEPS)


@pytest.fixture
def messages(lab: Lab) -> Callable[[str], list[str]]:
    """What the topic said of a run so far, oldest first."""
    sqs = lab.cloud.client("sqs")
    queue = sqs.create_queue(QueueName=f"inbox-{time.time_ns()}")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]
    lab.cloud.client("sns").subscribe(
        TopicArn=lab.cloud.outputs[OUTPUT_TOPIC], Protocol="sqs", Endpoint=arn["QueueArn"]
    )
    seen: list[dict[str, Any]] = []

    def read(run_id: str) -> list[str]:
        while found := sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages"):
            for message in found:
                seen.append(json.loads(message["Body"]))
                sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        return [m["Message"] for m in seen if m["MessageAttributes"]["run_id"]["Value"] == run_id]

    return read


SECONDS = 16
"""That each budget leaves."""
BUDGETS: dict[str, Callable[[], dict[str, Any]]] = {
    "usd": lambda: {"max_usd": round(0.115 * SECONDS / 3600, 8)},
    "hours": lambda: {"max_gpu_hours": round(SECONDS / 3600, 8)},
    "deadline": lambda: {"deadline": (datetime.now(UTC) + timedelta(seconds=SECONDS)).isoformat()},
}
SAYS = {"usd": "USD of 0.000511", "hours": "GPU hours of 0.00444", "deadline": "has passed"}


def test_a_budget_that_ends_while_a_job_runs_ends_the_run(
    lab: Lab, messages: Callable[[str], list[str]]
) -> None:
    """The trainer is deaf: neither its own deadline nor SageMaker's SIGTERM ends it."""
    names = {kind: f"budget-{kind}" for kind in BUDGETS}
    trainer = lean(0.5, LEAN_DEAF="1")
    stop = {"steps": 400, "max_runtime_hours": 1}
    arns = {
        kind: lab.start(names[kind], spec_of(trainer=trainer, stop=stop, budget=made()))
        for kind, made in BUDGETS.items()
    }
    for kind, run_id in names.items():
        ended = lab.end(arns[kind])
        assert (ended["status"], ended["error"]) == ("FAILED", "Budget"), ended.get("cause")
        assert SAYS[kind] in ended["cause"]
        (launch,) = lab.launches(run_id)
        assert launch.stop_reason is StopReason.BUDGET  # the watchdog's, in words
        assert launch.failure is not None
        assert launch.failure.failure_class is FailureClass.BUDGET
        job = lab.job(run_id, 1)
        assert job["TrainingJobStatus"] == "Stopped"
        assert lab.jobs_of(run_id) == [job_name(run_id, 1)]
        assert not [p for p in lab.control.processes() if f"{run_id}-" in p["name"]]
        assert launch.outcome is not None
        assert launch.outcome.billable_seconds == job["BillableTimeInSeconds"]
        assert lab.cloud.run(run_id).status == "gave_up"
        said = messages(run_id)
        assert len(said) == 2, said
        assert "nears its budget" in said[0]
        assert "gave up" in said[1]
        assert SAYS[kind] in said[1]
