"""A job made elsewhere that failed: may it be taken over, and what makes it again.

Pure. The request comes back from DescribeTrainingJob, which answers with every field that
CreateTrainingJob takes but two: the tags (ListTags has them) and SessionChainingConfig, which
nobody can read back.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any

from everstep.contracts.events import (
    TAG_ADOPTED,
    TAG_AUTO_RETRY,
    TAG_EXECUTION,
    TAG_LOG_SILENCE,
    TAG_MAX_ATTEMPTS,
)
from everstep.contracts.records import Adopted, Launch, Run
from everstep.contracts.run_spec import Notify, Retry, RunSpec, Stop, Target, Watch
from everstep.contracts.secrets import SECRET, secrets_in
from everstep.contracts.training_spec import Data, Model
from everstep.policy.tags import run_tags

TAKEN = (
    "HyperParameters",
    "AlgorithmSpecification",
    "RoleArn",
    "InputDataConfig",
    "OutputDataConfig",
    "ResourceConfig",
    "VpcConfig",
    "StoppingCondition",
    "EnableNetworkIsolation",
    "EnableInterContainerTrafficEncryption",
    "EnableManagedSpotTraining",
    "CheckpointConfig",
    "DebugHookConfig",
    "DebugRuleConfigurations",
    "TensorBoardOutputConfig",
    "ExperimentConfig",
    "ProfilerConfig",
    "ProfilerRuleConfigurations",
    "Environment",
    "RetryStrategy",
    "RemoteDebugConfig",
    "InfraCheckConfig",
    "MlflowConfig",
    "ModelPackageConfig",
)
"""A test holds this to botocore's models of both calls, key by key."""
PARENTS = {
    "TuningJobArn": "a tuning job",
    "AutoMLJobArn": "an AutoML job",
    "LabelingJobArn": "a labeling job",
}
OVER_TIME = frozenset({"MaxRuntimeExceeded", "MaxWaitTimeExceeded"})
MOST_TAGS = 46
"""SageMaker takes 50; four are Everstep's own."""
MAX_ATTEMPTS = 20
LOG_SILENCE = 21_600
LONGEST_RUN = 2_419_200
"""SageMaker's: no budget of ours for a phase that a foreign program never ends."""
DEFAULT_RUNTIME = 86_400
SECTIONS = ("Environment", "HyperParameters")


def ended_in_need(job: Mapping[str, Any]) -> bool:
    """Failed, or stopped by a limit. ``Stopped`` with none of these is the user's own stop."""
    status = job["TrainingJobStatus"]
    seen = {job.get("SecondaryStatus")}
    seen |= {t["Status"] for t in job.get("SecondaryStatusTransitions") or []}
    return status == "Failed" or (status == "Stopped" and bool(OVER_TIME & seen))


def asks_for_it(tags: Mapping[str, str]) -> bool:
    """Our own jobs never do: they carry the execution's tag, and not this one."""
    return tags.get(TAG_AUTO_RETRY, "").lower() == "true" and TAG_EXECUTION not in tags


def refusal(job: Mapping[str, Any], roles: Collection[str]) -> str | None:
    """Why a job is not taken over, in words. ``roles``: those that config names."""
    for key, parent in PARENTS.items():
        if job.get(key):
            return f"it belongs to {parent} ({job[key]}), which makes its own jobs again"
    if job.get("ServerlessJobConfig"):
        return "it is a serverless job: there is no request for machines to make again"
    if not (job.get("ResourceConfig") or {}).get("InstanceType"):
        groups = "instance groups or preferences"
        return f"it has {groups}; only jobs of one instance type are taken over"
    if SECRET.search(json.dumps(job.get("AlgorithmSpecification") or {})):
        return "its command holds a literal secret, which may not be stored"
    if job["RoleArn"] not in roles:
        return f"its role {job['RoleArn']} is not in adopt_job_roles of any team"
    if not ended_in_need(job):
        status = f"{job['TrainingJobStatus']} ({job.get('SecondaryStatus', '')})"
        return f"it is {status}: only a job that failed, or ran out of time, is taken over"
    return None


