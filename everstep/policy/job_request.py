"""The CreateTrainingJob request of one launch: what CDK's own task class cannot express."""

import json
from typing import Any

from everstep.contracts.env import TrainerEnv
from everstep.contracts.hyperparameters import to_hyperparameters
from everstep.contracts.instances import INSTANCE_TYPES
from everstep.contracts.progress import metric_definitions
from everstep.contracts.records import Launch, Run
from everstep.contracts.run_spec import RunSpec, Target, Trainer
from everstep.policy.file_system import (
    checkpoint_channels,
    checkpoint_folder,
    data_source,
    keeps_checkpoints,
)
from everstep.policy.images import image_uri
from everstep.policy.resources import limited_to, resource_config, service_switches
from everstep.policy.tags import run_tags

DEADLINE_MARGIN_SECONDS = 600
"""The trainer ends this long before the service would end it, or a tenth of a short run time."""
CHANNEL = "training"
WEIGHTS_CHANNEL = "weights"
RENDEZVOUS_PORT = 29400


PATIENT_SDK = {"AWS_RETRY_MODE": "standard", "AWS_MAX_ATTEMPTS": "10"}
"""For trainers that use an AWS SDK as it comes: a busy S3 is waited for in place, for a minute."""


def checkpoint_uri(run: Run) -> str:
    """S3: the checkpoints, or copies of the manifests of those on a file system."""
    return f"{run.team.checkpoint_uri}/{run.run_id}"


def start_uri(run: Run) -> str | None:
    """The other run's checkpoint that this one begins from."""
    begin = run.spec.start.checkpoint
    return None if begin is None else f"{run.team.checkpoint_uri}/{begin}"


def output_uri(run: Run) -> str:
    return f"{run.team.output_uri}/{run.run_id}"


def report_uri(run: Run) -> str:
    """Of the run's report, written when its execution has ended."""
    return f"{output_uri(run)}/report.html"


def data_uri(run: Run) -> str:
    return f"{run.team.data_uri}/{run.spec.data.prefix.strip('/')}"


def runtime_seconds(spec: RunSpec) -> int:
    return max(1, int(spec.stop.max_runtime_hours * 3600))


