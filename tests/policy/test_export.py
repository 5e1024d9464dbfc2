"""The export's job, its tries and its version in the registry: pure, and apart from training's."""

import re
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator
from hypothesis import given
from hypothesis import strategies as st

from everstep.contracts.check import check_spec
from everstep.contracts.exports import ExportManifest
from everstep.contracts.failures import Action, DecisionKind, Failure, FailureClass
from everstep.contracts.manifest import Manifest, ManifestEntry
from everstep.contracts.records import Launch, Run
from everstep.policy.classify import ACTIONS
from everstep.policy.export import WAITS, decide_export, export_request, volume_gib
from everstep.policy.model_package import model_package
from tests.lambdas.world import SPEC, TEAM
from tests.policy.test_notice import export, run

MODEL = botocore.session.get_session().get_service_model("sagemaker")
EXPORTED = ExportManifest(
    checkpoint="step-00000100.00002", step=100, tokens=9, dtype="bf16", parameters=5, entries=[]
)


def check(operation: str, request: dict[str, Any]) -> None:
    shape = MODEL.operation_model(operation).input_shape
    report = ParamValidator().validate(request, shape)
    assert not report.has_errors(), report.generate_report()


def with_spec(team: dict[str, Any] | None = None, **spec: Any) -> Run:
    parsed, problems = check_spec({**SPEC, **spec})
    assert parsed is not None, problems
    return run(spec=parsed.model_dump(), team={**TEAM.model_dump(), **(team or {})})


# --- the request ------------------------------------------------------------------------------


def test_the_command_names_the_checkpoint_the_place_the_type_and_the_dataset() -> None:
    request = export_request(with_spec(finish={"export": True}), export(1))
    check("CreateTrainingJob", request)
    algorithm = request["AlgorithmSpecification"]
    assert algorithm["ContainerEntrypoint"] == ["python", "-m", "trainer.export"]
    assert algorithm["ContainerArguments"] == [
        "s3://bucket/ckpt/research/my-run/step-00000100.00002",
        "s3://bucket/out/research/my-run/export/step-00000100.00002",
        "--dtype",
        "bf16",
        "--dataset",
        "s3://bucket/data/research/stdlib",
    ]
    assert algorithm["TrainingImage"] == "1.dkr/everstep/trainer:stable"
    assert request["ResourceConfig"]["InstanceType"] == "ml.m5.2xlarge"
    assert (
        request["Environment"]["EVERSTEP_OUTPUT_URI"] == "s3://bucket/out/research/my-run/exports"
    )
    assert request["StoppingCondition"] == {"MaxRuntimeInSeconds": 6 * 3600}


def test_adapters_are_exported_beside_what_they_were_trained_on() -> None:
    model = {"preset": "tiny", "weights": "models/tiny", "lora": {"rank": 4, "alpha": 8}}
    request = export_request(with_spec(model=model, finish={"export": True}), export(1))
    check("CreateTrainingJob", request)
    assert request["AlgorithmSpecification"]["ContainerArguments"][-2:] == ["--weights", "weights"]
    (channel,) = request["InputDataConfig"]
    assert channel["ChannelName"] == "weights"
    source = channel["DataSource"]["S3DataSource"]["S3Uri"]
    assert source == "s3://bucket/data/research/models/tiny/"
    del model["lora"]
    whole = export_request(with_spec(model=model, finish={"export": True}), export(1))
    assert "InputDataConfig" not in whole
    assert "--weights" not in whole["AlgorithmSpecification"]["ContainerArguments"]


