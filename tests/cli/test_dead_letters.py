"""``everstep redrive-dlq``: against botocore's own model of SQS, since moto moves no messages."""

from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from everstep.cli.dead_letters import redrive
from everstep.contracts import names

DEAD = "arn:aws:sqs:us-east-1:123456789012:job-events-dead"
QUEUE = "arn:aws:sqs:us-east-1:123456789012:job-events"
URL = "https://sqs.us-east-1.amazonaws.com/123456789012/job-events-dead"


def stubbed(messages: int) -> tuple[Any, Stubber]:
    """A cloud with one pair of queues, and the answers that SQS gives so far."""
    client = boto3.client(
        "sqs", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
    )
    stub = Stubber(client)
    stub.add_response("get_queue_url", {"QueueUrl": URL}, {"QueueName": "job-events-dead"})
    stub.add_response(
        "get_queue_attributes",
        {"Attributes": {"ApproximateNumberOfMessages": str(messages)}},
        {"QueueUrl": URL, "AttributeNames": ["ApproximateNumberOfMessages"]},
    )
    outputs = {
        f"{names.OUTPUT_DEAD_LETTERS}JobEvents": DEAD,
        f"{names.OUTPUT_QUEUE}JobEvents": QUEUE,
    }
    return SimpleNamespace(client=lambda _: client, outputs=outputs), stub


def test_messages_go_back_to_the_queue_they_died_in() -> None:
    cloud, stub = stubbed(messages=3)
    stub.add_response(
        "start_message_move_task",
        {"TaskHandle": "task"},
        {"SourceArn": DEAD, "DestinationArn": QUEUE},
    )
    with stub:
        assert redrive(cloud) == [{"queue": "JobEvents", "messages": 3, "task": "task"}]
    stub.assert_no_pending_responses()


def test_an_empty_queue_starts_nothing() -> None:
    cloud, stub = stubbed(messages=0)
    with stub:
        assert redrive(cloud) == [{"queue": "JobEvents", "messages": 0, "task": None}]


def test_a_move_under_way_is_left_to_end() -> None:
    cloud, stub = stubbed(messages=3)
    stub.add_client_error("start_message_move_task", "AWS.SimpleQueueService.UnsupportedOperation")
    with stub:
        assert redrive(cloud)[0]["task"] == "running"


def test_any_other_refusal_is_told() -> None:
    cloud, stub = stubbed(messages=3)
    stub.add_client_error("start_message_move_task", "AccessDeniedException")
    with stub, pytest.raises(ClientError):
        redrive(cloud)
