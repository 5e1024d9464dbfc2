"""Service Quotas by name, and what is in use now."""

import time
from collections.abc import Iterable, Iterator
from typing import Any

from everstep.contracts.events import TAG_RUN
from everstep.contracts.increases import Held
from everstep.policy.quota import SERVICE_CODE, JobInUse, usage

CACHE_SECONDS = 900
_cache: dict[str, tuple[float, dict[str, Held]]] = {}
_POOL_NAMES = 15
"""Names of 63 characters in one filter's 1,024."""


class Quotas:
    """Values change by the day and the lists are long: kept for a quarter of an hour a process."""

    def __init__(self, quotas: Any, sagemaker: Any) -> None:
        self._quotas, self._sagemaker = quotas, sagemaker

    def values(self) -> dict[str, float]:
        """Name → value."""
        return {name: held.value for name, held in self.held().items()}

    def held(self, now: float | None = None) -> dict[str, Held]:
        """By name. Quotas never applied for are in the default list only."""
        now = time.monotonic() if now is None else now
        kept = _cache.get(SERVICE_CODE)
        if kept is not None and now - kept[0] < CACHE_SECONDS:
            return kept[1]
        found: dict[str, Held] = {}
        for call in ("list_aws_default_service_quotas", "list_service_quotas"):
            pages = self._quotas.get_paginator(call).paginate(
                ServiceCode=SERVICE_CODE, PaginationConfig={"PageSize": 100}
            )
            for quota in (q for page in pages for q in page["Quotas"]):
                found[quota["QuotaName"]] = Held(
                    name=quota["QuotaName"],
                    value=quota["Value"],
                    code=quota["QuotaCode"],
                    adjustable=quota.get("Adjustable", False),
                )
        _cache[SERVICE_CODE] = (now, found)
        return found

    def forget(self) -> None:
        """The next look is a new one: before a refusal, and when an increase was approved."""
        _cache.clear()

    def in_use(self, run_id: str | None = None) -> dict[str, float]:
        """Counts by quota name over the account: one Search, not a describe a job. Warm pools
        count, but for the run's own: its next job takes those machines."""
        pools = self._pools()
        running = {"Name": "TrainingJobStatus", "Operator": "In", "Value": "InProgress,Stopping"}
        filters = [running] + [
            {"Name": "TrainingJobName", "Operator": "In", "Value": ",".join(names)}
            for names in _chunks(pools)
        ]
        pages = self._sagemaker.get_paginator("search").paginate(
            Resource="TrainingJob", SearchExpression={"Filters": filters, "Operator": "Or"}
        )
        jobs = [r["TrainingJob"] for page in pages for r in page["Results"]]
        own = {"Key": TAG_RUN, "Value": run_id}
        return usage(
            used
            for job in jobs
            if not job["ResourceConfig"].get("TrainingPlanArn")
            and not (job["TrainingJobName"] in pools and own in job.get("Tags", []))
            for used in _in_use(job)
        )

    def _pools(self) -> list[str]:
        """Jobs that have ended and keep machines: Search is not documented to filter by it."""
        pages = self._sagemaker.get_paginator("list_training_jobs").paginate(
            WarmPoolStatusEquals="Available"
        )
        return [j["TrainingJobName"] for page in pages for j in page["TrainingJobSummaries"]]


def _in_use(job: dict[str, Any]) -> Iterator[JobInUse]:
    """Of one job, group by group. A job without hosts of its own (serverless) yields nothing."""
    resources = job["ResourceConfig"]
    # Of InstancePreferences, which jobs made elsewhere may have, SageMaker says what it chose.
    kind = resources.get("InstanceType") or resources.get("SelectedInstanceType")
    count = resources.get("InstanceCount") or resources.get("SelectedInstanceCount")
    one = [{"InstanceType": kind, "InstanceCount": count}] if kind and count else []
    for group in resources.get("InstanceGroups") or one:
        yield JobInUse(
            instance_type=group["InstanceType"],
            instances=group["InstanceCount"],
            spot=bool(job.get("EnableManagedSpotTraining")),
            keeps_alive=bool(resources.get("KeepAlivePeriodInSeconds")),
        )


def _chunks(names: list[str]) -> Iterator[Iterable[str]]:
    # Search takes 20 filters; more pools than that fill no quota that one could wait for.
    for at in range(0, min(len(names), 19 * _POOL_NAMES), _POOL_NAMES):
        yield names[at : at + _POOL_NAMES]