def adopted(job: Mapping[str, Any], tags: Mapping[str, str]) -> Adopted:
    """The whole request. What looks like a secret stays where it is."""
    request = {k: job[k] for k in TAKEN if job.get(k) not in (None, [], {})}
    withheld = []
    for section in SECTIONS:
        values = dict(request.get(section) or {})
        for path in secrets_in(values):
            withheld.append((section, path))
            values[path] = ""
        if values:
            request[section] = values
    kept = {k: v for k, v in tags.items() if not k.lower().startswith(("aws:", "everstep:"))}
    request["Tags"] = [{"Key": k, "Value": v} for k, v in list(kept.items())[:MOST_TAGS]]
    return Adopted(
        job=job["TrainingJobName"],
        arn=job["TrainingJobArn"],
        created_epoch=job["CreationTime"].timestamp(),
        request=request,
        withheld=withheld,
    )


def spec_of(job: Mapping[str, Any], tags: Mapping[str, str]) -> RunSpec:
    """The job's limits in a spec's words: what quota, retry and watchdog read. Model and data are
    the foreign program's own business."""
    resources, stopping = job["ResourceConfig"], job.get("StoppingCondition") or {}
    runtime = stopping.get("MaxRuntimeInSeconds") or DEFAULT_RUNTIME
    plan = resources.get("TrainingPlanArn")
    spot = bool(job.get("EnableManagedSpotTraining"))
    silence = _number(tags.get(TAG_LOG_SILENCE), LOG_SILENCE, LONGEST_RUN)
    return RunSpec(
        model=Model(),
        data=Data(prefix="of-the-adopted-job"),
        compute=[
            Target(
                instance_type=resources["InstanceType"],
                nodes=resources.get("InstanceCount") or 1,
                purchase="training_plan" if plan else "spot" if spot else "on_demand",
                training_plan_arn=plan,
                volume_gib=max(1, min(resources.get("VolumeSizeInGB") or 1, 16_384)),
                warm_pool_seconds=min(resources.get("KeepAlivePeriodInSeconds") or 0, 3600),
            )
        ],
        stop=Stop(steps=1, max_runtime_hours=min(runtime / 3600, 672)),
        retry=Retry(max_attempts=_number(tags.get(TAG_MAX_ATTEMPTS), MAX_ATTEMPTS, 1000)),
        notify=Notify(on=["done", "give_up", "retry"]),
        watch=Watch(
            starting=14_400,
            downloading=21_600,
            warmup=LONGEST_RUN,
            validation=21_600,
            save=21_600,
            uploading=21_600,
            silence=silence,
            idle=None,
        ),
    )


def adopted_request(run: Run, launch: Launch, first: Mapping[str, Any] | None) -> dict[str, Any]:
    """CreateTrainingJob's input for one launch: the owner's, under our name and tags. ``first``:
    the job as DescribeTrainingJob has it, where values were withheld."""
    assert run.adopted is not None
    request = {**run.adopted.request, "TrainingJobName": launch.job_name}
    for section, name in run.adopted.withheld:
        value = ((first or {}).get(section) or {})[name]
        request[section] = {**request[section], name: value}
    owners = {tag["Key"]: tag["Value"] for tag in request["Tags"]}
    from_job = {TAG_ADOPTED: run.adopted.job}
    request["Tags"] = run_tags(run, launch.execution_arn, from_job, owners)
    return request


def checkpoint_place(run: Run) -> str | None:
    """Where the adopted job checkpoints, if it is the team's: elsewhere we may not look."""
    assert run.adopted is not None
    uri = str((run.adopted.request.get("CheckpointConfig") or {}).get("S3Uri") or "")
    mine = uri.rstrip("/").startswith(f"{run.team.checkpoint_uri}/")
    return uri.rstrip("/") if mine else None


def _number(text: str | None, default: int, most: int) -> int:
    return min(int(text), most) if text and text.isdigit() and int(text) else default