def test_a_checkpoint_on_a_file_system_is_mounted_to_be_read() -> None:
    team = {"file_system_id": "fs-0123456789abcdef0", "file_system_checkpoints": "/m/checkpoints/r"}
    model = {"preset": "tiny", "weights": "models/tiny", "lora": {"rank": 4, "alpha": 8}}
    spec = {"finish": {"export": True}, "checkpoint": {"storage": "fsx"}, "model": model}
    kept = with_spec(team, **spec)
    request = export_request(kept, export(1))
    check("CreateTrainingJob", request)
    source = "/opt/ml/input/data/checkpoints/my-run/step-00000100.00002"
    assert request["AlgorithmSpecification"]["ContainerArguments"][0] == source
    saved, weights = request["InputDataConfig"]
    assert saved["DataSource"]["FileSystemDataSource"] == {
        "FileSystemId": "fs-0123456789abcdef0",
        "FileSystemType": "FSxLustre",
        "DirectoryPath": "/m/checkpoints/r",
        "FileSystemAccessMode": "ro",
    }
    assert weights["ChannelName"] == "weights"
    facts = model_package(kept, "g", "s3://o", EXPORTED, {})["CustomerMetadataProperties"]
    assert facts["everstep:checkpoint"] == (
        f"fs-0123456789abcdef0:/m/checkpoints/r/my-run/{EXPORTED.checkpoint}"
    )


def test_fp8_is_exported_as_bf16() -> None:
    fp8 = {"dtype": "fp8", "sequence_length": 512}
    there = [{"instance_type": "ml.p5.48xlarge"}]
    request = export_request(
        with_spec(train=fp8, compute=there, finish={"export": True}), export(1)
    )
    assert "bf16" in request["AlgorithmSpecification"]["ContainerArguments"]


def test_what_the_spec_says_is_followed() -> None:
    finish = {
        "export": True,
        "dtype": "fp32",
        "image": "other:1",
        "command": ["mine"],
        "instance_type": "ml.g5.2xlarge",
        "max_runtime_hours": 1,
    }
    team = {"kms_key_arn": "arn:aws:kms:us-east-1:123456789012:key/k"}
    row = export(1, subnet="subnet-a")
    request = export_request(with_spec(team, finish=finish), row)
    check("CreateTrainingJob", request)
    assert request["AlgorithmSpecification"]["TrainingImage"] == "1.dkr/everstep/other:1"
    assert request["AlgorithmSpecification"]["ContainerArguments"][3] == "fp32"
    assert "VolumeKmsKeyId" not in request["ResourceConfig"]  # its NVMe encrypts itself
    assert request["OutputDataConfig"]["KmsKeyId"] == team["kms_key_arn"]
    assert request["VpcConfig"] == {"SecurityGroupIds": ["sg-a"], "Subnets": ["subnet-a"]}
    other = export_request(with_spec(team, finish={"export": True}), row)
    assert other["ResourceConfig"]["VolumeKmsKeyId"] == team["kms_key_arn"]


@pytest.mark.parametrize(("size", "gib"), [(1, 21), (100 * 2**30, 131), (10**15, 16_384)])
def test_the_volume_holds_the_checkpoint(size: int, gib: int) -> None:
    entries = [ManifestEntry(path="x", size=size, sha256="0")]
    manifest = Manifest(step=1, launch=1, world_size=1, tokens=1, entries=entries)
    assert volume_gib(manifest) == gib


@pytest.mark.parametrize(
    ("finish", "path", "words"),
    [
        ({"register": True}, "finish.register", "what is registered is the export"),
        ({"instance_type": "ml.m5.big"}, "finish.instance_type", "unknown instance type"),
        ({"exports": True}, "finish.exports", "unknown field"),
        ({"max_attempts": 0}, "finish.max_attempts", "greater than or equal to 1"),
    ],
)
def test_a_wrong_finish_is_refused(finish: dict[str, Any], path: str, words: str) -> None:
    spec, problems = check_spec({**SPEC, "finish": finish})
    assert spec is None
    assert any(p.path == path and words in p.message for p in problems), problems


def test_the_smallest_spec_just_trains() -> None:
    finish = with_spec().spec.finish
    assert (finish.export, finish.register) == (False, False)


# --- the tries --------------------------------------------------------------------------------


def failure(name: FailureClass) -> Failure:
    return Failure(failure_class=name, action=ACTIONS[name], cause="c", rule="r")


