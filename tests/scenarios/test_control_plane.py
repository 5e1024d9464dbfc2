"""What the control plane promises whatever the trainer is: torch-free, so that many fit."""

import hashlib
import json
from datetime import UTC, datetime, timedelta

import pytest

from emulator.access_report import access_report
from everstep.contracts.records import job_name
from tests.scenarios.lab import Lab

pytestmark = pytest.mark.scenario


def expected_state(steps: int) -> str:
    """The foreign trainer's weights after an unbroken run."""
    state = "start"
    for step in range(1, steps + 1):
        state = hashlib.sha256(f"{state} {step}".encode()).hexdigest()
    return state


def check_arrived(lab: Lab, run_id: str, steps: int, launches: int) -> None:
    """Done, with the weights of an unbroken run, and exactly as many jobs as launches."""
    view = lab.view(run_id)
    assert view.run.status == "done"
    assert lab.object(f"{lab.final_checkpoint(run_id)}/state.txt") == expected_state(steps)
    assert len(view.launches) == launches
    assert lab.jobs_of(run_id) == [job_name(run_id, n + 1) for n in range(launches)]


def test_a_silent_watchdog_stops_nothing_healthy(lab: Lab) -> None:
    lab.control.schedule(on=False)
    arn = lab.start("unwatched", lab.foreign(steps=60, step_seconds=0.5))
    history = lab.cloud.client("stepfunctions").get_paginator("get_execution_history")

    def inspected() -> int:
        events = [e for page in history.paginate(executionArn=arn) for e in page["events"]]
        return sum(
            e.get("stateEnteredEventDetails", {}).get("name") == "InspectAttempt" for e in events
        )

    lab.until(lambda: inspected() >= 2, "two missing heartbeats")
    assert lab.end(arn)["status"] == "SUCCEEDED"
    check_arrived(lab, "unwatched", 60, launches=1)
    assert lab.launches("unwatched")[0].stop_reason is None


def test_a_lost_event_costs_a_minute_of_the_watchdog(lab: Lab) -> None:
    lab.control.events("lose")
    arn = lab.start("lost-event", lab.foreign(steps=20))
    assert lab.end(arn)["status"] == "SUCCEEDED"
    check_arrived(lab, "lost-event", 20, launches=1)


def test_events_three_times_and_late_change_nothing(lab: Lab) -> None:
    lab.control.events("triple")
    arn = lab.start("thrice", lab.foreign(steps=40, step_seconds=0.1))
    lab.at_step("thrice", 1, 12)
    lab.control.kill_host(job_name("thrice", 1), "algo-1")
    lab.until(lambda: len(lab.launches("thrice")) == 2, "a second launch")
    lab.control.events("late")
    assert lab.end(arn)["status"] == "SUCCEEDED"
    check_arrived(lab, "thrice", 40, launches=2)


def test_stop_execution_leaves_no_job_and_redrive_goes_on(lab: Lab) -> None:
    arn = lab.start("stopped", lab.foreign(steps=60, step_seconds=0.2))
    lab.at_step("stopped", 1, 12)
    lab.aws("stepfunctions", "stop-execution", "--execution-arn", arn)
    lab.until(lambda: lab.job("stopped", 1)["TrainingJobStatus"] == "Stopped", "a stopped job")
    lab.until(lambda: lab.status_of("stopped") == "stopped", "the run's row")
    assert lab.execution(arn)["status"] == "ABORTED"
    assert not [p for p in lab.control.processes() if job_name("stopped", 1) in p["name"]]

    lab.aws("stepfunctions", "redrive-execution", "--execution-arn", arn)
    assert lab.end(arn)["status"] == "SUCCEEDED"
    check_arrived(lab, "stopped", 60, launches=2)
    assert lab.launches("stopped")[1].resume_step >= 10


def test_the_same_bug_ends_after_the_second_attempt_and_redrive_goes_on_once_mended(
    lab: Lab,
) -> None:
    arn = lab.start("buggy", lab.foreign(steps=30, FOREIGN_BUG_AT="13"))
    ended = lab.end(arn)
    assert ended["status"] == "FAILED"
    assert ended["error"] == "UserCode"
    assert "the same bug every time" in ended["cause"]
    first, second = lab.launches("buggy")
    assert (first.committed_step, second.committed_step) == (10, 10)
    assert second.decision is not None
    assert second.decision.kind == "give_up"
    assert lab.cloud.run("buggy").status == "gave_up"

    lab.put(f"{lab.cloud.run('buggy').team.checkpoint_uri}/buggy/mended", "yes")
    lab.aws("stepfunctions", "redrive-execution", "--execution-arn", arn)
    assert lab.end(arn)["status"] == "SUCCEEDED"
    check_arrived(lab, "buggy", 30, launches=3)


def test_no_capacity_spends_no_attempt(lab: Lab) -> None:
    lab.control.capacity(count=2)
    spec = {
        **lab.foreign(steps=20),
        "retry": {
            "backoff_seconds": 1,
            "backoff_cap_seconds": 2,
            "max_attempts": 1,
        },
    }
    arn = lab.start("no-capacity", spec)
    assert lab.end(arn)["status"] == "SUCCEEDED"
    check_arrived(lab, "no-capacity", 20, launches=3)
    spent = [x.spent_attempt for x in lab.launches("no-capacity")]
    assert spent == [False, False, True]


