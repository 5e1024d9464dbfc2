"""Training plans and heterogeneous clusters on the emulator, through botocore's own models."""

import json
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from .conftest import Cloud, unique, until

P5 = "ml.p5.48xlarge"


def _search(cloud: Cloud, **request: Any) -> list[dict[str, Any]]:
    found = cloud("sagemaker").search_training_plan_offerings(
        **{"InstanceType": P5, "InstanceCount": 4, "DurationHours": 48, **request}
    )
    return list(found["TrainingPlanOfferings"])


def test_offerings_are_whole_days_that_end_at_half_past_eleven(cloud: Cloud) -> None:
    one, two = _search(cloud, DurationHours=30, TargetResources=["training-job"])
    assert (one["DurationHours"], one["UpfrontFee"]) == (48, "192.00")
    (block,) = one["ReservedCapacityOfferings"]
    assert block["EndTime"] - block["StartTime"] == timedelta(hours=48)
    assert block["EndTime"].astimezone(UTC).strftime("%H:%M") == "11:30"
    blocks = two["ReservedCapacityOfferings"]
    assert {b["AvailabilityZone"] for b in blocks} == {"us-east-1a", "us-east-1b"}
    assert blocks[0]["StartTime"] < block["StartTime"] < blocks[1]["StartTime"]
    near = datetime.now(UTC) + timedelta(hours=24)
    assert _search(cloud, EndTimeBefore=near) == []


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"InstanceCount": 3}, "ValidationException"),
        ({"InstanceType": "ml.g5.48xlarge"}, "ValidationException"),
        ({"InstanceCount": 128}, "ResourceLimitExceeded"),
    ],
)
def test_what_a_search_refuses(cloud: Cloud, request_: dict[str, Any], code: str) -> None:
    with pytest.raises(ClientError) as refused:
        _search(cloud, **request_)
    assert refused.value.response["Error"]["Code"] == code


def test_a_plan_is_bought_once_and_described_in_botocores_shape(cloud: Cloud) -> None:
    sagemaker, name = cloud("sagemaker"), unique("plan")
    offering = _search(cloud)[0]
    ident = offering["TrainingPlanOfferingId"]
    arn = sagemaker.create_training_plan(TrainingPlanName=name, TrainingPlanOfferingId=ident)[
        "TrainingPlanArn"
    ]
    plan = sagemaker.describe_training_plan(TrainingPlanName=arn)
    assert (plan["Status"], plan["TotalInstanceCount"]) == ("Scheduled", 4)
    (block,) = plan["ReservedCapacitySummaries"]
    assert (block["InstanceType"], block["Status"]) == (P5, "Scheduled")
    assert name in [
        p["TrainingPlanName"] for p in sagemaker.list_training_plans()["TrainingPlanSummaries"]
    ]
    with pytest.raises(ClientError, match="already exists"):
        sagemaker.create_training_plan(TrainingPlanName=name, TrainingPlanOfferingId=ident)
    with pytest.raises(ClientError, match="ResourceNotFound"):
        sagemaker.describe_training_plan(TrainingPlanName=unique("none"))


def _job(cloud: Cloud, resources: dict[str, Any], **changes: Any) -> str:
    name, bucket = unique("job"), unique("groups")
    cloud("s3").create_bucket(Bucket=bucket)
    cloud("s3").put_object(Bucket=bucket, Key="data/one.txt", Body=b"1")
    show = (
        "import json, os; print(json.dumps([json.load(open("
        "os.environ['EVERSTEP_ML_ROOT'] + '/input/config/resourceconfig.json')), "
        "os.environ['SM_CHANNELS'], os.environ['SM_NUM_GPUS']]))"
    )
    cloud("sagemaker").create_training_job(
        TrainingJobName=name,
        RoleArn=cloud.role(),
        AlgorithmSpecification={
            "TrainingImage": "registry/trainer:1",
            "TrainingInputMode": "File",
            "ContainerEntrypoint": [sys.executable, "-c", show],
        },
        OutputDataConfig={"S3OutputPath": f"s3://{bucket}/out"},
        ResourceConfig={"VolumeSizeInGB": 10, **resources},
        StoppingCondition={"MaxRuntimeInSeconds": 300},
        InputDataConfig=[
            {
                "ChannelName": "training",
                "DataSource": {
                    "S3DataSource": {
                        "S3DataType": "S3Prefix",
                        "S3Uri": f"s3://{bucket}/data/",
                        **changes,
                    }
                },
            }
        ],
    )
    return name


def _groups(*groups: tuple[str, str, int]) -> dict[str, Any]:
    rows = [
        {"InstanceGroupName": name, "InstanceType": kind, "InstanceCount": count}
        for name, kind, count in groups
    ]
    return {"InstanceGroups": rows}


def test_hosts_know_their_group_and_get_its_channels(cloud: Cloud) -> None:
    cluster = _groups(("train", "ml.m5.xlarge", 1), ("data", "ml.m5.large", 2))
    name = _job(cloud, cluster, InstanceGroupNames=["data"])
    sagemaker, logs = cloud("sagemaker"), cloud("logs")

    def ended() -> bool:
        status = sagemaker.describe_training_job(TrainingJobName=name)["TrainingJobStatus"]
        assert status in ("InProgress", "Completed")
        return bool(status == "Completed")

    until(ended)
    events = logs.filter_log_events(
        logGroupName="/aws/sagemaker/TrainingJobs", logStreamNamePrefix=f"{name}/"
    )["events"]
    said = [json.loads(event["message"]) for event in events]
    seen = {config["current_host"]: (config, channels) for config, channels, _ in said}
    assert [seen[host][0]["current_group_name"] for host in ("algo-1", "algo-2", "algo-3")] == [
        "train",
        "data",
        "data",
    ]
    assert [json.loads(seen[host][1]) for host in ("algo-1", "algo-2")] == [[], ["training"]]
    assert seen["algo-1"][0]["instance_groups"] == [
        {"instance_group_name": "train", "instance_type": "ml.m5.xlarge", "hosts": ["algo-1"]},
        {
            "instance_group_name": "data",
            "instance_type": "ml.m5.large",
            "hosts": ["algo-2", "algo-3"],
        },
    ]


def _refusal(cloud: Cloud, resources: dict[str, Any], **changes: Any) -> str:
    with pytest.raises(ClientError) as refused:
        _job(cloud, resources, **changes)
    return str(refused.value)


def test_what_is_refused_of_groups_and_plans(cloud: Cloud) -> None:
    pair = _groups(("train", "ml.m5.xlarge", 1), ("data", "ml.m5.large", 1))
    assert "instance groups" in _refusal(cloud, {**pair, "KeepAlivePeriodInSeconds": 60})
    assert "mutually exclusive" in _refusal(cloud, {**pair, "InstanceType": "ml.m5.large"})
    assert "must be groups" in _refusal(cloud, pair, InstanceGroupNames=["nobody"])
    six = _groups(*((f"g{n}", "ml.m5.large", 1) for n in range(6)))
    assert "less than or equal to 5" in _refusal(cloud, six)
    gone = cloud.control.training_plan(
        unique("gone"), "ml.p4de.24xlarge", 4, -7200, -3600, "us-east-1a"
    )
    kind = "ml.p4de.24xlarge"  # whose quota no other test asks for
    cloud.control.quota(f"{kind} for training job usage", 8)
    planned = {"InstanceType": kind, "InstanceCount": 4, "TrainingPlanArn": gone}
    assert "is in status Expired" in _refusal(cloud, planned)
    open_ = cloud.control.training_plan(unique("open"), kind, 2, -3600, 86_400, "us-east-1a")
    assert "has no 4 instances" in _refusal(cloud, {**planned, "TrainingPlanArn": open_})