def series(*classes: FailureClass) -> list[Launch]:
    rows = [export(i + 1, failure=failure(name)) for i, name in enumerate(classes)]
    return [*rows[:-1], rows[-1].model_copy(update={"failure": None})]


def decide(*classes: FailureClass, now: float = 0.0, draw: float = 0.5, **finish: Any) -> Any:
    spec = with_spec(finish={"export": True, **finish}).spec
    return decide_export(spec, failure(classes[-1]), series(*classes), now, lambda: draw)


F = FailureClass


def test_the_cap_is_the_specs() -> None:
    assert decide(F.HANG, F.HANG).kind is DecisionKind.RETRY
    assert decide(F.HANG, F.HANG, F.HANG).kind is DecisionKind.GIVE_UP
    assert decide(F.HANG, max_attempts=1).kind is DecisionKind.GIVE_UP
    assert decide(F.MAX_RUNTIME, F.MAX_RUNTIME, F.MAX_RUNTIME).kind is DecisionKind.GIVE_UP


def test_waits_spend_nothing_and_have_a_deadline() -> None:
    assert decide(*[F.CAPACITY] * 50).kind is DecisionKind.RETRY
    assert decide(*[F.CAPACITY] * 50, F.HANG).kind is DecisionKind.RETRY
    assert decide(F.QUOTA, now=168 * 3600).kind is DecisionKind.GIVE_UP


@given(
    st.lists(st.sampled_from(FailureClass), min_size=1, max_size=40),
    st.integers(1, 10),
    st.floats(0, 0.999),
    st.floats(0, 1e7),
)
def test_no_history_is_tried_for_ever(
    classes: list[FailureClass], cap: int, draw: float, now: float
) -> None:
    decision = decide(*classes, draw=draw, now=now, max_attempts=cap)
    costly = sum(name not in WAITS for name in classes)
    if decision.kind is DecisionKind.RETRY:
        assert ACTIONS[classes[-1]] is not Action.DO_NOT_RETRY
        if classes[-1] in WAITS:
            assert decision.wait_seconds >= 1
            assert now < 168 * 3600
        else:
            assert costly < cap
    else:
        assert decision.kind is DecisionKind.GIVE_UP


# --- the registry -----------------------------------------------------------------------------


def test_a_version_knows_where_it_came_from() -> None:
    given = with_spec()
    request = model_package(given, "group", "s3://b/e", EXPORTED, {"everstep:loss": 1.25})
    check("CreateModelPackage", request)
    facts = request["CustomerMetadataProperties"]
    assert facts["everstep:checkpoint"] == "s3://bucket/ckpt/research/my-run/step-00000100.00002"
    assert facts["final:loss"] == "1.25"
    allowed = re.compile(r"[\w\s.:/=+\-@]{1,256}")
    assert all(allowed.fullmatch(k) and allowed.fullmatch(v) for k, v in facts.items())
    assert re.fullmatch(r"[a-zA-Z0-9-]{1,36}", request["ClientToken"])
    (container,) = request["InferenceSpecification"]["Containers"]
    assert container["ModelDataSource"]["S3DataSource"]["S3Uri"] == "s3://b/e/"
    assert "Image" not in container


def test_a_serving_image_goes_along_and_tokens_tell_checkpoints_apart() -> None:
    given = with_spec(finish={"export": True, "inference_image": "serve:1"})
    request = model_package(given, "group", "s3://b/e", EXPORTED, {})
    (container,) = request["InferenceSpecification"]["Containers"]
    assert container["Image"] == "1.dkr/everstep/serve:1"
    again = model_package(given, "group", "s3://b/e", EXPORTED, {})
    assert again["ClientToken"] == request["ClientToken"]
    other = EXPORTED.model_copy(update={"checkpoint": "step-00000200.00002"})
    token = model_package(given, "group", "s3://b/e", other, {})["ClientToken"]
    assert token != request["ClientToken"]
