"""Which image a run gets: a tag is looked up once, and every job of the run gets that digest.

Why once: a tag may move, and a build may end, between two attempts; a run that changes its program
in the middle resumes weights with code that never wrote them.
"""

from collections.abc import Sequence
from typing import NamedTuple

from everstep.contracts.failures import Action, Failure, FailureClass
from everstep.contracts.names import image_project_of
from everstep.contracts.payloads import Team
from everstep.contracts.records import PinnedImage, Run
from everstep.contracts.run_spec import RunSpec

TAGS_SHOWN = 12
SCANNING = frozenset({"IN_PROGRESS", "PENDING"})
SCANNED = frozenset({"COMPLETE", "ACTIVE"})
"""ECR's words for a scan whose counts are there: basic, and enhanced."""
BUILDING = "IN_PROGRESS"
BUILT = "SUCCEEDED"


class Lookup(NamedTuple):
    """A name in the team's registry, in ECR's terms."""

    repository: str
    """Path without the registry's host: ``everstep-dev/trainer``."""
    uri: str
    """With the host, without tag and digest."""
    tag: str
    digest: str | None = None


class Found(NamedTuple):
    """What ECR says of an image."""

    digest: str
    scan: str | None = None
    """Status of its scan; None where there was none."""
    critical: int = 0


class Build(NamedTuple):
    """The newest build of a tag."""

    status: str
    log_url: str


class NotYet(NamedTuple):
    """A reason to wait, in words."""

    reason: str


def names_of(spec: RunSpec) -> list[str]:
    """Every image that this run will ask for, once each, as the spec says it."""
    finish = spec.finish
    names = [spec.trainer.image]
    if finish.export and finish.image:
        names.append(finish.image)
    if finish.register and finish.inference_image:
        names.append(finish.inference_image)
    return list(dict.fromkeys(names))


def lookup(image: str, team: Team) -> Lookup | None:
    """None for an image of another registry: it is taken as it is, and ours to ask is this one."""
    own = f"{team.image_repository}/"
    if "/" in image and not image.startswith(own):
        return None
    name, _, digest = image.removeprefix(own).partition("@")
    name, _, tag = name.partition(":")
    path = team.image_repository.partition("/")[2]
    return Lookup(f"{path}/{name}", f"{own}{name}", tag or "latest", digest or None)


def image_uri(image: str, run: Run) -> str:
    """What a job is given: the digest that was looked up; else the name in the team's registry; a
    whole URI of another registry as it is."""
    pinned = (run.images or {}).get(image)
    if pinned is not None:
        return pinned.uri
    return image if "/" in image else f"{run.team.image_repository}/{image}"


def judge(
    image: str, wanted: Lookup, found: Found, refuses_critical: bool
) -> PinnedImage | NotYet | Failure:
    """Of an image that exists: may a job be made of it?"""
    pinned = PinnedImage(
        uri=f"{wanted.uri}@{found.digest}",
        critical_findings=found.critical if found.scan in SCANNED else None,
    )
    if not refuses_critical:
        return pinned
    if found.scan in SCANNING:
        return NotYet(f"image {image} is being scanned")
    if found.scan not in SCANNED:
        return _refusal(
            f"image {image} has no scan that counts (ECR says {found.scan or 'nothing'}), and this "
            "environment refuses what was not scanned",
            "start one: aws ecr start-image-scan; or images.critical_findings in config",
        )
    if found.critical:
        return _refusal(
            f"image {image} has {found.critical} critical findings",
            f"aws ecr describe-image-scan-findings --repository-name {wanted.repository} "
            f"--image-id imageDigest={found.digest}; build on a newer base, or "
            "images.critical_findings in config",
        )
    return pinned


def absent(
    image: str, wanted: Lookup, build: Build | None, tags: Sequence[str]
) -> NotYet | Failure:
    """Of an image that does not exist: is someone making it? ``tags``: what there is, newest
    first."""
    if build is not None and build.status == BUILDING:
        return NotYet(f"image {image} is being built: {build.log_url}")
    if build is not None and build.status != BUILT:
        return _refusal(
            f"image {image} is not there, its newest build ended with {build.status}",
            f"the build's log: {build.log_url}",
        )
    shown = ", ".join(tags[:TAGS_SHOWN]) + (" …" if len(tags) > TAGS_SHOWN else "")
    return _refusal(
        f"image {image} is not in {wanted.repository}",
        (f"it has {shown}" if tags else "it has no tagged image")
        + "; build one: aws codebuild start-build --project-name "
        + image_project_of(wanted.repository),
    )


def unknown_repository(image: str, wanted: Lookup) -> Failure:
    """Jobs may not pull from there either, so nothing is lost by not telling the two apart."""
    return _refusal(
        f"image {image}: there is no repository {wanted.repository} that this run may use",
        "trainer:TAG of the images stack, or the whole URI of an image that the job role may pull",
    )


def waited_too_long(reason: str) -> Failure:
    return _refusal(
        f"the wait's deadline has passed: {reason}", "redrive the execution once it is there"
    )


def _refusal(cause: str, hint: str) -> Failure:
    return Failure(
        failure_class=FailureClass.BAD_CONFIG,
        action=Action.DO_NOT_RETRY,
        cause=cause,
        rule="image",
        hint=hint,
    )
