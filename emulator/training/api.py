"""SageMaker's training operations, in place of moto's: its jobs are completed at birth."""

import threading
from collections import Counter
from typing import Any

from emulator.bus import JOB_EVENT, Bus
from emulator.front import Front, NotOurs
from emulator.names import AwsError
from emulator.quotas import Quotas
from emulator.training.job import Job
from emulator.training.machines import machines
from emulator.training.plans import Plans
from emulator.training.record import Record
from emulator.training.requests import check_quotas, taken_by_others, validate
from emulator.training.search import list_jobs, search
from emulator.training.settings import Settings
from emulator.world import World

_POOL_KEYS = (
    "RoleArn",
    "VpcConfig",
    "EnableNetworkIsolation",
    "EnableInterContainerTrafficEncryption",
)
_POOL_FIELDS = ("InstanceType", "InstanceCount", "VolumeSizeInGB", "VolumeKmsKeyId")


class TrainingApi:
    """All jobs there have been."""

    def __init__(self, world: World, bus: Bus, quotas: Quotas) -> None:
        self.settings = Settings()
        self.plans = Plans(quotas)
        self._world = world
        self._bus = bus
        self._quotas = quotas
        self._lock = threading.RLock()
        self._jobs: dict[str, Job] = {}

    def register(self, front: Front) -> None:
        """Take these operations over from moto."""
        operations = {
            "CreateTrainingJob": self.create,
            "DescribeTrainingJob": self.describe,
            "StopTrainingJob": self.stop,
            "UpdateTrainingJob": self.update,
            "ListTrainingJobs": lambda p: list_jobs(self._records(), p),
            "Search": self._search,
            "ListTags": self._list_tags,
            "AddTags": self._add_tags,
            "DeleteTags": self._delete_tags,
        }
        for name, operation in operations.items():
            front.add(f"SageMaker.{name}", operation)
        self.plans.register(front)

    def create(self, request: dict[str, Any]) -> dict[str, Any]:
        """CreateTrainingJob."""
        validate(request)
        if request["ResourceConfig"].get("TrainingPlanArn"):
            self.plans.check(request)
        name = request["TrainingJobName"]
        with self._lock:
            if name in self._jobs:
                raise AwsError(
                    "ResourceInUse",
                    "Training job names must be unique within an AWS account and region, and a "
                    f"training job with this name already exists ({self._jobs[name].record.arn})",
                )
            if self._world.faults.take("no_room", name):
                raise taken_by_others(request, self._quotas)
            pool = self._pool_for(request)
            if pool is None:
                check_quotas(request, self._quotas, self._in_use())
            else:
                pool.warm_pool = {"Status": "Reused", "ReusedByJob": name}
            record = Record(request, self._publish)
            job = self._jobs[name] = Job(self._world, record, self.settings, pool is not None)
        self._world.background(job.run, f"job {name}")
        return {"TrainingJobArn": record.arn}

    def describe(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """DescribeTrainingJob."""
        return self.job(parameters["TrainingJobName"]).record.describe()

    def stop(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """StopTrainingJob."""
        self.job(parameters["TrainingJobName"]).stop()
        return {}

    def update(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """UpdateTrainingJob: here, the warm pool's time; 0 ends it."""
        record = self.job(parameters["TrainingJobName"]).record
        seconds = parameters.get("ResourceConfig", {}).get("KeepAlivePeriodInSeconds")
        if seconds is not None:
            pool = record.warm_pool
            if not pool or pool["Status"] != "Available":
                raise AwsError(
                    "ValidationException",
                    "The warm pool of this training job is not available, so it cannot be updated.",
                )
            if int(seconds) == 0:
                pool["Status"] = "Terminated"
        return {"TrainingJobArn": record.arn}

    def job(self, name: str) -> Job:
        """A job by name; SageMaker has no error code of its own for a missing one."""
        with self._lock:
            if name not in self._jobs:
                raise AwsError("ValidationException", "Requested resource not found.")
            return self._jobs[name]

    def running(self) -> list[Job]:
        """Jobs that have not ended."""
        with self._lock:
            return [job for job in self._jobs.values() if not job.record.terminal]

    def _records(self) -> list[Record]:
        with self._lock:
            return [job.record for job in self._jobs.values()]

    def _publish(self, record: Record) -> None:
        self._bus.put("aws.sagemaker", JOB_EVENT, record.detail(), [record.arn])

    def _in_use(self) -> dict[tuple[str, bool], int]:
        used: Counter[tuple[str, bool]] = Counter()
        for job in self._jobs.values():
            record = job.record
            pool = (record.warm_pool or {}).get("Status") == "Available"
            planned = record.request["ResourceConfig"].get("TrainingPlanArn")
            if (not record.terminal or pool) and not planned:
                for group in machines(record.request):
                    used[group.instance_type, record.spot] += group.number
        return used

    def _pool_for(self, request: dict[str, Any]) -> Record | None:
        if not request["ResourceConfig"].get("KeepAlivePeriodInSeconds"):
            return None
        for job in self._jobs.values():
            record = job.record
            if (record.warm_pool or {}).get("Status") == "Available" and _fits(
                record.request, request
            ):
                return record
        return None

    def _search(self, parameters: dict[str, Any]) -> dict[str, Any]:
        if parameters["Resource"] != "TrainingJob":
            raise NotOurs
        return search(self._records(), parameters)

    def _list_tags(self, parameters: dict[str, Any]) -> dict[str, Any]:
        tags = self._tagged(parameters).tags
        return {"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}

    def _add_tags(self, parameters: dict[str, Any]) -> dict[str, Any]:
        record = self._tagged(parameters)
        record.tags.update({tag["Key"]: tag["Value"] for tag in parameters["Tags"]})
        return {"Tags": parameters["Tags"]}

    def _delete_tags(self, parameters: dict[str, Any]) -> dict[str, Any]:
        record = self._tagged(parameters)
        for key in parameters["TagKeys"]:
            record.tags.pop(key, None)
        return {}

    def _tagged(self, parameters: dict[str, Any]) -> Record:
        arn = parameters["ResourceArn"]
        if ":training-job/" not in arn:
            raise NotOurs
        return self.job(arn.rpartition("/")[2]).record


def _fits(former: dict[str, Any], request: dict[str, Any]) -> bool:
    """What must be equal for a warm pool to be used again."""
    same = all(
        former["ResourceConfig"].get(field) == request["ResourceConfig"].get(field)
        for field in _POOL_FIELDS
    )
    return same and all(former.get(key) == request.get(key) for key in _POOL_KEYS)
