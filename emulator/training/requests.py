"""What CreateTrainingJob refuses, from botocore's model and AWS's documented rules."""

import re
from collections import Counter
from typing import Any

import botocore.session
from botocore.model import ListShape, MapShape, Shape, StructureShape

from emulator.names import AwsError
from emulator.quotas import (
    ACROSS,
    ACROSS_SPOT,
    LONGEST_RUN,
    MOST_PER_JOB,
    Quotas,
)
from emulator.training.machines import machines
from everstep.contracts.instances import INSTANCE_TYPES

_MODEL: Any = botocore.session.get_session().get_service_model("sagemaker")


def validate_model(operation: str, request: dict[str, Any]) -> None:
    """Raises ``ValidationException`` with every problem of the model."""
    problems = list(_problems(_MODEL.operation_model(operation).input_shape, request, ""))
    if problems:
        count = len(problems)
        noun = "error" if count == 1 else "errors"
        raise _invalid(f"{count} validation {noun} detected: " + "; ".join(problems))


def validate(request: dict[str, Any]) -> None:
    """Raises ``ValidationException`` with every problem of the model, or the first rule broken."""
    validate_model("CreateTrainingJob", request)
    for rule in (_resources, _spot, _data, _isolation, _checkpoints):
        text = rule(request)
        if text:
            raise _invalid(text)


def check_quotas(
    request: dict[str, Any], quotas: Quotas, used: dict[tuple[str, bool], int]
) -> None:
    """Raises ``ResourceLimitExceeded``. ``used``: instances in use by type and spot."""
    resources, groups = request["ResourceConfig"], machines(request)
    count = sum(group.number for group in groups)
    spot = bool(request.get("EnableManagedSpotTraining"))
    planned = bool(resources.get("TrainingPlanArn"))
    runtime = int(request["StoppingCondition"].get("MaxRuntimeInSeconds", 86_400))
    longest = quotas.value(LONGEST_RUN)
    if longest is not None and runtime > longest:
        raise _limit(LONGEST_RUN, longest, 0, runtime, "Seconds")
    most = quotas.value(MOST_PER_JOB)
    if most is not None and count > most:
        raise _limit(MOST_PER_JOB, most, 0, count)
    asked: Counter[str] = Counter()
    for group in groups:
        asked[group.instance_type] += group.number
    for kind, number in asked.items():
        name = f"{kind} for {'spot ' if spot else ''}training job usage"
        _require(quotas, name, 0 if planned else used.get((kind, spot), 0), number)
        if int(resources.get("KeepAlivePeriodInSeconds", 0)):
            _require(quotas, f"{kind} for training warm pool usage", 0, number)
    if not planned:
        total = sum(number for (_, is_spot), number in used.items() if is_spot == spot)
        _require(quotas, ACROSS_SPOT if spot else ACROSS, total, count)


def taken_by_others(request: dict[str, Any], quotas: Quotas) -> AwsError:
    """What comes where someone else took the room after the caller had looked."""
    resources = request["ResourceConfig"]
    spot = "spot " if request.get("EnableManagedSpotTraining") else ""
    name = f"{resources['InstanceType']} for {spot}training job usage"
    most = quotas.value(name) or 0.0
    return _limit(name, most, int(most), int(resources.get("InstanceCount", 1)))


def _require(quotas: Quotas, name: str, used: int, count: int) -> None:
    value = quotas.value(name)
    if value is not None and used + count > value:
        raise _limit(name, value, used, count)


def _limit(name: str, value: float, used: int, count: int, unit: str = "Instances") -> AwsError:
    return AwsError(
        "ResourceLimitExceeded",
        f"The account-level service limit '{name}' is {value:.0f} {unit}, with current "
        f"utilization of {used} {unit} and a request delta of {count} {unit}. Please use AWS "
        "Service Quotas to request an increase for this quota. If AWS Service Quotas is not "
        "available, contact AWS support to request an increase for this quota.",
    )


def _invalid(text: str) -> AwsError:
    return AwsError("ValidationException", text)


def _problems(shape: Shape, value: Any, path: str) -> Any:
    if isinstance(shape, StructureShape):
        yield from _structure(shape, value, path)
    elif isinstance(shape, ListShape):
        yield from _size(shape, len(value), path, value)
        for number, item in enumerate(value, 1):
            yield from _problems(shape.member, item, f"{path}.{number}.member")
    elif isinstance(shape, MapShape):
        yield from _size(shape, len(value), path, value)
        for key, item in value.items():
            yield from _problems(shape.key, key, f"{path}.key")
            yield from _problems(shape.value, item, f"{path}.{key}")
    elif shape.type_name == "string":
        yield from _string(shape, value, path)
    elif shape.type_name in ("integer", "long", "float", "double"):
        yield from _range(shape, value, path)


def _structure(shape: StructureShape, value: dict[str, Any], path: str) -> Any:
    if not isinstance(value, dict):
        yield f"Value at '{path}' failed to satisfy constraint: Member must be an object"
        return
    for name in shape.required_members:
        if value.get(name) is None:
            yield (
                f"Value null at '{_path(path, name)}' failed to satisfy constraint: "
                "Member must not be null"
            )
    for name, item in value.items():
        if name in shape.members and item is not None:
            yield from _problems(shape.members[name], item, _path(path, name))


