"""Scheduled rules and schedules. A minute lasts as long as the emulator was told."""

import logging
import re
import threading
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from moto.events.models import events_backends
from moto.scheduler.models import scheduler_backends

from emulator.bus import Bus
from emulator.lambda_pool import LambdaPool
from emulator.names import ACCOUNT, REGION
from emulator.world import World

logger = logging.getLogger("emulator")

_RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")
_MINUTES = {"minute": 1, "hour": 60, "day": 1440}


class Entry(NamedTuple):
    """One schedule that is on."""

    name: str
    arn: str
    minutes: float
    targets: list[dict[str, Any]]


class Schedules:
    """Fires what is due. A target that still runs from last time is passed over."""

    def __init__(self, world: World, lambdas: LambdaPool, bus: Bus) -> None:
        self._world = world
        self._lambdas = lambdas
        self._bus = bus
        self._due: dict[str, float] = {}
        self._running: dict[str, threading.Thread] = {}

    def start(self) -> None:
        """Begin to look for due schedules."""
        self._world.every(lambda: min(0.25, self._world.minute / 8), self._tick, "schedules")

    def fire(self, part: str) -> int:
        """Those with ``part`` in their name, out of turn; how many. A function that fails is tried
        again, as Lambda does with every event: a regular turn is not, for the next one comes."""
        found = [entry for entry in _entries() if part in entry.name]
        for entry in found:
            for target in entry.targets:
                self._bus.send(target, _event(entry))
        return len(found)

    def _tick(self) -> None:
        now = time.monotonic()
        for entry in _entries():
            # A change of the minute's length takes effect at once, not after the old period.
            period = self._world.scaled(entry.minutes * 60.0)
            due = min(self._due.setdefault(entry.name, now + period), now + period)
            self._due[entry.name] = due
            if now < due:
                continue
            self._due[entry.name] = now + period
            if self._world.faults.schedule_on(entry.name):
                self._fire(entry)

    def _fire(self, entry: Entry) -> None:
        event = _event(entry)
        for target in entry.targets:
            key = f"{entry.name} {target['Arn']}"
            former = self._running.get(key)
            if former and former.is_alive():
                continue
            self._running[key] = self._world.background(
                lambda target=target: self._bus.send_now(target, event),  # type: ignore[misc]
                f"schedule {entry.name}",
            )


def _event(entry: Entry) -> dict[str, Any]:
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": ACCOUNT,
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": REGION,
        "resources": [entry.arn],
        "detail": {},
    }


def minutes_of(expression: str) -> float | None:
    """The period of a schedule expression; of cron, the nearest period that repeats."""
    rate = _RATE.fullmatch(expression)
    if rate:
        return float(rate[1]) * _MINUTES[rate[2]]
    if not expression.startswith("cron("):
        return None
    minute, hour, *_ = expression.removeprefix("cron(").rstrip(")").split()
    if minute == "*":
        return 1.0
    if "/" in minute:
        return float(minute.split("/")[1])
    if "," in minute:
        return 60.0 / (minute.count(",") + 1)
    if hour == "*":
        return 60.0
    return 60.0 * float(hour.split("/")[1]) if "/" in hour else 1440.0


def _entries() -> Iterator[Entry]:
    for bus in list(events_backends[ACCOUNT][REGION].event_buses.values()):
        for rule in list(bus.rules.values()):
            minutes = minutes_of(rule.scheduled_expression or "")
            if minutes and rule.state == "ENABLED":
                yield Entry(rule.name, rule.arn, minutes, list(rule.targets))
    for group in list(scheduler_backends[ACCOUNT][REGION].schedule_groups.values()):
        for schedule in list(group.schedules.values()):
            minutes = minutes_of(schedule.schedule_expression)
            if minutes and schedule.state != "DISABLED":
                yield Entry(schedule.name, schedule.arn, minutes, [schedule.target])
