"""An image that is pushed in the middle of a run does not change the run."""

import hashlib
import json
from collections.abc import Iterator

import pytest

from emulator.access_report import access_report
from everstep.contracts.names import image_project_name, repository_name
from everstep.contracts.records import job_name
from tests.scenarios.lab import Lab
from tests.scenarios.test_control_plane import check_arrived

pytestmark = pytest.mark.scenario

REPOSITORY = repository_name("local", "trainer")


def push(lab: Lab, tag: str, content: str) -> str:
    """The digest that the tag points at from now on."""
    manifest = json.dumps({"schemaVersion": 2, "config": content})
    digest = f"sha256:{hashlib.sha256(manifest.encode()).hexdigest()}"
    lab.cloud.client("ecr").put_image(
        repositoryName=REPOSITORY,
        imageManifest=manifest,
        imageManifestMediaType="application/vnd.oci.image.manifest.v1+json",
        imageDigest=digest,
        imageTag=tag,
    )
    return digest


def image_of(lab: Lab, run_id: str, launch: int) -> str:
    return str(lab.job(run_id, launch)["AlgorithmSpecification"]["TrainingImage"])


def test_a_tag_that_moves_in_mid_run_does_not_change_the_run(lab: Lab) -> None:
    before = push(lab, "stable", "before")
    arn = lab.start("pinned", lab.foreign(steps=40, step_seconds=0.1))
    lab.at_step("pinned", 1, 12)
    after = push(lab, "stable", "after")
    lab.control.kill_host(job_name("pinned", 1), "algo-1")
    assert lab.end(arn)["status"] == "SUCCEEDED"
    check_arrived(lab, "pinned", 40, launches=2)
    images = {image_of(lab, "pinned", launch) for launch in (1, 2)}
    (image,) = images
    assert image.endswith(f"/{REPOSITORY}@{before}")
    told = lab.view("pinned").summary()["images"]
    assert told == {"trainer:stable": {"uri": image, "critical_findings": None}}

    arn = lab.start("pinned-next", lab.foreign(steps=5))
    assert lab.end(arn)["status"] == "SUCCEEDED"
    assert image_of(lab, "pinned-next", 1).endswith(after)


def test_an_image_that_is_not_there_is_refused_with_what_is(lab: Lab) -> None:
    spec = lab.foreign(steps=5)
    spec["trainer"]["image"] = "trainer:typo"
    ended = lab.end(lab.start("no-image", spec))
    assert (ended["status"], ended["error"]) == ("FAILED", "BadConfig")
    assert f"image trainer:typo is not in {REPOSITORY}" in ended["cause"]
    assert "it has " in ended["cause"]
    assert "stable" in ended["cause"]
    assert lab.jobs_of("no-image") == []


@pytest.fixture
def building(lab: Lab) -> Iterator[str]:
    """The tag of the stack's own content hash, whose build goes on."""
    lab.control.hold_builds()
    client = lab.cloud.client("codebuild")
    project = image_project_name("local", "trainer")
    build = client.start_build(projectName=project)["build"]
    variables = {v["name"]: v["value"] for v in build["environment"]["environmentVariables"]}
    yield variables["TAG"]
    lab.control.hold_builds(on=False)
    lab.control.end_builds("STOPPED")


def test_a_run_waits_for_its_build_and_spends_no_attempt(lab: Lab, building: str) -> None:
    spec = lab.foreign(steps=10)
    spec["trainer"]["image"] = f"trainer:{building}"
    arn = lab.start("unbuilt", spec)
    lab.until(lambda: lab.status_of("unbuilt") == "waiting", "a run that waits for its image")
    waiting = lab.cloud.run("unbuilt").waiting
    assert waiting is not None
    assert f"image trainer:{building} is being built: https://" in waiting.reason
    assert lab.jobs_of("unbuilt") == []
    lab.control.end_builds("FAILED")
    ended = lab.end(arn)
    assert (ended["status"], ended["error"]) == ("FAILED", "BadConfig")
    assert "its newest build ended with FAILED" in ended["cause"]
    assert "the build's log: https://" in ended["cause"]

    project = image_project_name("local", "trainer")
    lab.cloud.client("codebuild").start_build(projectName=project)
    lab.aws("stepfunctions", "redrive-execution", "--execution-arn", arn)
    lab.until(lambda: lab.status_of("unbuilt") == "waiting", "a run that waits again")
    lab.control.end_builds("SUCCEEDED")
    assert lab.end(arn)["status"] == "SUCCEEDED"
    check_arrived(lab, "unbuilt", 10, launches=1)
    assert "@sha256:" in image_of(lab, "unbuilt", 1)
    assert access_report(lab.work)["denied"] == []
