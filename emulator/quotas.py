"""Service Quotas for SageMaker: what AWS lists, under the names it lists them by."""

import hashlib
import threading
from typing import Any

from emulator.front import Front
from emulator.names import AwsError, arn
from emulator.world import epoch
from everstep.contracts.instances import INSTANCE_TYPES, RESERVABLE

LONGEST_RUN = "Longest run time for a training job"
MOST_PER_JOB = "Maximum number of instances per training job"
ACROSS = "Number of instances across all training jobs"
ACROSS_SPOT = "Number of instances across all spot training jobs"
KINDS = ("training job", "spot training job", "training warm pool")

_RESERVED_DEFAULT = 64.0
_CPU_DEFAULT = 512.0
_ACROSS_DEFAULT = 1000.0
_CASE = "Service code is not supported"


def reserved(kind: str) -> str:
    """The quota of what training plans may hold."""
    return f"Number of {kind} instances in reserved capacity across training plans per Region"


class Quotas:
    """Defaults (AWS's 0 for GPU types; CPU types and totals generous), and applied values."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._defaults: dict[str, float] = {
            LONGEST_RUN: 432_000.0,
            MOST_PER_JOB: 20.0,
            ACROSS: _ACROSS_DEFAULT,
            ACROSS_SPOT: _ACROSS_DEFAULT,
        }
        for name, kind in INSTANCE_TYPES.items():
            for use in KINDS:
                self._defaults[f"{name} for {use} usage"] = 0.0 if kind.gpus else _CPU_DEFAULT
            if name in RESERVABLE:
                self._defaults[reserved(name)] = _RESERVED_DEFAULT
        self._applied: dict[str, float] = {}
        self._requests: list[dict[str, Any]] = []

    def register(self, front: Front) -> None:
        """Take Service Quotas over for this service."""
        operations = {
            "ListServiceQuotas": lambda p: self._page(self._applied, p),
            "ListAWSDefaultServiceQuotas": lambda p: self._page(self._defaults, p),
            "GetServiceQuota": lambda p: self._get(self._applied, p),
            "GetAWSDefaultServiceQuota": lambda p: self._get(self._defaults, p),
            "RequestServiceQuotaIncrease": self._request,
            "ListRequestedServiceQuotaChangeHistoryByQuota": self._history,
            "ListRequestedServiceQuotaChangeHistory": self._history,
            "GetRequestedServiceQuotaChange": self._requested,
        }
        for name, operation in operations.items():
            front.add(f"ServiceQuotasV20190624.{name}", operation)

    def set(self, name: str, value: float) -> None:
        """Apply a value, as an approved request does: only then is it in ListServiceQuotas."""
        with self._lock:
            self._applied[name] = value

    def answer(self, name: str, status: str) -> None:
        """Answer the open request for a quota, as AWS does: an approval applies its value."""
        with self._lock:
            for row in self._requests:
                if row["QuotaName"] == name and row["Status"] in ("PENDING", "CASE_OPENED"):
                    row |= {"Status": status, "LastUpdated": epoch()}
                    if status == "CASE_OPENED":
                        row["CaseId"] = f"case-{row['Id'][:8]}"
                    if status == "APPROVED":
                        self._applied[name] = row["DesiredValue"]
                    return
        raise AwsError("NoSuchResourceException", f"No request is open for {name}.", 404)

    def value(self, name: str) -> float | None:
        """The value in force; None for a quota that does not exist."""
        with self._lock:
            return self._applied.get(name, self._defaults.get(name))

    def _page(self, values: dict[str, float], parameters: dict[str, Any]) -> dict[str, Any]:
        _check(parameters)
        with self._lock:
            rows = [_row(name, value) for name, value in sorted(values.items())]
        size, at = int(parameters.get("MaxResults", 100)), int(parameters.get("NextToken", 0))
        page: dict[str, Any] = {"Quotas": rows[at : at + size]}
        if at + size < len(rows):
            page["NextToken"] = str(at + size)
        return page

    def _get(self, values: dict[str, float], parameters: dict[str, Any]) -> dict[str, Any]:
        _check(parameters)
        name = self._name(parameters["QuotaCode"])
        with self._lock:
            if name not in values:
                raise AwsError(
                    "NoSuchResourceException",
                    "The request failed because the specified service quota has no applied value.",
                    404,
                )
            return {"Quota": _row(name, values[name])}

    def _request(self, parameters: dict[str, Any]) -> dict[str, Any]:
        _check(parameters)
        name = self._name(parameters["QuotaCode"])
        with self._lock:
            for former in self._requests:
                if former["QuotaName"] == name and former["Status"] in ("PENDING", "CASE_OPENED"):
                    raise AwsError(
                        "ResourceAlreadyExistsException",
                        "Only one open service quota increase request is allowed per quota.",
                    )
            made = {
                **{k: v for k, v in _row(name, 0.0).items() if k in _REQUEST_KEYS},
                "Id": hashlib.sha256(f"{name}{len(self._requests)}".encode()).hexdigest()[:32],
                "DesiredValue": float(parameters["DesiredValue"]),
                "Status": "PENDING",
                "Created": epoch(),
            }
            self._requests.append(made)
        return {"RequestedQuota": made}

    def _history(self, parameters: dict[str, Any]) -> dict[str, Any]:
        code, status = parameters.get("QuotaCode"), parameters.get("Status")
        with self._lock:
            found = [
                row
                for row in self._requests
                if code in (None, row["QuotaCode"]) and status in (None, row["Status"])
            ]
        return {"RequestedQuotas": found}

    def _requested(self, parameters: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            for row in self._requests:
                if row["Id"] == parameters["RequestId"]:
                    return {"RequestedQuota": row}
        raise AwsError("NoSuchResourceException", "The request does not exist.", 404)

    def _name(self, code: str) -> str:
        for name in [*self._defaults, *self._applied]:
            if _code(name) == code:
                return name
        raise AwsError("NoSuchResourceException", f"There is no quota {code}.", 404)


_REQUEST_KEYS = ("ServiceCode", "ServiceName", "QuotaCode", "QuotaName", "QuotaArn", "Unit")


def _check(parameters: dict[str, Any]) -> None:
    if parameters.get("ServiceCode") != "sagemaker":
        raise AwsError("NoSuchResourceException", _CASE, 404)


def _code(name: str) -> str:
    return "L-" + hashlib.sha256(name.encode()).hexdigest()[:8].upper()


def _row(name: str, value: float) -> dict[str, Any]:
    code = _code(name)
    return {
        "ServiceCode": "sagemaker",
        "ServiceName": "Amazon SageMaker",
        "QuotaArn": arn("servicequotas", f"sagemaker/{code}"),
        "QuotaCode": code,
        "QuotaName": name,
        "Value": value,
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }
