"""Training jobs: statuses, files, logs, metrics, ends of every kind."""

import io
import json
import math
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from .conftest import Cloud, unique, until

SCRIPT = Path(__file__).with_name("tiny_job.py")
GROUP = "/aws/sagemaker/TrainingJobs"


@pytest.fixture(scope="module")
def bucket(cloud: Cloud) -> str:
    name = unique("train")
    cloud("s3").create_bucket(Bucket=name)
    for key in ("data/one.txt", "data/deep/two.txt", "data2/three.txt"):
        cloud("s3").put_object(Bucket=name, Key=key, Body=key.encode())
    cloud.control.settings(provision_seconds=0.01, sibling_seconds=0.5, stop_seconds=5)
    return name


@pytest.fixture(scope="module")
def role(cloud: Cloud) -> str:
    return cloud.role()


class Maker:
    """Makes jobs of the tiny program."""

    def __init__(self, cloud: Cloud, bucket: str, role: str) -> None:
        self.cloud, self.bucket, self.role = cloud, bucket, role

    def __call__(self, hosts: int = 1, name: str | None = None, **changes: Any) -> str:
        name = name or unique("job")
        parameters = {key: str(value) for key, value in changes.pop("run", {}).items()}
        algorithm = {
            "TrainingImage": "registry/trainer:1",
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["python", str(SCRIPT)],
            "MetricDefinitions": [{"Name": "loss", "Regex": '"loss":([0-9.e-]+)'}],
        }
        request = {
            "TrainingJobName": name,
            "RoleArn": self.role,
            "AlgorithmSpecification": algorithm,
            "HyperParameters": parameters,
            "InputDataConfig": [
                {
                    "ChannelName": "training",
                    "DataSource": {
                        "S3DataSource": {
                            "S3DataType": "S3Prefix",
                            "S3Uri": f"s3://{self.bucket}/data/",
                        }
                    },
                }
            ],
            "OutputDataConfig": {"S3OutputPath": f"s3://{self.bucket}/out"},
            "ResourceConfig": {
                "InstanceType": "ml.m5.large",
                "InstanceCount": hosts,
                "VolumeSizeInGB": 10,
            },
            "StoppingCondition": {"MaxRuntimeInSeconds": 300},
            **changes,
        }
        self.cloud("sagemaker").create_training_job(**request)
        return name

    def look(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.cloud("sagemaker").describe_training_job(TrainingJobName=name)
        return found

    def ended(self, name: str, seconds: float = 30.0) -> dict[str, Any]:
        terminal = ("Completed", "Failed", "Stopped")
        until(lambda: self.look(name)["TrainingJobStatus"] in terminal, seconds)
        return self.look(name)

    def at_step(self, name: str, step: int) -> None:
        def reached() -> bool:
            jobs = {job["name"]: job for job in self.cloud.control.jobs()}
            return name in jobs and max(jobs[name]["steps"].values(), default=-1) >= step

        until(reached)

    def lines(self, name: str) -> list[str]:
        events = self.cloud("logs").filter_log_events(
            logGroupName=GROUP, logStreamNamePrefix=f"{name}/"
        )["events"]
        return [event["message"] for event in events]


@pytest.fixture(scope="module")
def make(cloud: Cloud, bucket: str, role: str) -> Maker:
    return Maker(cloud, bucket, role)


def test_a_job_completes(cloud: Cloud, make: Maker, bucket: str) -> None:
    name = make(hosts=2, Tags=[{"Key": "everstep:run", "Value": "r"}])
    job = make.ended(name)
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Completed", "Completed")
    assert [item["Status"] for item in job["SecondaryStatusTransitions"]] == [
        "Starting",
        "Downloading",
        "Training",
        "Uploading",
        "Completed",
    ]
    assert job["TrainingStartTime"] <= job["TrainingEndTime"]
    assert job["BillableTimeInSeconds"] >= 1
    assert {m["MetricName"] for m in job["FinalMetricDataList"]} == {"loss"}
    key = f"out/{name}/output/model.tar.gz"
    assert job["ModelArtifacts"]["S3ModelArtifacts"] == f"s3://{bucket}/{key}"
    body = cloud("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(body)) as model:
        assert model.getnames() == ["model.txt"]
    said = [json.loads(line) for line in make.lines(name)]
    files = [line for line in said if line.get("note") == "files"]
    assert {line["host"] for line in files} == {"algo-1", "algo-2"}
    assert files[0]["files"] == ["one.txt", "two.txt"]
    streams = cloud("logs").describe_log_streams(
        logGroupName=GROUP, logStreamNamePrefix=f"{name}/algo-"
    )["logStreams"]
    assert len(streams) == 2
    metrics = cloud("cloudwatch").list_metrics(Namespace=GROUP)["Metrics"]
    assert {"Name": "TrainingJobName", "Value": name} in [m["Dimensions"][0] for m in metrics]
    tags = cloud("sagemaker").list_tags(ResourceArn=job["TrainingJobArn"])["Tags"]
    assert tags == [{"Key": "everstep:run", "Value": "r"}]


def test_the_failure_file_is_the_reason(make: Maker) -> None:
    job = make.ended(make(hosts=2, run={"steps": 500, "fail_at": 2}))
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"] == "AlgorithmError: broke at step 2, exit code: 3"
    bad = {
        "AlgorithmSpecification": {
            "TrainingImage": "x/y:1",
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["python", "-c", "raise SystemExit(1)"],
        }
    }
    assert make.ended(make(**bad))["FailureReason"] == "AlgorithmError: , exit code: 1"


def test_stop_gives_time_and_then_kills(cloud: Cloud, make: Maker) -> None:
    name = make(run={"steps": 5000})
    make.at_step(name, 1)
    cloud("sagemaker").stop_training_job(TrainingJobName=name)
    job = make.ended(name)
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "Stopped")
    assert "Stopping" in [item["Status"] for item in job["SecondaryStatusTransitions"]]
    assert "got SIGTERM" in make.lines(name)
    assert "FailureReason" not in job
    deaf = make(run={"steps": 5000, "deaf": "yes"})
    make.at_step(deaf, 1)
    cloud.control.settings(stop_seconds=0.3)
    cloud("sagemaker").stop_training_job(TrainingJobName=deaf)
    assert make.ended(deaf)["TrainingJobStatus"] == "Stopped"
    cloud.control.settings(stop_seconds=5)
    with pytest.raises(ClientError, match="in status Stopped"):
        cloud("sagemaker").stop_training_job(TrainingJobName=deaf)


def test_the_longest_run_time_is_kept(make: Maker) -> None:
    job = make.ended(make(run={"steps": 5000}, StoppingCondition={"MaxRuntimeInSeconds": 1}))
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxRuntimeExceeded")


def test_a_lost_host_is_the_services_fault(cloud: Cloud, make: Maker) -> None:
    name = make(hosts=2, run={"steps": 5000})
    cloud.control.kill_host(name, "algo-2", at_step=2)
    job = make.ended(name)
    assert job["FailureReason"] == (
        "InternalServerError: We encountered an internal error.  Please try again."
    )
    assert not [row for row in cloud.control.processes() if name in row["name"]]


def test_the_services_own_retry_keeps_the_job(cloud: Cloud, make: Maker) -> None:
    name = make(run={"steps": 40}, RetryStrategy={"MaximumRetryAttempts": 1})
    cloud.control.kill_host(name, "algo-1", at_step=2)
    job = make.ended(name)
    assert job["TrainingJobStatus"] == "Completed"
    assert "Restarting" in [item["Status"] for item in job["SecondaryStatusTransitions"]]


def test_a_killed_process_is_the_algorithms_end(cloud: Cloud, make: Maker) -> None:
    name = make(run={"steps": 5000})
    make.at_step(name, 1)
    cloud.control.kill_process(name)
    assert make.ended(name)["FailureReason"] == "AlgorithmError: , exit code: 137"


def test_freezing_stops_steps_and_thawing_goes_on(cloud: Cloud, make: Maker) -> None:
    name = make(run={"steps": 60})
    make.at_step(name, 1)
    cloud.control.freeze_host(name)
    (job,) = [job for job in cloud.control.jobs() if job["name"] == name]
    frozen = job["steps"]["algo-1"]
    time.sleep(0.3)
    (job,) = [job for job in cloud.control.jobs() if job["name"] == name]
    assert job["steps"]["algo-1"] <= frozen + 1
    cloud.control.thaw(name)
    assert make.ended(name)["TrainingJobStatus"] == "Completed"


def test_capacity_fails_after_creation(cloud: Cloud, make: Maker) -> None:
    cloud.control.capacity(1)
    job = make.ended(make())
    assert job["FailureReason"].startswith("CapacityError: Unable to provision requested ML")
    assert make.ended(make())["TrainingJobStatus"] == "Completed"


def test_a_reclaimed_spot_job_starts_again_from_its_checkpoint(
    cloud: Cloud, make: Maker, bucket: str
) -> None:
    cloud.control.settings(sync_seconds=0.1)
    spot = {
        "EnableManagedSpotTraining": True,
        "StoppingCondition": {"MaxRuntimeInSeconds": 100, "MaxWaitTimeInSeconds": 200},
        "CheckpointConfig": {"S3Uri": f"s3://{bucket}/{unique('checkpoints')}"},
    }
    name = make(run={"steps": 60}, **spot)
    cloud.control.interrupt_spot(name, at_step=5)
    job = make.ended(name)
    assert job["TrainingJobStatus"] == "Completed"
    statuses = [item["Status"] for item in job["SecondaryStatusTransitions"]]
    assert statuses.count("Training") == 2
    assert "Interrupted" in statuses
    steps = [json.loads(line).get("step") for line in make.lines(name) if line.startswith("{")]
    numbers = [step for step in steps if step]
    assert len(numbers) == len(set(numbers))
    assert max(numbers) == 60
    clock = (job["TrainingEndTime"] - job["TrainingStartTime"]).total_seconds()
    assert 1 <= job["TrainingTimeInSeconds"] <= math.ceil(clock)


def test_names_and_quotas_are_guarded(cloud: Cloud, make: Maker) -> None:
    name = make()
    with pytest.raises(ClientError) as caught:
        make(name=name)
    assert caught.value.response["Error"]["Code"] == "ResourceInUse"
    big = {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
    with pytest.raises(ClientError) as caught:
        make(ResourceConfig=big)
    assert caught.value.response["Error"]["Code"] == "ResourceLimitExceeded"
    quota = "ml.p4d.24xlarge for training job usage"
    client = cloud("service-quotas")

    def listed(operation: str) -> dict[str, float]:
        pages = client.get_paginator(operation).paginate(ServiceCode="sagemaker")
        return {q["QuotaName"]: q["Value"] for page in pages for q in page["Quotas"]}

    assert listed("list_aws_default_service_quotas")[quota] == 0
    assert quota not in listed("list_service_quotas")
    cloud.control.quota(quota, 1)
    assert listed("list_service_quotas")[quota] == 1
    assert make.ended(make(ResourceConfig=big))["TrainingJobStatus"] == "Completed"
    with pytest.raises(ClientError, match=r"Requested resource not found\."):
        make.look("no-such-job")


def test_search_and_list_find_what_runs(cloud: Cloud, make: Maker) -> None:
    name = make(run={"steps": 5000}, Tags=[{"Key": "everstep:run", "Value": name_of_run()}])
    make.at_step(name, 1)
    running = {"Name": "TrainingJobStatus", "Operator": "Equals", "Value": "InProgress"}
    results = cloud("sagemaker").search(
        Resource="TrainingJob", SearchExpression={"Filters": [running]}
    )["Results"]
    found = {row["TrainingJob"]["TrainingJobName"]: row["TrainingJob"] for row in results}
    assert found[name]["ResourceConfig"]["InstanceCount"] == 1
    rows = cloud("sagemaker").list_training_jobs(StatusEquals="InProgress", NameContains=name)
    assert [row["TrainingJobName"] for row in rows["TrainingJobSummaries"]] == [name]
    assert not cloud.control.idle()
    cloud("sagemaker").stop_training_job(TrainingJobName=name)
    make.ended(name)


def name_of_run() -> str:
    return unique("run")


def test_a_warm_pool_is_kept_reused_and_ended(cloud: Cloud, make: Maker) -> None:
    kept = {
        "InstanceType": "ml.m5.large",
        "InstanceCount": 1,
        "VolumeSizeInGB": 10,
        "KeepAlivePeriodInSeconds": 3600,
    }
    first = make(ResourceConfig=kept)
    assert make.ended(first)["WarmPoolStatus"]["Status"] == "Available"
    second = make(ResourceConfig=kept)
    assert make.look(first)["WarmPoolStatus"] == {"Status": "Reused", "ReusedByJob": second}
    make.ended(second)
    end = {"TrainingJobName": second, "ResourceConfig": {"KeepAlivePeriodInSeconds": 0}}
    cloud("sagemaker").update_training_job(**end)
    assert make.look(second)["WarmPoolStatus"]["Status"] == "Terminated"
    with pytest.raises(ClientError, match="not available"):
        cloud("sagemaker").update_training_job(**end)


def test_events_have_awss_shape(cloud: Cloud, make: Maker) -> None:
    name = make(run={"fail_at": 1}, Tags=[{"Key": "k", "Value": "v"}])
    make.ended(name)

    def sent() -> list[dict[str, Any]]:
        lines = (cloud.state / "events.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in lines]
        return [e for e in events if e["detail"].get("TrainingJobName") == name]

    until(lambda: sent() and sent()[-1]["detail"]["TrainingJobStatus"] == "Failed")
    event = sent()[-1]
    assert event["source"] == "aws.sagemaker"
    assert event["detail-type"] == "SageMaker Training Job State Change"
    assert event["resources"] == [event["detail"]["TrainingJobArn"]]
    detail = event["detail"]
    assert detail["Tags"] == {"k": "v"}
    assert detail["FailureReason"].startswith("AlgorithmError")
    assert isinstance(detail["CreationTime"], int)
    assert detail["CreationTime"] > 1e12
    assert detail["SecondaryStatusTransitions"][0]["Status"] == "Starting"
    assert "FailureReason" not in sent()[0]["detail"]
    assert not {"Environment", "CheckpointConfig", "EnableManagedSpotTraining"} & set(detail)


def test_s3_says_slow_down_to_hosts_only(cloud: Cloud, make: Maker, bucket: str) -> None:
    cloud.control.s3_slowdown(1, who="any")
    with pytest.raises(ClientError) as caught:
        cloud("s3").list_objects_v2(Bucket=bucket)
    assert caught.value.response["Error"]["Code"] == "SlowDown"
    cloud.control.s3_slowdown(1)
    cloud("s3").list_objects_v2(Bucket=bucket)
    cloud.control.s3_slowdown(0)


def test_a_bit_is_flipped_in_place(cloud: Cloud, bucket: str) -> None:
    cloud("s3").put_object(Bucket=bucket, Key="bits", Body=b"\x00" * 9)
    before = cloud("s3").head_object(Bucket=bucket, Key="bits")
    at = cloud.control.corrupt_object(bucket, "bits")
    body = cloud("s3").get_object(Bucket=bucket, Key="bits")["Body"].read()
    assert body == b"\x00" * at + b"\x01" + b"\x00" * (8 - at)
    after = cloud("s3").head_object(Bucket=bucket, Key="bits")
    assert after["ContentLength"] == before["ContentLength"]