def test_a_run_waits_for_quota_on_one_state(lab: Lab) -> None:
    holder = lab.start("holder", lab.foreign(steps=30, step_seconds=0.2))
    lab.until(lambda: lab.jobs_of("holder"), "a job that uses half of the quota")
    spec = lab.foreign(steps=10)
    spec["compute"][0]["nodes"] = 4
    waiter = lab.start("waiter", spec)
    lab.until(lambda: lab.status_of("waiter") == "waiting", "the second run waits")
    assert lab.jobs_of("waiter") == []
    assert lab.end(holder)["status"] == "SUCCEEDED"
    assert lab.end(waiter)["status"] == "SUCCEEDED"
    check_arrived(lab, "waiter", 10, launches=1)


def test_starting_twice_is_one_run(lab: Lab) -> None:
    spec = lab.foreign(steps=30, step_seconds=0.1)
    assert lab.start("twice", spec) == lab.start("twice", spec)
    assert lab.end(lab.start("twice", spec))["status"] == "SUCCEEDED"
    check_arrived(lab, "twice", 30, launches=1)


@pytest.mark.parametrize(
    ("name", "spec", "said"),
    [
        (
            "empty",
            {},
            [
                "model: is required",
                "data: is required",
                "compute: is required",
                "stop: is required",
            ],
        ),
        ("unknown", {"modle": "tiny"}, ["modle: unknown field", "did you mean 'model'?"]),
        (
            "type",
            {"stop": {"steps": "many"}},
            ["stop.steps: is no whole number (got 'many')", "hint:"],
        ),
        ("mesh", {"parallelism": {"shard": 3}}, ["is not the world size 2", "hint: leave"]),
        ("prefix", {"data": "datasets/nowhere"}, ["no dataset at s3://", "datasets/nowhere"]),
        (
            "instance",
            {"compute": [{"instance_type": "ml.p5.47xlarge"}]},
            ["unknown instance type (got 'ml.p5.47xlarge')", "ml.p5.48xlarge"],
        ),
    ],
)
def test_a_bad_spec_is_refused_with_every_problem_and_no_job(
    lab: Lab, name: str, spec: dict[str, object], said: list[str]
) -> None:
    run_id = f"bad-{name}"
    whole = spec if name == "empty" else {**lab.foreign(), **spec}
    arn = lab.start(run_id, whole)
    ended = lab.end(arn)
    assert (ended["status"], ended["error"]) == ("FAILED", "InvalidSpec")
    for text in said:
        assert text in ended["cause"]
    assert ended["cause"].count("hint:") >= len([s for s in said if "required" in s]) or 1
    assert lab.jobs_of(run_id) == []
    history = lab.cloud.client("stepfunctions").get_execution_history(executionArn=arn)
    entered = [event.get("stateEnteredEventDetails", {}).get("name") for event in history["events"]]
    assert [name for name in entered if name] == ["ValidateSpec", "Next", "RefuseSpec"]


def test_the_stock_command_line_does_it_all(lab: Lab) -> None:
    machine = lab.cloud.machine_arn(None)
    started = lab.aws(
        "stepfunctions",
        "start-execution",
        "--state-machine-arn",
        machine,
        "--name",
        "by-hand",
        "--input",
        "file://examples/tiny.json",
    )
    arn = started["executionArn"]
    lab.end(arn)
    assert lab.aws("stepfunctions", "describe-execution", "--execution-arn", arn)["status"] == (
        "SUCCEEDED"
    )
    events = lab.aws("stepfunctions", "get-execution-history", "--execution-arn", arn)["events"]
    entered = [
        e["stateEnteredEventDetails"]["name"] for e in events if "stateEnteredEventDetails" in e
    ]
    assert [s for s in entered if s != "Next"] == [
        "ValidateSpec",
        "CheckQuota",
        "PlanAttempt",
        "LaunchAttempt",
        "VerifyOutcome",
        "Finish",
        "Done",
    ]
    job = job_name("by-hand", 1)
    described = lab.aws("sagemaker", "describe-training-job", "--training-job-name", job)
    assert described["TrainingJobStatus"] == "Completed"
    streams = lab.aws(
        "logs",
        "describe-log-streams",
        "--log-group-name",
        "/aws/sagemaker/TrainingJobs",
        "--log-stream-name-prefix",
        f"{job}/",
    )
    name = streams["logStreams"][0]["logStreamName"]
    lines = lab.aws(
        "logs",
        "get-log-events",
        "--log-group-name",
        "/aws/sagemaker/TrainingJobs",
        "--log-stream-name",
        name,
        "--start-from-head",
    )["events"]
    assert any('"everstep":"step"' in e["message"] for e in lines)
    query = [
        {
            "Id": "loss",
            "MetricStat": {
                "Metric": {
                    "Namespace": "/aws/sagemaker/TrainingJobs",
                    "MetricName": "everstep:loss",
                    "Dimensions": [{"Name": "TrainingJobName", "Value": job}],
                },
                "Period": 60,
                "Stat": "Minimum",
            },
        }
    ]
    now = datetime.now(UTC)
    data = lab.aws(
        "cloudwatch",
        "get-metric-data",
        "--metric-data-queries",
        json.dumps(query),
        "--start-time",
        f"{now - timedelta(hours=1):%FT%TZ}",
        "--end-time",
        f"{now + timedelta(hours=1):%FT%TZ}",
    )
    assert data["MetricDataResults"][0]["Values"]


def test_every_call_that_a_handler_made_is_allowed_by_its_role(lab: Lab) -> None:
    """Last in this file: what the scenarios before it did is what is judged."""
    report = access_report(lab.work)
    assert (lab.work / "calls.jsonl").read_text().count("\n") > 100
    assert report["denied"] == []
