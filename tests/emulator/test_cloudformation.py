"""Stacks through change sets, as the CDK makes them; and the events, queues, schedules in them."""

import json
import time
from typing import Any

import pytest
from botocore.exceptions import ClientError

from .conftest import TRUST, Cloud, bundle, unique, until

COUNT = """
    import json, os
    import boto3

    def handler(event, context):
        client = boto3.client("s3")
        body = json.dumps(event).encode()
        client.put_object(Bucket=os.environ["BUCKET"], Key=context.aws_request_id, Body=body)
        records = event.get("Records", [])
        bad = [r["messageId"] for r in records if "poison" in r["body"]]
        return {"batchItemFailures": [{"itemIdentifier": name} for name in bad], "code": "CODE"}
"""


def code(cloud: Cloud, assets: str, mark: str) -> dict[str, str]:
    """An asset in a bucket, as ``cdk deploy`` puts it there."""
    key = f"{unique('asset')}.zip"
    cloud("s3").put_object(Bucket=assets, Key=key, Body=bundle(COUNT.replace("CODE", mark)))
    return {"S3Bucket": assets, "S3Key": key}


def template(place: dict[str, str], version: str, bucket: str) -> dict[str, Any]:
    """A function behind an alias; a queue with a policy and a dead-letter queue; rules for both."""
    arn = {"Fn::GetAtt": ["Queue", "Arn"]}
    alias = {"Ref": "Alias"}
    dead = {"deadLetterTargetArn": {"Fn::GetAtt": ["Dead", "Arn"]}, "maxReceiveCount": 2}
    policy = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "events.amazonaws.com"},
                "Action": "sqs:SendMessage",
                "Resource": arn,
            }
        ],
    }
    own = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    resources = {
        "Role": {
            "Type": "AWS::IAM::Role",
            "Properties": {
                "AssumeRolePolicyDocument": TRUST,
                "Policies": [
                    {
                        "PolicyName": "own",
                        "PolicyDocument": {"Version": "2012-10-17", "Statement": [own]},
                    }
                ],
            },
        },
        "Function": {
            "Type": "AWS::Lambda::Function",
            "Properties": {
                "Code": place,
                "Handler": "app.handler",
                "Runtime": "python3.12",
                "Timeout": 20,
                "Layers": ["arn:aws:lambda:us-east-1:017000801446:layer:Powertools:1"],
                "Role": {"Fn::GetAtt": ["Role", "Arn"]},
                "Environment": {"Variables": {"BUCKET": bucket}},
            },
        },
        f"Version{version}": {
            "Type": "AWS::Lambda::Version",
            "Properties": {"FunctionName": {"Ref": "Function"}},
        },
        "Alias": {
            "Type": "AWS::Lambda::Alias",
            "Properties": {
                "Name": "live",
                "FunctionName": {"Ref": "Function"},
                "FunctionVersion": {"Fn::GetAtt": [f"Version{version}", "Version"]},
            },
        },
        "Dead": {"Type": "AWS::SQS::Queue"},
        "Queue": {
            "Type": "AWS::SQS::Queue",
            "Properties": {"VisibilityTimeout": 60, "RedrivePolicy": dead},
        },
        "QueuePolicy": {
            "Type": "AWS::SQS::QueuePolicy",
            "Properties": {"Queues": [{"Ref": "Queue"}], "PolicyDocument": policy},
        },
        "Mapping": {
            "Type": "AWS::Lambda::EventSourceMapping",
            "Properties": {
                "EventSourceArn": arn,
                "FunctionName": alias,
                "BatchSize": 10,
                "FunctionResponseTypes": ["ReportBatchItemFailures"],
            },
        },
        "Rule": {
            "Type": "AWS::Events::Rule",
            "Properties": {
                "EventPattern": {"source": ["test"], "detail": {"n": [{"numeric": [">", 1]}]}},
                "Targets": [{"Id": "q", "Arn": arn}],
            },
        },
        "Clock": {
            "Type": "AWS::Events::Rule",
            "Properties": {
                "ScheduleExpression": "rate(1 minute)",
                "Targets": [{"Id": "f", "Arn": alias}],
            },
        },
        "BucketPolicy": {
            "Type": "AWS::S3::BucketPolicy",
            "Properties": {
                "Bucket": bucket,
                "PolicyDocument": {
                    "Version": "2012-10-17",
                    "Statement": [
                        {
                            "Effect": "Deny",
                            "Principal": "*",
                            "Action": "s3:*",
                            "Resource": f"arn:aws:s3:::{bucket}/*",
                            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
                        }
                    ],
                },
            },
        },
        "Alarm": {
            "Type": "AWS::CloudWatch::Alarm",
            "Properties": {
                "Namespace": "AWS/SQS",
                "MetricName": "ApproximateNumberOfMessagesVisible",
                "ComparisonOperator": "GreaterThanThreshold",
                "EvaluationPeriods": 1,
                "Period": 60,
                "Statistic": "Maximum",
                "Threshold": 0,
            },
        },
        "Unknown": {"Type": "AWS::Budgets::Budget", "Properties": {"Budget": {"BudgetName": "b"}}},
        "Machine": {
            "Type": "AWS::StepFunctions::StateMachine",
            "Properties": {
                "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
                "DefinitionString": '{"QueryLanguage":"JSONata","StartAt":"A","States":{"A":'
                '{"Type":"Pass","Output":"${word}","End":true}}}',
                "DefinitionSubstitutions": {"word": f"version {version}"},
            },
        },
    }
    outputs = {
        "Alias": {"Value": alias},
        "Queue": {"Value": {"Ref": "Queue"}},
        "Dead": {"Value": {"Ref": "Dead"}},
        "Function": {"Value": {"Ref": "Function"}},
        "Machine": {"Value": {"Fn::GetAtt": ["Machine", "Arn"]}},
        "Unknown": {"Value": {"Fn::GetAtt": ["Unknown", "Arn"]}},
    }
    return {"Resources": resources, "Outputs": outputs}


