"""Events that no handler could take: given to the handlers once more."""

from typing import Any

from botocore.exceptions import ClientError

from everstep.cli.cloud import Cloud
from everstep.cli.options import Env, Json, cloud_of
from everstep.cli.output import emit
from everstep.contracts import names


def redrive_dlq(env: Env = None, as_json: Json = False) -> None:
    """Give events that no handler could take to the handlers once more."""
    rows = redrive(cloud_of(env))
    if as_json:
        emit(rows)
        return
    for row in rows:
        state = "empty" if row["task"] is None else "on their way back"
        print(f"{row['queue']}\t{row['messages']} messages\t{state}")


def redrive(cloud: Cloud) -> list[dict[str, Any]]:
    """Start the move of every dead-letter queue's messages to its queue; one row a queue."""
    sqs = cloud.client("sqs")
    return [
        _move(sqs, key.removeprefix(names.OUTPUT_DEAD_LETTERS), arn, cloud.outputs)
        for key, arn in sorted(cloud.outputs.items())
        if key.startswith(names.OUTPUT_DEAD_LETTERS)
    ]


def _move(sqs: Any, queue: str, dead: str, outputs: dict[str, str]) -> dict[str, Any]:
    url = sqs.get_queue_url(QueueName=dead.rpartition(":")[2])["QueueUrl"]
    wanted = ["ApproximateNumberOfMessages"]
    count = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=wanted)["Attributes"]
    row = {"queue": queue, "messages": int(count["ApproximateNumberOfMessages"]), "task": None}
    if not row["messages"]:
        return row
    try:
        # With a destination: what EventBridge itself could not deliver has no queue of origin.
        task = sqs.start_message_move_task(
            SourceArn=dead, DestinationArn=outputs[names.OUTPUT_QUEUE + queue]
        )
    except ClientError as error:
        # One task a queue at a time: it is being done already.
        if error.response["Error"]["Code"] != "AWS.SimpleQueueService.UnsupportedOperation":
            raise
        return {**row, "task": "running"}
    return {**row, "task": task["TaskHandle"]}
