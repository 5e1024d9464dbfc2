"""A foreign job's request, rebuilt whole: botocore's models of both calls say what whole is."""

import json
from datetime import UTC, datetime
from typing import Any

import botocore.session
import pytest
from botocore.model import Shape
from botocore.validate import ParamValidator

from everstep.contracts.events import TAG_AUTO_RETRY, TAG_EXECUTION
from everstep.contracts.records import Adopted, Launch, Run
from everstep.policy.adopt import (
    MOST_TAGS,
    SECTIONS,
    TAKEN,
    adopted,
    adopted_request,
    asks_for_it,
    checkpoint_place,
    ended_in_need,
    refusal,
    spec_of,
)
from everstep.policy.quota import LONGEST_RUN, needs_of
from tests.policy.test_job_request import EXECUTION, TEAM, breaches, shape

ROLE = "arn:aws:iam::111122223333:role/notebook-jobs"
NOW = datetime(2026, 11, 1, tzinfo=UTC)
UNREADABLE = {"SessionChainingConfig"}
"""No call answers with it: docs/adopt.md says so."""


def output_shape() -> Shape:
    model = botocore.session.get_session().get_service_model("sagemaker")
    return model.operation_model("DescribeTrainingJob").output_shape


def filled(of: Shape, name: str = "") -> Any:
    """A value for every member, the least that the model takes."""
    if of.type_name == "structure":
        return {k: filled(v, k) for k, v in of.members.items()}
    if of.type_name == "list":
        return [filled(of.member, name)]
    if of.type_name == "map":
        return {"key": filled(of.value, name)}
    if of.type_name == "timestamp":
        return NOW
    if of.type_name == "boolean":
        return True
    if of.type_name in ("integer", "long", "float", "double"):
        return max(1, of.metadata.get("min", 1))
    if of.enum:
        return of.enum[0]
    return f"text-{name}".ljust(of.metadata.get("min", 0), "x")


def whole() -> dict[str, Any]:
    """DescribeTrainingJob's answer with every field that it can have."""
    return {
        **filled(output_shape()),
        "TrainingJobName": "my-notebook-job",
        "TrainingJobArn": "arn:aws:sagemaker:us-east-1:111122223333:training-job/my-notebook-job",
        "RoleArn": ROLE,
    }


def job(**changes: Any) -> dict[str, Any]:
    """One as notebooks make it, failed."""
    made = {
        "TrainingJobName": "my-notebook-job",
        "TrainingJobArn": "arn:aws:sagemaker:us-east-1:111122223333:training-job/my-notebook-job",
        "TrainingJobStatus": "Failed",
        "SecondaryStatus": "Failed",
        "SecondaryStatusTransitions": [{"Status": "Starting"}, {"Status": "Failed"}],
        "CreationTime": NOW,
        "RoleArn": ROLE,
        "AlgorithmSpecification": {"TrainingImage": "i", "TrainingInputMode": "File"},
        "ResourceConfig": {
            "InstanceType": "ml.g4dn.xlarge",
            "InstanceCount": 2,
            "VolumeSizeInGB": 30,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 7200},
        "OutputDataConfig": {"S3OutputPath": "s3://b/o"},
        "CheckpointConfig": {"S3Uri": "s3://ckpt/research/mine/"},
        "HyperParameters": {"lr": "0.1"},
        "Environment": {},
    }
    return {k: v for k, v in {**made, **changes}.items() if v is not None}


def a_run(kept: Adopted, source: dict[str, Any]) -> tuple[Run, Launch]:
    run = Run(
        run_id="adopt-0123456789ab",
        execution_arn=EXECUTION,
        team=TEAM,
        spec=spec_of(source, {}),
        adopted=kept,
        created_epoch=0,
    )
    launch = Launch(
        run_id=run.run_id,
        launch=2,
        job_name=f"{run.run_id}-00002",
        execution_arn=EXECUTION,
        instance_type="x",
        nodes=1,
        planned_epoch=0,
    )
    return run, launch


def test_every_field_that_can_be_read_back_is_taken() -> None:
    answered, taken = set(output_shape().members), set(shape().members)
    refused = {"ServerlessJobConfig"}
    assert set(TAKEN) == (taken & answered) - {"TrainingJobName"} - refused
    assert taken - answered == {"Tags"} | UNREADABLE


def test_a_request_with_every_field_fits_botocores_model_and_is_the_same_key_by_key() -> None:
    source = whole()
    run, launch = a_run(adopted(source, {}), job())
    request = adopted_request(run, launch, source)
    report = ParamValidator().validate(request, shape())
    assert not report.has_errors(), report.generate_report()
    assert {k: request[k] for k in TAKEN} == {k: source[k] for k in TAKEN}
    assert set(request) == {*TAKEN, "TrainingJobName", "Tags"}


def test_a_notebooks_request_keeps_what_it_had_under_our_name_and_tags() -> None:
    source = job()
    tags = {"owner": "me", TAG_AUTO_RETRY: "true", "aws:cloudformation:stack-name": "s"}
    run, launch = a_run(adopted(source, tags), source)
    request = adopted_request(run, launch, None)
    assert "Environment" not in request  # an empty one is none
    assert request["TrainingJobName"] == "adopt-0123456789ab-00002"
    assert request["CheckpointConfig"] == source["CheckpointConfig"]
    assert request["StoppingCondition"] == source["StoppingCondition"]
    assert {t["Key"]: t["Value"] for t in request["Tags"]} == {
        "owner": "me",
        "everstep:execution": EXECUTION,
        "everstep:run": run.run_id,
        "everstep:team": "research",
        "everstep:adopted-from": "my-notebook-job",
    }
    assert breaches(request, shape()) == []


