"""A finished run's export as a version in the team's model package group."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from everstep.contracts.exports import ExportManifest
from everstep.contracts.records import Run
from everstep.policy.file_system import checkpoint_place, keeps_checkpoints
from everstep.policy.images import image_uri
from everstep.policy.job_request import checkpoint_uri


def description(run: Run, export: ExportManifest) -> str:
    """Also how an earlier invocation's version is known again: one a run and checkpoint."""
    return f"Everstep run {run.run_id}, checkpoint {export.checkpoint}, {export.dtype}"


def model_package(
    run: Run, group: str, uri: str, export: ExportManifest, metrics: Mapping[str, float]
) -> dict[str, Any]:
    """CreateModelPackage, in botocore's shape. A person approves it."""
    about = description(run, export)
    source = {"S3Uri": f"{uri}/", "S3DataType": "S3Prefix", "CompressionType": "None"}
    container: dict[str, Any] = {"ModelDataSource": {"S3DataSource": source}}
    if run.spec.finish.inference_image:
        container["Image"] = image_uri(run.spec.finish.inference_image, run)
    saved = checkpoint_place(run) if keeps_checkpoints(run) else checkpoint_uri(run)
    facts = {
        "everstep:run": run.run_id,
        "everstep:team": run.team.name,
        "everstep:checkpoint": f"{saved}/{export.checkpoint}",
        "everstep:step": str(export.step),
        "everstep:tokens": str(export.tokens),
        "everstep:parameters": str(export.parameters),
        "everstep:dtype": export.dtype,
        "everstep:model": run.spec.model.preset or "config",
        "everstep:data": run.spec.data.prefix,
        **{f"final:{name.removeprefix('everstep:')}": f"{v:g}" for name, v in metrics.items()},
    }
    return {
        "ModelPackageGroupName": group,
        "ModelPackageDescription": about,
        "ModelApprovalStatus": "PendingManualApproval",
        "InferenceSpecification": {"Containers": [container]},
        "CustomerMetadataProperties": {k: v[:256] for k, v in facts.items()},
        "ClientToken": sha256(f"{run.team.name}/{about}".encode()).hexdigest()[:36],
    }
