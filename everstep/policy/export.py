"""The export job of a finished run: where it writes, how it is made, when it is given up."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from everstep.contracts.env import TrainerEnv
from everstep.contracts.failures import Action, Decision, DecisionKind, Failure, FailureClass
from everstep.contracts.instances import INSTANCE_TYPES
from everstep.contracts.manifest import Manifest
from everstep.contracts.records import Launch, Run
from everstep.contracts.run_spec import RunSpec
from everstep.policy.file_system import (
    checkpoint_channels,
    checkpoint_folder,
    keeps_checkpoints,
)
from everstep.policy.images import image_uri
from everstep.policy.job_request import (
    WEIGHTS_CHANNEL,
    checkpoint_uri,
    output_uri,
    weights_channel,
)
from everstep.policy.retry import WITHOUT_ATTEMPT
from everstep.policy.tags import run_tags

WAITS = WITHOUT_ATTEMPT - {FailureClass.MAX_RUNTIME}
"""No try is spent on these, until ``retry.wait_deadline_hours`` are over."""
SPARE_GIB = 20
MAX_GIB = 16_384


def export_uri(run: Run, checkpoint: str) -> str:
    """The same for every try: an export replaces what an earlier one left."""
    return f"{output_uri(run)}/export/{checkpoint}"


def failures_uri(run: Run) -> str:
    """Apart from the launches' failure files, which have numbers of their own."""
    return f"{output_uri(run)}/exports"


def volume_gib(manifest: Manifest) -> int:
    """Disk holds the whole checkpoint and one shard."""
    checkpoint = sum(entry.size for entry in manifest.entries) / 2**30
    return min(MAX_GIB, math.ceil(checkpoint * 1.1) + SPARE_GIB)


def export_dtype(spec: RunSpec) -> str:
    wide = "bf16" if spec.train.dtype == "fp8" else spec.train.dtype
    return spec.finish.dtype or wide


def export_request(run: Run, export: Launch) -> dict[str, Any]:
    """CreateTrainingJob of one try, in botocore's shape."""
    spec, team, finish, plan = run.spec, run.team, run.spec.finish, export.plan
    saved = checkpoint_folder(run) if keeps_checkpoints(run) else checkpoint_uri(run)
    source = f"{saved}/{plan.checkpoint}"
    dataset = f"{team.data_uri}/{spec.data.folders[0]}"
    environment = TrainerEnv(
        run_id=run.run_id,
        launch=export.launch,
        checkpoint_uri=source,
        output_uri=failures_uri(run),
    )
    resources: dict[str, Any] = {
        "InstanceType": finish.instance_type,
        "InstanceCount": 1,
        "VolumeSizeInGB": plan.volume_gib,
    }
    # of LoRA: a checkpoint holds adapters, which are merged into what they stand beside
    weights = WEIGHTS_CHANNEL if spec.model.weights_prefix else spec.model.weights
    request: dict[str, Any] = {
        "TrainingJobName": export.job_name,
        "RoleArn": team.job_role_arn,
        "AlgorithmSpecification": {
            "TrainingImage": image_uri(finish.image or spec.trainer.image, run),
            "TrainingInputMode": "File",
            "ContainerEntrypoint": finish.command,
            "ContainerArguments": [
                source,
                plan.uri,
                "--dtype",
                export_dtype(spec),
                "--dataset",
                dataset,
                *(["--weights", weights] if spec.model.lora and weights else []),
            ],
        },
        "Environment": {**spec.trainer.environment, **environment.as_environment()},
        "OutputDataConfig": {"S3OutputPath": f"{failures_uri(run)}/jobs"},
        "ResourceConfig": resources,
        "StoppingCondition": {"MaxRuntimeInSeconds": max(1, int(finish.max_runtime_hours * 3600))},
        "Tags": run_tags(run, export.execution_arn),
    }
    channels = checkpoint_channels(run, access="ro")
    if spec.model.lora and spec.model.weights_prefix:
        channels.append(weights_channel(run, spec.model.weights_prefix))
    if channels:
        request["InputDataConfig"] = channels
    if team.kms_key_arn:
        request["OutputDataConfig"]["KmsKeyId"] = team.kms_key_arn
        if not INSTANCE_TYPES[finish.instance_type].nvme:
            resources["VolumeKmsKeyId"] = team.kms_key_arn
    if export.subnet:
        request["VpcConfig"] = {
            "SecurityGroupIds": team.security_groups,
            "Subnets": [export.subnet],
        }
    return request


def decide_export(
    spec: RunSpec,
    failure: Failure,
    series: Sequence[Launch],
    now: float,
    draw: Callable[[], float],
) -> Decision:
    """``series``: the tries that count, oldest first, the one that just failed last. ``draw``: a
    number in [0, 1). Training's attempts, limits and budget are not looked at."""
    most = spec.finish.max_attempts
    if failure.action is Action.DO_NOT_RETRY:
        return _give_up(f"{failure.failure_class} is not cured by another try")
    if failure.failure_class in WAITS:
        hours = spec.retry.wait_deadline_hours
        if now - series[0].planned_epoch >= hours * 3600:
            return _give_up(f"waited {hours:g} h for {failure.failure_class}")
        wait = max(1, int(spec.retry.backoff_cap_seconds * (0.5 + draw() / 2)))
        return _again(f"{failure.failure_class}: no try is spent", wait, spends=False)
    spent = [failure, *(x.failure for x in series[:-1] if x.failure)]
    count = sum(f.failure_class not in WAITS for f in spent)
    if count >= most:
        return _give_up(f"tries spent: {count} of {most}")
    ceiling = min(spec.retry.backoff_cap_seconds, spec.retry.backoff_seconds * 2.0 ** (count - 1))
    wait = int(draw() * (math.floor(ceiling) + 1))
    return _again(f"{failure.failure_class}: try {count + 1} of {most}", wait, spends=True)


def _again(reason: str, wait: int, *, spends: bool) -> Decision:
    return Decision(
        kind=DecisionKind.RETRY, reason=reason, wait_seconds=wait, spends_attempt=spends
    )


def _give_up(reason: str) -> Decision:
    return Decision(kind=DecisionKind.GIVE_UP, reason=reason)