def test_the_tags_of_our_jobs_never_ask_and_always_fit() -> None:
    tags = {f"k{i}": "v" for i in range(49)} | {TAG_AUTO_RETRY: "true"}
    run, launch = a_run(adopted(job(), tags), job())
    made = adopted_request(run, launch, None)["Tags"]
    assert len(made) == MOST_TAGS + 4 == 50
    assert not asks_for_it({t["Key"]: t["Value"] for t in made})
    assert not asks_for_it({TAG_AUTO_RETRY: "true", TAG_EXECUTION: "e"})
    assert asks_for_it({TAG_AUTO_RETRY: "True"})
    assert not asks_for_it({TAG_AUTO_RETRY: "false"})


def test_what_looks_like_a_secret_is_not_kept_and_comes_from_the_first_job_at_launch() -> None:
    source = job(
        Environment={"WANDB_API_KEY": "0123456789", "MODE": "a"},
        HyperParameters={"opt.token": "hf_" + "a" * 34, "lr": "1"},
    )
    kept = adopted(source, {})
    assert kept.withheld == [("Environment", "WANDB_API_KEY"), ("HyperParameters", "opt.token")]
    assert "0123456789" not in kept.model_dump_json()
    assert "hf_" not in kept.model_dump_json()
    run, launch = a_run(kept, source)
    request = adopted_request(run, launch, source)
    assert {k: request[k] for k in SECTIONS} == {k: source[k] for k in SECTIONS}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        ({"TuningJobArn": "arn:t"}, "it belongs to a tuning job (arn:t), which makes its own jobs"),
        ({"AutoMLJobArn": "arn:a"}, "it belongs to an AutoML job (arn:a)"),
        ({"LabelingJobArn": "arn:l"}, "it belongs to a labeling job (arn:l)"),
        ({"ServerlessJobConfig": {"JobType": "FineTuning"}}, "it is a serverless job"),
        ({"ResourceConfig": {"InstanceGroups": [{}]}}, "only jobs of one instance type"),
        ({"ResourceConfig": None}, "only jobs of one instance type"),
        ({"RoleArn": "arn:aws:iam::1:role/other"}, "role/other is not in adopt_job_roles"),
        ({"TrainingJobStatus": "InProgress"}, "it is InProgress (Failed): only a job that failed"),
        (
            {
                "AlgorithmSpecification": {
                    "TrainingImage": "i",
                    "TrainingInputMode": "File",
                    "ContainerArguments": ["hf_" + "a" * 34],
                }
            },
            "its command holds a literal secret",
        ),
    ],
)
def test_what_is_refused_is_refused_in_words(changes: dict[str, Any], said: str | None) -> None:
    found = refusal(job(**changes), [ROLE])
    assert found is None if said is None else said in str(found)


@pytest.mark.parametrize(
    ("status", "secondary", "transitions", "expected"),
    [
        ("Failed", "Failed", [], True),
        ("Completed", "Completed", [], False),
        ("Stopped", "Stopped", [], False),
        ("Stopped", "MaxRuntimeExceeded", [], True),
        ("Stopped", "MaxWaitTimeExceeded", [], True),
        ("Stopped", "Stopped", ["MaxRuntimeExceeded"], True),
        ("InProgress", "MaxRuntimeExceeded", [], False),
    ],
)
def test_only_a_job_that_failed_or_ran_out_of_time_is_in_need(
    status: str, secondary: str, transitions: list[str], expected: bool
) -> None:
    found = ended_in_need(
        job(
            TrainingJobStatus=status,
            SecondaryStatus=secondary,
            SecondaryStatusTransitions=[{"Status": s} for s in transitions],
        )
    )
    assert found is expected


def test_the_limits_are_the_jobs_own() -> None:
    source = job(EnableManagedSpotTraining=True)
    tags = {"everstep:max-attempts": "3", "everstep:log-silence-seconds": "900"}
    spec = spec_of(source, tags)
    assert (spec.retry.max_attempts, spec.watch.silence) == (3, 900)
    needs = {n.quota: n.amount for n in needs_of(spec, spec.target(0))}
    assert needs[LONGEST_RUN] == 7200
    assert needs["ml.g4dn.xlarge for spot training job usage"] == 2
    default = spec_of(source, {"everstep:max-attempts": "many"})
    assert (default.retry.max_attempts, default.watch.silence) == (20, 21_600)


def test_checkpoints_are_looked_at_only_in_the_teams_place() -> None:
    def place(uri: str | None) -> str | None:
        config = {"S3Uri": uri} if uri else None
        source = job(CheckpointConfig=config)
        return checkpoint_place(a_run(adopted(source, {}), source)[0])

    assert place("s3://ckpt/research/mine/") == "s3://ckpt/research/mine"
    assert place("s3://ckpt/research-else/mine") is None
    assert place("s3://other/research/mine") is None
    assert place(None) is None


def test_a_row_survives_the_table() -> None:
    kept = adopted(job(), {"owner": "me"})
    assert Adopted.model_validate(json.loads(kept.model_dump_json())) == kept
