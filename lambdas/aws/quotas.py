"""Service Quotas by name, and what is in use now."""

import time
from typing import Any

from everstep.policy.quota import SERVICE_CODE, usage

CACHE_SECONDS = 900
_cache: dict[str, tuple[float, dict[str, float]]] = {}


class Quotas:
    """Values change by the day and the lists are long: kept for a quarter of an hour a process."""

    def __init__(self, quotas: Any, sagemaker: Any) -> None:
        self._quotas, self._sagemaker = quotas, sagemaker

    def values(self, now: float | None = None) -> dict[str, float]:
        """Name → value. Quotas never applied for are in the default list only."""
        now = time.monotonic() if now is None else now
        kept = _cache.get(SERVICE_CODE)
        if kept is not None and now - kept[0] < CACHE_SECONDS:
            return kept[1]
        values: dict[str, float] = {}
        for call in ("list_aws_default_service_quotas", "list_service_quotas"):
            for page in self._quotas.get_paginator(call).paginate(ServiceCode=SERVICE_CODE):
                values.update({q["QuotaName"]: q["Value"] for q in page["Quotas"]})
        _cache[SERVICE_CODE] = (now, values)
        return values

    def in_use(self) -> dict[str, float]:
        """Counts by quota name over all running training jobs of the account: one Search, not a
        describe a job."""
        pages = self._sagemaker.get_paginator("search").paginate(
            Resource="TrainingJob",
            SearchExpression={
                "Filters": [
                    {"Name": "TrainingJobStatus", "Operator": "In", "Value": "InProgress,Stopping"}
                ]
            },
        )
        jobs = [r["TrainingJob"] for page in pages for r in page["Results"]]
        return usage(
            [
                (
                    job["ResourceConfig"]["InstanceType"],
                    job["ResourceConfig"]["InstanceCount"],
                    bool(job.get("EnableManagedSpotTraining")),
                )
                for job in jobs
                if job["ResourceConfig"].get("InstanceType")
                and not job["ResourceConfig"].get("TrainingPlanArn")
            ]
        )
