"""What follows training, for real: safetensors in the output bucket, a version in the registry."""

from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from torch import Tensor, equal
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict_loader import load

from emulator.access_report import access_report
from everstep.contracts.exports import EXPORT_MANIFEST, ExportManifest
from everstep.contracts.failures import FailureClass
from everstep.contracts.manifest import MANIFEST_NAME, Manifest
from everstep.contracts.records import export_job_name, job_name
from tests.scenarios.lab import Lab
from trainer.llama_names import ours

pytestmark = pytest.mark.scenario
STEPS = 20
FINISH = {"export": True, "register": True, "instance_type": "ml.m5.large"}


@pytest.fixture(scope="module")
def spec(tiny: dict[str, Any]) -> dict[str, Any]:
    return {**tiny, "finish": FINISH, "stop": {"steps": STEPS, "max_runtime_hours": 1}}


def download(lab: Lab, uri: str, names: list[str], folder: Path) -> None:
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    folder.mkdir()
    for name in names:
        lab.cloud.client("s3").download_file(bucket, f"{prefix}/{name}", str(folder / name))


def trained_weights(lab: Lab, run_id: str, like: dict[str, Tensor], folder: Path) -> Any:
    """The final checkpoint's, read as the trainer reads them."""
    uri = lab.final_checkpoint(run_id)
    manifest = Manifest.model_validate_json(lab.object(f"{uri}/{MANIFEST_NAME}"))
    download(lab, uri, [entry.path for entry in manifest.entries], folder)
    tensors = {f"model.{name}": value.clone() for name, value in like.items()}
    load(tensors, storage_reader=FileSystemReader(folder), no_dist=True)
    return {name.removeprefix("model."): value for name, value in tensors.items()}


def check_weights(lab: Lab, run_id: str, work: Path) -> ExportManifest:
    """What was exported is, bit for bit, the final checkpoint; and all of it is there."""
    uri = lab.cloud.run(run_id).export_uri
    assert uri is not None
    done = ExportManifest.model_validate_json(lab.object(f"{uri}/{EXPORT_MANIFEST}"))
    download(lab, uri, [entry.path for entry in done.entries], work / "export")
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {e.path for e in done.entries}
    file = load_file(work / "export" / "model.safetensors")
    exported = {ours(name): value for name, value in file.items()}
    want = trained_weights(lab, run_id, exported, work / "checkpoint")
    assert all(equal(exported[name], want[name]) for name in exported)
    assert sum(value.numel() for value in exported.values()) == done.parameters
    return done


def test_the_export_is_the_final_checkpoint_and_is_registered(
    lab: Lab, spec: dict[str, Any], tmp_path: Path
) -> None:
    assert lab.end(lab.start("exported", spec))["status"] == "SUCCEEDED"
    done = check_weights(lab, "exported", tmp_path)
    assert (done.step, done.dtype) == (STEPS, "fp32")
    arn = lab.cloud.run("exported").model_package_arn
    model = lab.aws("sagemaker", "describe-model-package", "--model-package-name", arn)
    assert model["ModelApprovalStatus"] == "PendingManualApproval"
    facts = model["CustomerMetadataProperties"]
    assert facts["everstep:checkpoint"] == lab.final_checkpoint("exported")
    assert facts["everstep:step"] == str(STEPS)
    assert float(facts["final:loss"]) > 0
    source = model["InferenceSpecification"]["Containers"][0]["ModelDataSource"]["S3DataSource"]
    assert source["S3Uri"] == f"{lab.cloud.run('exported').export_uri}/"


def test_a_killed_export_is_tried_again_and_training_is_not(
    lab: Lab, spec: dict[str, Any], tmp_path: Path
) -> None:
    arn = lab.start("export-killed", spec)
    first = export_job_name("export-killed", 1)

    def killed() -> bool:
        try:
            lab.control.kill_host(first, "algo-1")
        except Exception:  # noqa: BLE001 - not made yet, or between two states
            return False
        return True

    lab.until(killed, "the export's host")
    assert lab.end(arn)["status"] == "SUCCEEDED"
    assert lab.job("export-killed", 1)["TrainingJobStatus"] == "Completed"
    failed, mended = lab.cloud.exports("export-killed")
    assert failed.failure is not None
    assert failed.failure.failure_class is FailureClass.INFRASTRUCTURE
    assert mended.failure is None
    # The table, and SageMaker, have one launch: nothing was trained again.
    assert len(lab.launches("export-killed")) == 1
    assert lab.jobs_of("export-killed") == [job_name("export-killed", 1)]
    check_weights(lab, "export-killed", tmp_path)
    group = "everstep-local-research"
    listed = lab.aws(
        "sagemaker",
        "list-model-packages",
        "--model-package-group-name",
        group,
        "--model-package-type",
        "Versioned",
    )
    about = [m["ModelPackageDescription"] for m in listed["ModelPackageSummaryList"]]
    assert sum("export-killed" in text for text in about) == 1


def test_an_export_that_cannot_work_gives_up_and_redrive_exports_alone(
    lab: Lab, spec: dict[str, Any]
) -> None:
    wrong = {**FINISH, "register": False, "max_attempts": 1, "command": ["python", "-c", "1/0"]}
    arn = lab.start("export-wrong", {**spec, "finish": wrong})
    assert lab.end(arn)["status"] == "FAILED"
    run = lab.cloud.run("export-wrong")
    assert (run.status, run.final_step) == ("gave_up", STEPS)
    assert run.failure is not None
    assert run.failure.failure_class is FailureClass.EXPORT_FAILED
    assert lab.execution(arn)["error"] == "ExportFailed"
    lab.aws("stepfunctions", "redrive-execution", "--execution-arn", arn)
    lab.until(lambda: len(lab.cloud.exports("export-wrong")) == 2, "another export")
    assert lab.end(arn)["status"] == "FAILED"
    assert lab.jobs_of("export-wrong") == [job_name("export-wrong", 1)]
    assert lab.weights("export-wrong")  # verified, file by file


def test_every_call_was_allowed(lab: Lab) -> None:
    assert access_report(lab.work)["denied"] == []
