"""What SageMaker knows of a job: statuses and times, in the shapes of its API and events."""

import math
import threading
from collections.abc import Callable
from typing import Any

from emulator.names import arn
from emulator.training.machines import machines
from emulator.world import epoch

TERMINAL = ("Completed", "Failed", "Stopped")
MOST_REASON = 1024

_MESSAGES = {
    "Starting": "Starting the training job",
    "Pending": "Waiting for capacity",
    "Downloading": "Downloading input data",
    "Training": "Training image download completed. Training in progress.",
    "Uploading": "Uploading generated training model",
    "Stopping": "Stopping the training job",
    "Stopped": "Training job stopped",
    "Completed": "Training job completed",
    "Failed": "Training job failed",
    "Interrupted": "Training job interrupted",
    "Restarting": "Restarting the training job",
    "MaxRuntimeExceeded": "Training job runtime exceeded MaxRuntimeInSeconds provided",
    "MaxWaitTimeExceeded": "Training job wait time exceeded MaxWaitTimeInSeconds provided",
}
_EVENT_FIELDS = [
    "TrainingJobName",
    "TrainingJobArn",
    "TrainingJobStatus",
    "SecondaryStatus",
    "HyperParameters",
    "AlgorithmSpecification",
    "RoleArn",
    "InputDataConfig",
    "OutputDataConfig",
    "ResourceConfig",
    "VpcConfig",
    "StoppingCondition",
    "CreationTime",
    "TrainingStartTime",
    "TrainingEndTime",
    "LastModifiedTime",
    "SecondaryStatusTransitions",
    "EnableInterContainerTrafficEncryption",
    "EnableNetworkIsolation",
    "FailureReason",
    "ModelArtifacts",
]
_ECHOED = [
    "HyperParameters",
    "AlgorithmSpecification",
    "RoleArn",
    "InputDataConfig",
    "OutputDataConfig",
    "ResourceConfig",
    "WarmPoolStatus",
    "VpcConfig",
    "StoppingCondition",
    "CheckpointConfig",
    "Environment",
    "RetryStrategy",
    "InfraCheckConfig",
    "DebugHookConfig",
    "ProfilerConfig",
    "ExperimentConfig",
    "TensorBoardOutputConfig",
    "RemoteDebugConfig",
    "SessionChainingConfig",
]


class Record:
    """Thread-safe. ``changed`` is called after every change of status."""

    def __init__(self, request: dict[str, Any], changed: Callable[["Record"], None]) -> None:
        self.request = request
        self.name: str = request["TrainingJobName"]
        self.arn = arn("sagemaker", f"training-job/{self.name}")
        self.tags = {tag["Key"]: tag["Value"] for tag in request.get("Tags", [])}
        self.status = "InProgress"
        self.secondary = "Starting"
        self.reason = ""
        self.created = self.modified = epoch()
        self.started: float | None = None
        self.ended: float | None = None
        self.model_uri: str | None = None
        self.metrics: dict[str, float] = {}
        self.warm_pool: dict[str, Any] | None = None
        self._trained = 0.0
        self._changed = changed
        self._lock = threading.RLock()
        self._transitions: list[dict[str, Any]] = []

    @property
    def terminal(self) -> bool:
        return self.status in TERMINAL

    @property
    def instances(self) -> int:
        return sum(group.number for group in machines(self.request))

    @property
    def spot(self) -> bool:
        return bool(self.request.get("EnableManagedSpotTraining"))

    def move(self, secondary: str, status: str = "InProgress", message: str = "") -> None:
        """Enter a secondary status; the one before it ends now."""
        now = epoch()
        with self._lock:
            if self._transitions:
                self._transitions[-1]["EndTime"] = now
            made = {
                "Status": secondary,
                "StartTime": now,
                "StatusMessage": message or _MESSAGES.get(secondary, secondary),
            }
            if secondary == "Training" and self.started is None:
                self.started = now
            if status in TERMINAL:
                made["EndTime"] = now
                self.ended = now
            self._transitions.append(made)
            self.secondary, self.status, self.modified = secondary, status, now
        self._changed(self)

    def fail(self, reason: str) -> None:
        """End as Failed."""
        with self._lock:
            self.reason = reason[:MOST_REASON]
        self.move("Failed", "Failed", message=f"Training job failed: {reason}"[:MOST_REASON])

    def trained(self, seconds: float) -> None:
        """Count time in which hosts were ours."""
        with self._lock:
            self._trained += seconds

    def describe(self) -> dict[str, Any]:
        """DescribeTrainingJob's answer; times are epoch seconds, as JSON has them."""
        with self._lock:
            found: dict[str, Any] = {
                "TrainingJobName": self.name,
                "TrainingJobArn": self.arn,
                "TrainingJobStatus": self.status,
                "SecondaryStatus": self.secondary,
                "CreationTime": self.created,
                "LastModifiedTime": self.modified,
                "SecondaryStatusTransitions": [dict(item) for item in self._transitions],
                "EnableNetworkIsolation": bool(self.request.get("EnableNetworkIsolation")),
                "EnableInterContainerTrafficEncryption": bool(
                    self.request.get("EnableInterContainerTrafficEncryption")
                ),
                "EnableManagedSpotTraining": self.spot,
            }
            found |= {key: self.request[key] for key in _ECHOED if key in self.request}
            if self.started is not None:
                found["TrainingStartTime"] = self.started
            if self.ended is not None:
                found["TrainingEndTime"] = self.ended
            if self._trained:
                found["TrainingTimeInSeconds"] = math.ceil(self._trained)
                found["BillableTimeInSeconds"] = math.ceil(self._trained)
            if self.reason:
                found["FailureReason"] = self.reason
            if self.model_uri:
                found["ModelArtifacts"] = {"S3ModelArtifacts": self.model_uri}
            if self.warm_pool:
                found["WarmPoolStatus"] = self.warm_pool
            if self.metrics:
                found["FinalMetricDataList"] = [
                    {"MetricName": name, "Value": value, "Timestamp": self.modified}
                    for name, value in self.metrics.items()
                ]
            return found

    def summary(self) -> dict[str, Any]:
        """ListTrainingJobs' row."""
        keys = (
            "TrainingJobName TrainingJobArn CreationTime TrainingEndTime LastModifiedTime "
            "TrainingJobStatus SecondaryStatus WarmPoolStatus"
        )
        described = self.describe()
        return {key: described[key] for key in keys.split() if key in described}

    def detail(self) -> dict[str, Any]:
        """The event's detail, as AWS publishes it: times in epoch milliseconds, tags as a map."""
        described = self.describe()
        detail = {key: described[key] for key in _EVENT_FIELDS if key in described}
        for key in [name for name in detail if name.endswith("Time")]:
            detail[key] = _milliseconds(detail[key])
        detail["SecondaryStatusTransitions"] = [
            {key: _milliseconds(v) if key.endswith("Time") else v for key, v in item.items()}
            for item in described["SecondaryStatusTransitions"]
        ]
        return {**detail, "Tags": dict(self.tags)}


def _milliseconds(moment: float) -> int:
    return int(moment * 1000)