def deploy(cloud: Cloud, stack: str, body: dict[str, Any], kind: str) -> dict[str, str]:
    """Through a change set; returns the outputs."""
    client = cloud("cloudformation")
    # As the CDK does: one name for all stacks' change sets, deleted before it is made.
    same = {"StackName": stack, "ChangeSetName": "cdk-deploy-change-set"}
    client.delete_change_set(**same)
    with pytest.raises(ClientError) as caught:
        client.describe_change_set(**same)
    assert caught.value.response["Error"]["Code"] == "ChangeSetNotFound"
    made = client.create_change_set(
        **same,
        ChangeSetType=kind,
        TemplateBody=json.dumps(body),
        Capabilities=["CAPABILITY_IAM"],
    )
    assert made["StackId"]
    client.execute_change_set(**same)
    found = client.describe_stacks(StackName=stack)["Stacks"][0]
    assert found["StackStatus"] == f"{kind}_COMPLETE", found
    return {item["OutputKey"]: item["OutputValue"] for item in found.get("Outputs", [])}


class Stack:
    """The deployed template, and what its function has been given."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.name, self.bucket, self.assets = unique("stack"), unique("seen"), unique("assets")
        for bucket in (self.bucket, self.assets):
            cloud("s3").create_bucket(Bucket=bucket)
        self.first = template(code(cloud, self.assets, "one"), "A", self.bucket)
        self.outputs = deploy(cloud, self.name, self.first, "CREATE")

    def seen(self) -> list[Any]:
        client = self.cloud("s3")
        keys = client.list_objects_v2(Bucket=self.bucket).get("Contents", [])
        return [
            json.loads(client.get_object(Bucket=self.bucket, Key=key["Key"])["Body"].read())
            for key in keys
        ]

    def bodies(self) -> list[str]:
        return [record["body"] for event in self.seen() for record in event.get("Records", [])]


@pytest.fixture(scope="module")
def stack(cloud: Cloud) -> Stack:
    return Stack(cloud)


def test_what_is_not_emulated_is_said(cloud: Cloud, stack: Stack) -> None:
    said = json.loads((cloud.state / "unsupported.json").read_text())
    assert said["AWS::Budgets::Budget"] == ["Unknown"]
    assert stack.outputs["Unknown"].startswith("arn:aws:budgets:us-east-1:123456789012:budget/")
    assert "AWS::SQS::QueuePolicy" not in said


def test_policies_and_alarms_are_real(cloud: Cloud, stack: Stack) -> None:
    attributes = cloud("sqs").get_queue_attributes(
        QueueUrl=stack.outputs["Queue"], AttributeNames=["Policy"]
    )["Attributes"]
    assert "events.amazonaws.com" in attributes["Policy"]
    policy = cloud("s3").get_bucket_policy(Bucket=stack.bucket)["Policy"]
    assert "SecureTransport" in policy
    names = [a["AlarmName"] for a in cloud("cloudwatch").describe_alarms()["MetricAlarms"]]
    assert any(stack.name in name for name in names)


def test_the_schedule_calls_the_alias(stack: Stack) -> None:
    until(lambda: any(e.get("detail-type") == "Scheduled Event" for e in stack.seen()))


def test_a_silenced_schedule_is_silent(cloud: Cloud, stack: Stack) -> None:
    def fired() -> int:
        return sum(event.get("detail-type") == "Scheduled Event" for event in stack.seen())

    cloud.control.schedule(False)
    begun, before = time.monotonic(), -1
    # Three minutes' worth, after what was under way has ended.
    until(lambda: time.monotonic() > begun + 0.5)
    before = fired()
    until(lambda: time.monotonic() > begun + 2.0)
    assert fired() == before
    cloud.control.schedule(True)
    until(lambda: fired() > before)


def test_events_reach_the_queue_and_its_function(cloud: Cloud, stack: Stack) -> None:
    entries = [
        {"Source": "test", "DetailType": "t", "Detail": json.dumps({"n": n})} for n in (1, 2)
    ]
    cloud("events").put_events(Entries=entries)
    until(lambda: any('"n": 2' in body for body in stack.bodies()))
    assert not any('"n": 1' in body for body in stack.bodies())


def test_a_failed_message_alone_comes_back_and_ends_in_the_dead_letter_queue(
    cloud: Cloud, stack: Stack
) -> None:
    for body in ("good", "poison"):
        cloud("sqs").send_message(QueueUrl=stack.outputs["Queue"], MessageBody=body)
    dead = {"QueueUrl": stack.outputs["Dead"], "WaitTimeSeconds": 0}
    until(lambda: cloud("sqs").receive_message(**dead).get("Messages"))
    assert stack.bodies().count("poison") == 2
    assert stack.bodies().count("good") == 1


def test_a_second_deploy_puts_new_code_behind_the_alias(cloud: Cloud, stack: Stack) -> None:
    assert cloud.invoke(stack.outputs["Alias"])[0]["code"] == "one"
    new = template(code(cloud, stack.assets, "two"), "B", stack.bucket)
    outputs = deploy(cloud, stack.name, new, "UPDATE")
    assert outputs["Alias"] == stack.outputs["Alias"]
    assert cloud.invoke(stack.outputs["Alias"])[0]["code"] == "two"
    execution = cloud.start(outputs["Machine"])
    assert json.loads(cloud.ended(execution)["output"]) == "version B"


def test_a_failed_change_is_a_failed_stack(cloud: Cloud) -> None:
    bad = {"Type": "AWS::S3::BucketPolicy", "Properties": {"Bucket": "no", "PolicyDocument": {}}}
    name = unique("bad")
    with pytest.raises(AssertionError, match="ROLLBACK_COMPLETE"):
        deploy(cloud, name, {"Resources": {"Policy": bad}}, "CREATE")
    events = cloud("cloudformation").describe_stack_events(StackName=name)["StackEvents"]
    reasons = [event.get("ResourceStatusReason", "") for event in events]
    assert any("NoSuchBucket" in reason for reason in reasons)


def test_deletion_ends_what_was_made(cloud: Cloud, stack: Stack) -> None:
    cloud("cloudformation").delete_stack(StackName=stack.name)
    names = [f["FunctionName"] for f in cloud("lambda").list_functions()["Functions"]]
    assert stack.outputs["Function"] not in names
    machines = cloud("stepfunctions").list_state_machines()["stateMachines"]
    assert stack.outputs["Machine"] not in [machine["stateMachineArn"] for machine in machines]
