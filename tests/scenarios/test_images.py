"""An image that is pushed in the middle of a run does not change the run."""

import hashlib
import json

import pytest

from everstep.contracts.names import repository_name
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
