"""SageMaker training plans: offerings to find, plans to have, their states by the clock.

An offering costs one US dollar an instance-hour here, which no offering of AWS does: a figure to do
sums with, not a price.
"""

import hashlib
import math
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

from emulator.front import Front
from emulator.names import REGION, AwsError, arn
from emulator.quotas import Quotas, reserved
from emulator.training.machines import machines
from emulator.training.requests import validate_model
from emulator.world import epoch

LEAD = timedelta(minutes=30)
GAP = timedelta(hours=12)
"""Between the two blocks of the offering that starts sooner."""
USD_PER_INSTANCE_HOUR = 1
JOBS = "training-job"

Block = tuple[str, datetime, datetime]
"""Zone, start, end."""


class Plans:
    """Plans that were bought, and the offerings that were shown."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas
        self._lock = threading.Lock()
        self._offerings: dict[str, dict[str, Any]] = {}
        self._plans: dict[str, dict[str, Any]] = {}

    def register(self, front: Front) -> None:
        for name, operation in {
            "SearchTrainingPlanOfferings": self.search,
            "CreateTrainingPlan": self.create,
            "DescribeTrainingPlan": self.describe,
            "ListTrainingPlans": self.list,
        }.items():
            front.add(f"SageMaker.{name}", operation)

    def search(self, request: dict[str, Any]) -> dict[str, Any]:
        """A block that starts at the second next 11:30 UTC, and two blocks that start at the next:
        as AWS, sooner in pieces. Whole days; both end at 11:30 UTC."""
        validate_model("SearchTrainingPlanOfferings", request)
        kind, count = request.get("InstanceType"), int(request.get("InstanceCount", 0))
        if kind is None or count < 1:
            raise _invalid("InstanceType and InstanceCount are required.")
        if count & (count - 1):
            raise _invalid("InstanceCount must be a power of 2.")
        limit = self._quotas.value(reserved(kind))
        if limit is not None and count > limit:
            raise AwsError(
                "ResourceLimitExceeded",
                f"The account-level service limit '{reserved(kind)}' is {limit:.0f} Instances, "
                f"with a request delta of {count} Instances.",
            )
        days = math.ceil(int(request.get("DurationHours", 24)) / 24)
        earliest = datetime.fromtimestamp(float(request.get("StartTimeAfter", epoch())), UTC)
        first = _next_turn(max(earliest, datetime.now(UTC) + LEAD))
        offers = [self._offering(request, kind, count, blocks) for blocks in _choices(first, days)]
        latest = request.get("EndTimeBefore")
        fitting = [
            offer
            for offer in offers
            if latest is None or offer["ReservedCapacityOfferings"][-1]["EndTime"] <= float(latest)
        ]
        with self._lock:
            self._offerings.update({x["TrainingPlanOfferingId"]: x for x in fitting})
        return {"TrainingPlanOfferings": fitting}

    def _offering(
        self, request: dict[str, Any], kind: str, count: int, blocks: list[Block]
    ) -> dict[str, Any]:
        rows = [_row(kind, count, block) for block in blocks]
        hours = sum(row["DurationHours"] for row in rows)
        ident = hashlib.sha256(f"{kind}{count}{blocks}".encode()).hexdigest()
        return {
            "TrainingPlanOfferingId": f"tpo-{ident}",
            "TargetResources": request.get("TargetResources", [JOBS]),
            "DurationHours": hours,
            "DurationMinutes": 0,
            "UpfrontFee": f"{USD_PER_INSTANCE_HOUR * hours * count:.2f}",
            "CurrencyCode": "USD",
            "ReservedCapacityOfferings": rows,
        }

    def create(self, request: dict[str, Any]) -> dict[str, Any]:
        """CreateTrainingPlan. Nothing is paid here."""
        validate_model("CreateTrainingPlan", request)
        name, ident = request["TrainingPlanName"], request["TrainingPlanOfferingId"]
        with self._lock:
            if ident not in self._offerings:
                raise AwsError("ResourceNotFound", f"There is no offering {ident}.")
            if name in self._plans:
                raise AwsError("ResourceInUse", f"Training plan {name} already exists.")
            offering = self._offerings[ident]
            self._plans[name] = {
                "TrainingPlanName": name,
                **{key: offering[key] for key in ("TargetResources", "UpfrontFee", "CurrencyCode")},
                "Blocks": offering["ReservedCapacityOfferings"],
            }
        return {"TrainingPlanArn": _plan_arn(name)}

    def put(self, name: str, kind: str, count: int, start: float, end: float, zone: str) -> str:
        """A plan that is there, however it came; ``start`` and ``end`` in seconds from now."""
        now = datetime.now(UTC)
        block = zone, now + timedelta(seconds=start), now + timedelta(seconds=end)
        with self._lock:
            self._plans[name] = {
                "TrainingPlanName": name,
                "TargetResources": [JOBS],
                "Blocks": [_row(kind, count, block)],
            }
        return _plan_arn(name)

    def describe(self, request: dict[str, Any]) -> dict[str, Any]:
        validate_model("DescribeTrainingPlan", request)
        name = request["TrainingPlanName"].rpartition("/")[2]
        with self._lock:
            if name not in self._plans:
                raise AwsError("ResourceNotFound", f"Training plan {name} does not exist.")
            return _described(self._plans[name])

    def list(self, request: dict[str, Any]) -> dict[str, Any]:
        validate_model("ListTrainingPlans", request)
        with self._lock:
            return {"TrainingPlanSummaries": [_described(p) for p in self._plans.values()]}

    def check(self, request: dict[str, Any]) -> None:
        """What CreateTrainingJob refuses of a job on a plan."""
        name = request["ResourceConfig"]["TrainingPlanArn"]
        plan = self.describe({"TrainingPlanName": name})
        if plan["Status"] not in ("Active", "Scheduled"):
            raise _invalid(f"Training plan {name} is in status {plan['Status']}.")
        held = {r["InstanceType"]: r["TotalInstanceCount"] for r in _summaries(plan)}
        for _, kind, count in machines(request):
            if held.get(kind, 0) < count:
                raise _invalid(f"Training plan {name} has no {count} instances of {kind}.")


def _next_turn(after: datetime) -> datetime:
    turn = after.replace(hour=11, minute=30, second=0, microsecond=0)
    return turn if turn >= after else turn + timedelta(days=1)


def _choices(first: datetime, days: int) -> list[list[Block]]:
    whole, a, b = timedelta(days=days), f"{REGION}a", f"{REGION}b"
    later = first + timedelta(days=1)
    choices: list[list[Block]] = [[(a, later, later + whole)]]
    if days > 1:
        half = timedelta(days=days // 2)
        second = first + half + GAP + GAP
        choices.append([(a, first, first + half), (b, second, second + whole - half)])
    return choices


def _row(kind: str, count: int, block: Block) -> dict[str, Any]:
    zone, start, end = block
    return {
        "ReservedCapacityType": "Instance",
        "InstanceType": kind,
        "InstanceCount": count,
        "AvailabilityZone": zone,
        "DurationHours": int((end - start).total_seconds() // 3600),
        "DurationMinutes": 0,
        "StartTime": start.timestamp(),
        "EndTime": end.timestamp(),
    }


def _status(start: float, end: float) -> str:
    now = epoch()
    return "Scheduled" if now < start else "Expired" if now >= end else "Active"


def _described(plan: dict[str, Any]) -> dict[str, Any]:
    blocks = plan["Blocks"]
    states = [_status(block["StartTime"], block["EndTime"]) for block in blocks]
    status = next((s for s in ("Active", "Scheduled") if s in states), "Expired")
    count = blocks[0]["InstanceCount"]
    return {
        **{key: value for key, value in plan.items() if key != "Blocks"},
        "TrainingPlanArn": _plan_arn(plan["TrainingPlanName"]),
        "Status": status,
        "StartTime": blocks[0]["StartTime"],
        "EndTime": blocks[-1]["EndTime"],
        "DurationHours": sum(block["DurationHours"] for block in blocks),
        "DurationMinutes": 0,
        "TotalInstanceCount": count,
        "ReservedCapacitySummaries": [
            {
                **{key: value for key, value in block.items() if key != "InstanceCount"},
                "ReservedCapacityArn": arn(
                    "sagemaker", f"reserved-capacity/{plan['TrainingPlanName']}-{number}"
                ),
                "TotalInstanceCount": count,
                "Status": state,
            }
            for number, (block, state) in enumerate(zip(blocks, states, strict=True), 1)
        ],
    }


def _summaries(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return list(plan["ReservedCapacitySummaries"])


def _plan_arn(name: str) -> str:
    return arn("sagemaker", f"training-plan/{name}")


def _invalid(text: str) -> AwsError:
    return AwsError("ValidationException", text)
