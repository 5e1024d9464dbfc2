"""Event source mappings: queues polled for Lambda, with partial batch failures."""

import json
import logging
import threading
from typing import Any

from moto.awslambda.models import EventSourceMapping, LambdaBackend
from moto.awslambda_simple.models import lambda_simple_backends
from moto.sqs.models import Message, Queue, sqs_backends

from emulator.lambda_pool import LambdaPool
from emulator.names import ACCOUNT, REGION
from emulator.patching import replace
from emulator.world import World

logger = logging.getLogger("emulator")

POLL_SECONDS = 0.1
MOST_BATCHES = 4
"""Batches of one mapping at work at once (Lambda begins with five)."""


class QueuePollers:
    """One pass over all mappings, again and again; batches run in threads."""

    def __init__(self, world: World, lambdas: LambdaPool) -> None:
        self._world = world
        self._lambdas = lambdas
        self._slots: dict[str, threading.Semaphore] = {}

        def without_delivery(self: Any, spec: dict[str, Any]) -> EventSourceMapping:
            mapping: EventSourceMapping = create(self, spec)
            # moto would call the function at once, within the sender's request.
            for queue in sqs_backends[ACCOUNT][REGION].queues.values():
                queue.lambda_event_source_mappings.clear()
            return mapping

        create = replace(LambdaBackend, "create_event_source_mapping", without_delivery)

    def start(self) -> None:
        """Begin to poll."""
        self._world.every(lambda: POLL_SECONDS, self._pass, "queues")

    def _pass(self) -> None:
        mappings = lambda_simple_backends[ACCOUNT][REGION]._event_source_mappings
        for mapping in list(mappings.values()):
            if not mapping.enabled or ":sqs:" not in mapping.event_source_arn:
                continue
            queue = sqs_backends[ACCOUNT][REGION].queues.get(
                mapping.event_source_arn.rsplit(":", 1)[1]
            )
            if queue is None or not queue._messages:
                continue
            slots = self._slots.setdefault(mapping.uuid, threading.Semaphore(MOST_BATCHES))
            if slots.acquire(blocking=False):
                messages = self._receive(queue, mapping.batch_size)
                if messages:
                    self._start(mapping, queue, messages, slots)
                else:
                    slots.release()

    def _receive(self, queue: Queue, count: int) -> list[Message]:
        backend = sqs_backends[ACCOUNT][REGION]
        seconds = _visibility(queue)
        return backend.receive_message(queue.name, min(count, 10), 0, seconds)

    def _start(
        self,
        mapping: EventSourceMapping,
        queue: Queue,
        messages: list[Message],
        slots: threading.Semaphore,
    ) -> None:
        def body() -> None:
            try:
                self._deliver(mapping, queue, messages)
            finally:
                slots.release()

        self._world.background(body, f"batch {queue.name}")

    def _deliver(self, mapping: EventSourceMapping, queue: Queue, messages: list[Message]) -> None:
        event = {"Records": [_record(message, queue.queue_arn) for message in messages]}
        # By the name the mapping was made with: an alias may point elsewhere by now.
        self._lambdas.note_queue(mapping.function_name, queue.queue_arn)
        result = self._lambdas.invoke(mapping.function_name, event)
        failed = _failed(mapping, result, [message.id for message in messages])
        backend = sqs_backends[ACCOUNT][REGION]
        for message in messages:
            handle = str(message.receipt_handle)
            if message.id not in failed:
                backend.delete_message(queue.name, handle)
            else:
                # AWS waits the queue's visibility time-out; here it shrinks as minutes do.
                seconds = self._world.scaled(_visibility(queue))
                backend.change_message_visibility(queue.name, handle, max(1, int(seconds)))


def _visibility(queue: Any) -> int:
    return int(queue.visibility_timeout or 30)


def _failed(mapping: EventSourceMapping, result: dict[str, Any], ids: list[str]) -> set[str]:
    """Ids to be delivered again."""
    if "error" in result:
        return set(ids)
    if "ReportBatchItemFailures" not in (mapping.function_response_types or []):
        return set()
    answer = json.loads(result["payload"])
    items = (answer or {}).get("batchItemFailures") or []
    named = {item.get("itemIdentifier") for item in items}
    # Lambda takes an empty or unknown identifier for a failure of the whole batch.
    return set(ids) if named - set(ids) else {str(name) for name in named}


def _record(message: Message, queue_arn: str) -> dict[str, Any]:
    return {
        "messageId": message.id,
        "receiptHandle": message.receipt_handle,
        "body": message.body,
        "attributes": {
            "ApproximateReceiveCount": str(message.approximate_receive_count),
            "SentTimestamp": str(message.sent_timestamp),
            "SenderId": "AIDAEMULATOR",
            "ApproximateFirstReceiveTimestamp": str(message.approximate_first_receive_timestamp),
        },
        "messageAttributes": {},
        "md5OfBody": message.body_md5,
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": REGION,
    }
