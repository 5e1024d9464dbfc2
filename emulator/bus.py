"""The event bus: events of services and of PutEvents, to the targets of rules that match."""

import json
import logging
import time
import uuid
from datetime import UTC, datetime
from typing import Any

from moto.events.models import Rule, events_backends
from moto.sns.models import sns_backends
from moto.sqs.exceptions import QueueDoesNotExist
from moto.sqs.models import sqs_backends

from emulator.event_pattern import matches
from emulator.front import Front
from emulator.lambda_pool import LambdaPool
from emulator.names import ACCOUNT, REGION
from emulator.world import World

logger = logging.getLogger("emulator")

JOB_EVENT = "SageMaker Training Job State Change"
LATE_MINUTES = 3.0


class Bus:
    """Routes events by the rules that were deployed."""

    def __init__(self, world: World, lambdas: LambdaPool) -> None:
        self._world = world
        self._lambdas = lambdas

    def register(self, front: Front) -> None:
        """Take PutEvents over: moto's reaches few targets."""
        front.add("AWSEvents.PutEvents", self._put_events)

    def put(self, source: str, kind: str, detail: dict[str, Any], resources: list[str]) -> None:
        """One event of a service; job events may be lost, doubled or late on request."""
        event = {
            "version": "0",
            "id": str(uuid.uuid4()),
            "detail-type": kind,
            "source": source,
            "account": ACCOUNT,
            "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": REGION,
            "resources": resources,
            "detail": detail,
        }
        name = str(detail.get("TrainingJobName", ""))
        mode = self._world.faults.event_mode(name) if kind == JOB_EVENT else ""
        self._world.append("events.jsonl", {"fault": mode, **event})
        if mode == "lose":
            return
        if mode == "late":
            wait = self._world.scaled(LATE_MINUTES * 60)
            self._world.background(lambda: self._deliver_after(wait, event), "late event")
            return
        # A doubled event is the same event: at-least-once delivery repeats its id.
        for _ in range({"double": 2, "triple": 3}.get(mode, 1)):
            self._deliver(event)

    def _deliver_after(self, seconds: float, event: dict[str, Any]) -> None:
        if not self._world.closing.wait(seconds):
            self._deliver(event)

    def _deliver(self, event: dict[str, Any]) -> None:
        for bus in list(events_backends[ACCOUNT][REGION].event_buses.values()):
            for rule in list(bus.rules.values()):
                if rule.state == "ENABLED" and _about(rule, event):
                    for target in list(rule.targets):
                        self.send(target, event)

    def send_now(self, target: dict[str, Any], event: dict[str, Any]) -> None:
        """As ``send``, but a function has ended when this returns."""
        if target["Arn"].split(":")[2] == "lambda":
            self._lambdas.invoke(target["Arn"], _shaped(target, event))
        else:
            self.send(target, event)

    def send(self, target: dict[str, Any], event: dict[str, Any]) -> None:
        """Deliver one event to one target, in the target's form."""
        body = _shaped(target, event)
        service, resource = target["Arn"].split(":")[2], target["Arn"].split(":", 5)[5]
        if service == "sqs":
            try:
                sqs_backends[ACCOUNT][REGION].send_message(
                    resource,
                    json.dumps(body),
                    group_id=target.get("SqsParameters", {}).get("MessageGroupId"),
                )
            except QueueDoesNotExist:
                logger.warning("event for a queue that does not exist: %s", target["Arn"])
        elif service == "lambda":
            self._lambdas.invoke_async(target["Arn"], body)
        elif service == "sns":
            sns_backends[ACCOUNT][REGION].publish(json.dumps(body), arn=target["Arn"])
        elif service == "states":
            self._world.background(
                lambda: self._world.client("stepfunctions").start_execution(
                    stateMachineArn=target["Arn"], input=json.dumps(body)
                ),
                "event target",
            )
        else:
            logger.warning("event target not emulated: %s", target["Arn"])

    def _put_events(self, parameters: dict[str, Any]) -> dict[str, Any]:
        entries = []
        for entry in parameters["Entries"]:
            detail = json.loads(entry.get("Detail") or "{}")
            resources = entry.get("Resources", [])
            self.put(entry["Source"], entry["DetailType"], detail, resources)
            entries.append({"EventId": str(uuid.uuid4())})
        return {"FailedEntryCount": 0, "Entries": entries}


def milliseconds(moment: float | None = None) -> int:
    """Epoch milliseconds, the unit of times in events."""
    return int((time.time() if moment is None else moment) * 1000)


def _about(rule: Rule, event: dict[str, Any]) -> bool:
    pattern: Any = rule.event_pattern.get_pattern() if rule.event_pattern else None
    return bool(pattern) and matches(pattern, event)


def _shaped(target: dict[str, Any], event: dict[str, Any]) -> Any:
    if target.get("Input"):
        return json.loads(target["Input"])
    if target.get("InputPath"):
        return _at(event, target["InputPath"])
    transformer = target.get("InputTransformer")
    if transformer:
        text = transformer["InputTemplate"]
        for name, path in transformer.get("InputPathsMap", {}).items():
            value = _at(event, path)
            # A quoted placeholder is text; an unquoted one keeps its JSON type.
            text = text.replace(f'"<{name}>"', json.dumps(value))
            text = text.replace(f"<{name}>", value if isinstance(value, str) else json.dumps(value))
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            return text
    return event


def _at(event: Any, path: str) -> Any:
    for part in path.removeprefix("$").strip(".").split("."):
        if part:
            event = event.get(part) if isinstance(event, dict) else None
    return event