def _string(shape: Any, value: Any, path: str) -> Any:
    if not isinstance(value, str):
        yield f"Value '{value}' at '{path}' failed to satisfy constraint: Member must be a string"
        return
    yield from _size(shape, len(value), path, value)
    if shape.enum and value not in shape.enum:
        yield (
            f"Value '{value}' at '{path}' failed to satisfy constraint: Member must satisfy enum "
            f"value set: [{', '.join(shape.enum)}]"
        )
    pattern = shape.metadata.get("pattern")
    if pattern and not re.fullmatch(_python(pattern), value, re.DOTALL):
        yield (
            f"Value '{value}' at '{path}' failed to satisfy constraint: Member must satisfy "
            f"regular expression pattern: {pattern}"
        )


def _size(shape: Shape, size: int, path: str, value: Any) -> Any:
    lowest, highest = shape.metadata.get("min"), shape.metadata.get("max")
    shown = value if isinstance(value, str) else "[...]"
    if lowest is not None and size < lowest:
        yield (
            f"Value '{shown}' at '{path}' failed to satisfy constraint: Member must have length "
            f"greater than or equal to {lowest}"
        )
    if highest is not None and size > highest:
        yield (
            f"Value '{shown}' at '{path}' failed to satisfy constraint: Member must have length "
            f"less than or equal to {highest}"
        )


def _range(shape: Shape, value: Any, path: str) -> Any:
    lowest, highest = shape.metadata.get("min"), shape.metadata.get("max")
    if lowest is not None and value < lowest:
        yield (
            f"Value '{value}' at '{path}' failed to satisfy constraint: Member must have value "
            f"greater than or equal to {lowest}"
        )
    if highest is not None and value > highest:
        yield (
            f"Value '{value}' at '{path}' failed to satisfy constraint: Member must have value "
            f"less than or equal to {highest}"
        )


def _path(path: str, name: str) -> str:
    own = name[0].lower() + name[1:]
    return f"{path}.{own}" if path else own


def _python(pattern: str) -> str:
    # The model's patterns are Java's; these two classes are all that differ here.
    return (
        pattern.replace(r"\p{L}", r"[^\W\d_]")
        .replace(r"\p{Z}", r"\s")
        .replace(r"[[^\W\d_]", r"[\w")
        .replace(r"\p{N}", r"\d")
        .replace(r"[\w\s\d", r"[\w\s")
    )


def _resources(request: dict[str, Any]) -> str | None:
    resources = request["ResourceConfig"]
    kind = resources.get("InstanceType")
    if not kind and not resources.get("InstanceGroups"):
        return "Either InstanceType or InstanceGroups is required in ResourceConfig."
    if kind and resources.get("InstanceGroups"):
        return "InstanceType and InstanceGroups are mutually exclusive in ResourceConfig."
    for group in machines(request):
        known = INSTANCE_TYPES.get(group.instance_type)
        if known and known.nvme and resources.get("VolumeKmsKeyId"):
            return (
                f"VolumeKmsKeyId is not supported for instance type {group.instance_type}: its "
                "storage is encrypted by the instance's own hardware."
            )
        if known and not known.nvme and not resources.get("VolumeSizeInGB"):
            return "VolumeSizeInGB is required for this instance type."
    return None


def _spot(request: dict[str, Any]) -> str | None:
    stopping = request["StoppingCondition"]
    runtime = int(stopping.get("MaxRuntimeInSeconds", 86_400))
    wait = stopping.get("MaxWaitTimeInSeconds")
    if not request.get("EnableManagedSpotTraining"):
        if wait is not None:
            return "MaxWaitTimeInSeconds is only supported when EnableManagedSpotTraining is true."
        return None
    if wait is None or int(wait) < runtime:
        return (
            "Invalid MaxWaitTimeInSeconds. It must be present and be greater than or equal to "
            "MaxRuntimeInSeconds"
        )
    if int(request["ResourceConfig"].get("KeepAlivePeriodInSeconds", 0)):
        return "KeepAlivePeriodInSeconds is not supported with EnableManagedSpotTraining."
    return None


def _data(request: dict[str, Any]) -> str | None:
    names = [channel["ChannelName"] for channel in request.get("InputDataConfig", [])]
    if len(set(names)) != len(names):
        return "Channel names must be unique."
    for channel in request.get("InputDataConfig", []):
        source = channel["DataSource"]
        if "FileSystemDataSource" in source and not request.get("VpcConfig"):
            return "VpcConfig is required when a FileSystemDataSource is used."
        known = {group.group for group in machines(request)}
        if set(source.get("S3DataSource", {}).get("InstanceGroupNames", [])) - known:
            return "InstanceGroupNames of a channel must be groups of ResourceConfig."
        if ("S3DataSource" in source) == ("FileSystemDataSource" in source):
            return "Exactly one of S3DataSource and FileSystemDataSource is required."
    return None


def _isolation(request: dict[str, Any]) -> str | None:
    resources = request["ResourceConfig"]
    if request.get("EnableNetworkIsolation") and request.get("RemoteDebugConfig", {}).get(
        "EnableRemoteDebug"
    ):
        return "Remote debugging is not supported with network isolation."
    if resources.get("KeepAlivePeriodInSeconds") and resources.get("InstanceGroups"):
        return "KeepAlivePeriodInSeconds is not supported with instance groups."
    return None


def _checkpoints(request: dict[str, Any]) -> str | None:
    local = request.get("CheckpointConfig", {}).get("LocalPath", "/opt/ml/checkpoints")
    if local.rstrip("/") in ("/opt/ml", "/opt/ml/input", "/opt/ml/output", "/opt/ml/model"):
        return f"CheckpointConfig LocalPath {local} is reserved."
    return None
