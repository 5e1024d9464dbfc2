"""A job's machines and the service's switches around it, in CreateTrainingJob's words."""

from collections.abc import Sequence
from typing import Any

from everstep.contracts.failures import Rung
from everstep.contracts.instances import INSTANCE_TYPES
from everstep.contracts.payloads import Team
from everstep.contracts.records import Launch
from everstep.contracts.run_spec import TRAIN_GROUP, Service, Target

PROFILING_MILLISECONDS = 500
"""SageMaker's own default."""


def resource_config(target: Target, team: Team) -> dict[str, Any]:
    """ResourceConfig. Hosts with local disks have no volume to encrypt: their hardware does it."""
    machines = groups(target)
    resources: dict[str, Any] = {"VolumeSizeInGB": target.volume_gib}
    if target.groups:
        resources["InstanceGroups"] = machines
    else:
        resources["InstanceType"] = target.instance_type
        resources["InstanceCount"] = target.nodes
    plain = not any(INSTANCE_TYPES[group["InstanceType"]].nvme for group in machines)
    if team.kms_key_arn and plain:
        resources["VolumeKmsKeyId"] = team.kms_key_arn
    if target.warm_pool_seconds:
        resources["KeepAlivePeriodInSeconds"] = target.warm_pool_seconds
    if target.training_plan_arn:
        resources["TrainingPlanArn"] = target.training_plan_arn
    return resources


def groups(target: Target) -> list[dict[str, Any]]:
    """InstanceGroups, the one that trains first: its hosts are then ``algo-1`` and on."""
    named = [(TRAIN_GROUP, target.instance_type, target.nodes)]
    named += [(group.name, group.instance_type, group.count) for group in target.groups]
    return [
        {"InstanceGroupName": name, "InstanceType": kind, "InstanceCount": count}
        for name, kind, count in named
    ]


def limited_to(names: Sequence[str], channel: dict[str, Any]) -> dict[str, Any]:
    """The channel, for some groups only; ``check_spec`` lets this be asked of S3 channels alone."""
    if names:
        channel["DataSource"]["S3DataSource"]["InstanceGroupNames"] = list(names)
    return channel


def service_switches(
    service: Service, target: Target, launch: Launch, output_uri: str
) -> dict[str, Any]:
    """What SageMaker does around the job, as far as it was asked for."""
    switches: dict[str, Any] = {}
    gpus = INSTANCE_TYPES[target.instance_type].gpus
    if service.infra_check and gpus and launch.rung is not Rung.WARM_HOSTS:
        switches["InfraCheckConfig"] = {"EnableInfraCheck": True}
    if service.profiler:
        switches["ProfilerConfig"] = {
            "S3OutputPath": f"{output_uri}/{launch.launch:05d}/profiler",
            "ProfilingIntervalInMilliseconds": PROFILING_MILLISECONDS,
            "DisableProfiler": False,
        }
    if service.remote_debug:
        switches["RemoteDebugConfig"] = {"EnableRemoteDebug": True}
    return switches