def job_request(run: Run, launch: Launch) -> dict[str, Any]:
    """Botocore's shape, ready to send."""
    spec, team, mounted = run.spec, run.team, keeps_checkpoints(run)
    target = spec.target(launch.target)
    runtime = launch.max_runtime_seconds or runtime_seconds(spec)
    trainer = TrainerEnv(
        run_id=run.run_id,
        launch=launch.launch,
        checkpoint_uri=checkpoint_folder(run) if mounted else checkpoint_uri(run),
        checkpoint_record_uri=checkpoint_uri(run) if mounted else None,
        output_uri=output_uri(run),
        data_uri=data_uri(run) if spec.data.mode == "s3" else None,
        resume_from=launch.resume_checkpoint,
        start_from=start_uri(run),
        start_with="weights" if spec.start.weights_only and spec.start.checkpoint else None,
        max_runtime_seconds=runtime - min(DEADLINE_MARGIN_SECONDS, runtime // 10),
    )
    request: dict[str, Any] = {
        "TrainingJobName": launch.job_name,
        "RoleArn": team.job_role_arn,
        "AlgorithmSpecification": {
            "TrainingImage": image_uri(spec.trainer.image, run),
            "TrainingInputMode": "FastFile" if spec.data.mode == "fastfile" else "File",
            **entry_point(spec.trainer, target),
            "MetricDefinitions": metric_definitions(),
        },
        "HyperParameters": {
            **to_hyperparameters(spec),
            **({"model.weights": WEIGHTS_CHANNEL} if spec.model.weights_prefix else {}),
            **toolkit(spec.trainer, target),
        },
        "Environment": {
            **PATIENT_SDK,
            **spec.trainer.environment,
            **trainer.as_environment(),
        },
        "OutputDataConfig": {"S3OutputPath": f"{output_uri(run)}/jobs"},
        "ResourceConfig": resource_config(target, team),
        "StoppingCondition": {"MaxRuntimeInSeconds": runtime},
        "Tags": run_tags(run, launch.execution_arn),
    }
    if spec.report.tensorboard:
        where = f"{output_uri(run)}/{launch.launch:05d}/tensorboard"
        request["TensorBoardOutputConfig"] = {"S3OutputPath": where}
    channels = [] if spec.data.mode == "s3" else [limited_to(target.data_groups, _channel(run))]
    if spec.model.weights_prefix:
        channels.append(weights_channel(run, spec.model.weights_prefix))
    channels += checkpoint_channels(run)
    if channels:
        request["InputDataConfig"] = channels
    if team.kms_key_arn:
        request["OutputDataConfig"]["KmsKeyId"] = team.kms_key_arn
    if launch.subnet:
        request["VpcConfig"] = {
            "SecurityGroupIds": team.security_groups,
            "Subnets": [launch.subnet],
        }
    if target.purchase == "spot":
        request["EnableManagedSpotTraining"] = True
        wait = runtime + int(min(spec.retry.wait_deadline_hours * 3600, 2_419_200))
        request["StoppingCondition"]["MaxWaitTimeInSeconds"] = wait
    if spec.retry.service_restarts:
        # Run time and wait are then limits over all restarts of the job together.
        request["RetryStrategy"] = {"MaximumRetryAttempts": spec.retry.service_restarts}
    return request | service_switches(spec.service, target, launch, output_uri(run))


def entry_point(trainer: Trainer, target: Target) -> dict[str, list[str]]:
    """How the container starts: as AlgorithmSpecification has it."""
    if trainer.launcher == "none":
        return {"ContainerEntrypoint": trainer.command}
    if trainer.launcher == "mpi":
        return {}  # the image's own: the toolkit's ``train``, which starts sshd and mpirun
    processes = INSTANCE_TYPES[target.instance_type].processes
    return {
        "ContainerEntrypoint": [
            "torchrun",
            f"--nnodes={target.nodes}",
            f"--nproc-per-node={processes}",
            # restarts are Everstep's: torchrun's own meet the dead ranks' addresses again
            "--max-restarts=0",
            "--rdzv-backend=c10d",
            # SageMaker calls the hosts algo-1, algo-2, …; they meet at the first one
            f"--rdzv-endpoint=algo-1:{RENDEZVOUS_PORT}",
        ],
        "ContainerArguments": trainer.command,
    }


def toolkit(trainer: Trainer, target: Target) -> dict[str, str]:
    """Hyperparameters by which SageMaker's training toolkit starts a program under mpirun.

    Source: sagemaker-training's and the sagemaker SDK's parameter names; values are JSON.
    """
    if trainer.launcher != "mpi":
        return {}
    return {
        "sagemaker_program": json.dumps(trainer.command[0]),
        "sagemaker_submit_directory": json.dumps("/opt/ml/code"),
        "sagemaker_mpi_enabled": "true",
        "sagemaker_mpi_num_of_processes_per_host": str(
            INSTANCE_TYPES[target.instance_type].processes
        ),
    }


def _channel(run: Run) -> dict[str, Any]:
    source = data_source(run) if run.spec.data.mode == "fsx" else _s3_prefix(data_uri(run))
    return {"ChannelName": CHANNEL, "DataSource": source}


def weights_channel(run: Run, prefix: str) -> dict[str, Any]:
    """FastFile: a host reads its own slices of the files, and none once there is a checkpoint."""
    source = _s3_prefix(f"{run.team.data_uri}/{prefix}")
    return {"ChannelName": WEIGHTS_CHANNEL, "InputMode": "FastFile", "DataSource": source}


def _s3_prefix(uri: str) -> dict[str, Any]:
    return {
        "S3DataSource": {
            "S3DataType": "S3Prefix",
            "S3Uri": f"{uri}/",
            "S3DataDistributionType": "FullyReplicated",
        }
    }
