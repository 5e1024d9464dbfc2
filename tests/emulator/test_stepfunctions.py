"""Executions as AWS runs them: tokens, heartbeats, stops, redrives, names."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from .conftest import Cloud, unique, until

KEEPER = """
    import json, os
    import boto3

    def handler(event, context):
        if "task_token" in event:
            boto3.client("s3").put_object(
                Bucket=event["bucket"], Key="token", Body=event["task_token"].encode()
            )
        return {"kept": True}
"""
RAISER = """
    class OutOfRoom(Exception):
        pass

    def handler(event, context):
        if event.get("redrives", 0) > 0:
            return {"went": "on", "with": event["word"]}
        raise OutOfRoom('no "room" left')
"""


@pytest.fixture(scope="module")
def keeper(cloud: Cloud) -> str:
    return cloud.function(KEEPER)


def token_machine(cloud: Cloud, keeper: str, **task: Any) -> tuple[str, str]:
    """A machine that waits on a token kept in a bucket; (machine, bucket)."""
    bucket = unique("tokens")
    cloud("s3").create_bucket(Bucket=bucket)
    payload = {"task_token": "{% $states.context.Task.Token %}", "bucket": bucket}
    wait = {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken",
        "Arguments": {"FunctionName": keeper, "Payload": payload},
        "End": True,
        **task,
    }
    return cloud.machine({"StartAt": "Wait", "States": {"Wait": wait}}), bucket


def token_of(cloud: Cloud, bucket: str) -> str:
    client = cloud("s3")

    def read() -> str | None:
        if not client.list_objects_v2(Bucket=bucket).get("Contents"):
            return None
        return str(client.get_object(Bucket=bucket, Key="token")["Body"].read().decode())

    return str(until(read))


def refused(call: Any, **arguments: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    return str(caught.value.response["Error"]["Code"])


def test_a_token_is_finished_once(cloud: Cloud, keeper: str) -> None:
    machine, bucket = token_machine(cloud, keeper)
    execution = cloud.start(machine)
    token = token_of(cloud, bucket)
    steps = cloud("stepfunctions")
    steps.send_task_heartbeat(taskToken=token)
    steps.send_task_success(taskToken=token, output='{"done": 1}')
    ended = cloud.ended(execution)
    assert (ended["status"], json.loads(ended["output"])) == ("SUCCEEDED", {"done": 1})
    again = {"taskToken": token, "output": "{}"}
    assert refused(steps.send_task_success, **again) == "TaskTimedOut"
    assert refused(steps.send_task_heartbeat, taskToken=token) == "TaskTimedOut"
    assert refused(steps.send_task_failure, taskToken="never made") == "InvalidToken"


def test_a_sent_failure_keeps_error_and_cause(cloud: Cloud, keeper: str) -> None:
    machine, bucket = token_machine(cloud, keeper)
    execution = cloud.start(machine)
    cloud("stepfunctions").send_task_failure(
        taskToken=token_of(cloud, bucket), error="Hang", cause='no step for "9" s'
    )
    ended = cloud.ended(execution)
    assert (ended["status"], ended["error"]) == ("FAILED", "Hang")
    assert ended["cause"] == 'no step for "9" s'


def test_a_missed_heartbeat_is_caught_by_its_name(cloud: Cloud, keeper: str) -> None:
    caught = {
        "ErrorEquals": ["States.HeartbeatTimeout"],
        "Assign": {"why": "{% $states.errorOutput.Error %}"},
        "Next": "Said",
    }
    said = {"Type": "Pass", "Output": "{% $why %}", "End": True}
    machine, _ = token_machine(
        cloud,
        keeper,
        HeartbeatSeconds="{% $states.input.beat %}",
        TimeoutSeconds="{% $states.input.beat * 100 %}",
        Catch=[caught],
    )
    definition = json.loads(
        cloud("stepfunctions").describe_state_machine(stateMachineArn=machine)["definition"]
    )
    definition["States"]["Said"] = said
    cloud("stepfunctions").update_state_machine(
        stateMachineArn=machine, definition=json.dumps(definition)
    )
    ended = cloud.ended(cloud.start(machine, {"beat": 1}))
    assert ended["status"] == "SUCCEEDED", (ended["error"], ended["cause"])
    assert json.loads(ended["output"]) == "States.HeartbeatTimeout"


def test_stop_is_at_once_even_while_waiting(cloud: Cloud, keeper: str) -> None:
    catch_all = [{"ErrorEquals": ["States.ALL"], "Next": "Wait"}]
    machine, bucket = token_machine(cloud, keeper, HeartbeatSeconds=300, Catch=catch_all)
    execution = cloud.start(machine)
    token = token_of(cloud, bucket)
    cloud("stepfunctions").stop_execution(executionArn=execution, error="Person", cause="enough")
    ended = cloud.ended(execution, 5)
    assert (ended["status"], ended["error"], ended["cause"]) == ("ABORTED", "Person", "enough")
    again = {"taskToken": token, "output": "{}"}
    assert refused(cloud("stepfunctions").send_task_success, **again) == "TaskTimedOut"


def test_a_name_is_one_execution(cloud: Cloud, keeper: str) -> None:
    machine, bucket = token_machine(cloud, keeper)
    name = unique("once")
    first = cloud.start(machine, {"a": 1}, name)
    assert cloud.start(machine, {"a": 1}, name) == first
    steps = cloud("stepfunctions")
    other = {"stateMachineArn": machine, "name": name, "input": '{"a": 2}'}
    assert refused(steps.start_execution, **other) == "ExecutionAlreadyExists"
    steps.send_task_success(taskToken=token_of(cloud, bucket), output="{}")
    cloud.ended(first)
    same = {"stateMachineArn": machine, "name": name, "input": '{"a": 1}'}
    assert refused(steps.start_execution, **same) == "ExecutionAlreadyExists"


def give_up_machine(cloud: Cloud, **task: Any) -> str:
    """Sets a variable, then fails in a function unless it was redriven."""
    arguments = {
        "FunctionName": cloud.function(RAISER),
        "Payload": {
            "redrives": "{% $states.context.Execution.RedriveCount %}",
            "word": "{% $word & $states.input.suffix %}",
        },
    }
    states = {
        "Set": {
            "Type": "Pass",
            "Assign": {"word": "kept"},
            "Output": {"suffix": "!"},
            "Next": "GiveUp",
        },
        "GiveUp": {
            "Type": "Task",
            "Resource": "arn:aws:states:::lambda:invoke",
            "Arguments": arguments,
            "Output": "{% $states.result.Payload %}",
            "End": True,
            **task,
        },
    }
    return cloud.machine({"StartAt": "Set", "States": states})


def test_redrive_goes_on_from_the_failed_state(cloud: Cloud) -> None:
    execution = cloud.start(give_up_machine(cloud))
    failed = cloud.ended(execution)
    assert (failed["status"], failed["error"]) == ("FAILED", "OutOfRoom")
    assert json.loads(failed["cause"])["errorMessage"] == 'no "room" left'
    assert failed["redriveStatus"] == "REDRIVABLE"
    steps = cloud("stepfunctions")
    steps.redrive_execution(executionArn=execution)
    ended = cloud.ended(execution)
    assert json.loads(ended["output"]) == {"went": "on", "with": "kept!"}
    assert (ended["redriveCount"], ended["redriveStatus"]) == (1, "NOT_REDRIVABLE")
    types = [
        event["type"]
        for event in steps.get_execution_history(executionArn=execution)["events"]
        if event["type"].startswith("Execution")
    ]
    assert types == [
        "ExecutionStarted",
        "ExecutionFailed",
        "ExecutionRedriven",
        "ExecutionSucceeded",
    ]
    assert refused(steps.redrive_execution, executionArn=execution) == "ExecutionNotRedrivable"


def test_an_aborted_execution_is_redriven_too(cloud: Cloud, keeper: str) -> None:
    machine, bucket = token_machine(cloud, keeper)
    execution = cloud.start(machine)
    first = token_of(cloud, bucket)
    steps = cloud("stepfunctions")
    steps.stop_execution(executionArn=execution)
    cloud.ended(execution)
    steps.redrive_execution(executionArn=execution)
    until(lambda: token_of(cloud, bucket) != first)
    steps.send_task_success(taskToken=token_of(cloud, bucket), output="{}")
    assert cloud.ended(execution)["status"] == "SUCCEEDED"


def test_retry_and_catch_match_class_names(cloud: Cloud) -> None:
    retry = [{"ErrorEquals": ["OutOfRoom"], "IntervalSeconds": 1, "MaxAttempts": 1}]
    machine = give_up_machine(cloud, Retry=retry)
    execution = cloud.start(machine)
    cloud.ended(execution)
    history = cloud("stepfunctions").get_execution_history(executionArn=execution)["events"]
    assert [event["type"] for event in history].count("TaskFailed") == 2


def test_fail_wait_and_choice_take_jsonata(cloud: Cloud) -> None:
    states = {
        "Pause": {"Type": "Wait", "Seconds": "{% $states.input.wait %}", "Next": "Which"},
        "Which": {
            "Type": "Choice",
            "Choices": [{"Condition": "{% $states.input.wait < 2 %}", "Next": "No"}],
            "Default": "Yes",
        },
        "No": {
            "Type": "Fail",
            "Error": "{% $states.input.name %}",
            "Cause": "{% $states.input.text %}",
        },
        "Yes": {"Type": "Succeed"},
    }
    machine = cloud.machine({"StartAt": "Pause", "States": states})
    text = 'two lines\nand "quotes"'
    failed = cloud.ended(cloud.start(machine, {"wait": 0, "name": "Refused", "text": text}))
    assert (failed["error"], failed["cause"]) == ("Refused", text)
    failed = cloud.ended(cloud.start(machine, {"wait": 0}))
    assert failed["error"] == "States.QueryEvaluationError"


def test_an_alias_starts_its_version(cloud: Cloud) -> None:
    machine = cloud.machine({"StartAt": "A", "States": {"A": {"Type": "Succeed"}}})
    steps = cloud("stepfunctions")
    version = steps.update_state_machine(
        stateMachineArn=machine,
        definition='{"QueryLanguage":"JSONata","StartAt":"A","States":{"A":{"Type":"Pass",'
        '"Output":"new","End":true}}}',
        publish=True,
    )["stateMachineVersionArn"]
    alias = steps.create_state_machine_alias(
        name="live", routingConfiguration=[{"stateMachineVersionArn": version, "weight": 100}]
    )["stateMachineAliasArn"]
    execution = steps.start_execution(stateMachineArn=alias)["executionArn"]
    assert json.loads(cloud.ended(execution)["output"]) == "new"
