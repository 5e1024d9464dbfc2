"""write_report: whatever ended how, once the execution is over there is one report of the run."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from everstep.contracts.events import ExecutionEvent
from everstep.contracts.failures import Action, Failure, FailureClass
from everstep.contracts.progress import format_line
from everstep.contracts.records import Outcome, RunStatus, job_name
from lambdas.aws import services as module
from lambdas.write_report.handler import act, handler
from tests.lambdas.world import EXECUTION, RUN, START, TEAM, Crash, World

URI = f"{TEAM.output_uri}/{RUN}/report.html"


def event(status: str = "SUCCEEDED", arn: str = EXECUTION, seconds: float = 60) -> dict[str, Any]:
    return {
        "detail-type": "Step Functions Execution Status Change",
        "detail": {
            "executionArn": arn,
            "name": arn.rsplit(":", 1)[-1],
            "status": status,
            "stopDate": int(1000 * (START + seconds)),
        },
    }


def write(world: World, services: Any = None, **about: Any) -> str | None:
    made = ExecutionEvent.model_validate(event(**about))
    return act(made, services or world.services())


def written(world: World) -> str:
    bucket, _, key = URI.removeprefix("s3://").partition("/")
    s3 = world.services().client("s3")
    answer = s3.get_object(Bucket=bucket, Key=key)
    assert answer["ContentType"] == "text/html; charset=utf-8"
    return str(answer["Body"].read().decode())


def trained(world: World, **run: Any) -> None:
    world.put_run(**run)
    why = Failure(
        failure_class=FailureClass.USER_CODE,
        action=Action.RETRY_SAME,
        cause="ValueError: <b>shape</b>",
        rule="r",
    )
    world.put_launch(
        failure=why,
        outcome=Outcome(
            status="Failed",
            secondary_status="Failed",
            ended_epoch=world.now + 30,
            billable_seconds=30,
        ),
    )
    steps = [format_line("step", step=n, loss=5.0 - n, step_seconds=1.0) for n in (1, 2, 3)]
    world.log(job_name(RUN, 1), *steps, "other text")


@pytest.mark.parametrize(
    ("run", "ended", "says"),
    [
        (RunStatus.DONE, "SUCCEEDED", "arrived"),
        (RunStatus.GAVE_UP, "FAILED", "gave up"),
        (RunStatus.STOPPED, "ABORTED", "stopped"),
        # on_execution_event may be a moment later
        (RunStatus.RUNNING, "ABORTED", "stopped"),
        (RunStatus.RUNNING, "TIMED_OUT", "gave up"),
    ],
)
def test_a_report_for_every_end(world: World, run: RunStatus, ended: str, says: str) -> None:
    trained(world, status=run)
    before = world.run()
    assert write(world, status=ended) == URI
    text = written(world)
    assert f">{says}</span>" in text
    assert "ValueError: &lt;b&gt;shape&lt;/b&gt;" in text
    curve = json.loads(text.partition('id="curve">')[2].partition("</script>")[0])
    assert [p["loss"] for p in curve["points"]] == [4.0, 3.0, 2.0]
    assert "1 min" in text
    assert world.run() == before


def test_none_where_there_is_no_run_or_it_goes_on_elsewhere(world: World) -> None:
    assert write(world) is None
    trained(world)
    assert write(world, status="RUNNING") is None
    assert write(world, arn=f"{EXECUTION}-c02") is None
    with pytest.raises(ClientError, match="NoSuchKey"):
        written(world)


def test_a_run_without_a_log_group_gets_one_too(world: World) -> None:
    world.put_run(status=RunStatus.GAVE_UP, note="refused")
    world.put_launch(job_name="never-made")
    world.services().client("logs").delete_log_group(logGroupName="/aws/sagemaker/TrainingJobs")
    assert write(world, status="FAILED") == URI
    assert "No step was told" in written(world)


def test_half_a_report_is_no_report_and_the_second_try_is_whole(world: World) -> None:
    trained(world, status=RunStatus.DONE)
    write(world)
    calls, whole = world.calls, written(world)
    for crash in range(1, calls + 1):
        with pytest.raises(Crash):
            write(world, world.services(crash=crash))
        assert write(world) == URI
        assert written(world) == whole
    assert calls >= 3


def test_an_event_that_cannot_be_read_comes_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(world, status=RunStatus.DONE)
    monkeypatch.setattr(module, "_services", world.services())
    bodies = {"bad": "no event", "good": json.dumps(event())}
    records = [
        {"messageId": name, "body": body, "eventSource": "aws:sqs"} for name, body in bodies.items()
    ]
    answer = handler({"Records": records}, SimpleNamespace())
    assert answer == {"batchItemFailures": [{"itemIdentifier": "bad"}]}
    assert written(world)
