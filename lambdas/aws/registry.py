"""ECR and CodeBuild: is there an image of this name, and is one being made?"""

from typing import Any

from botocore.exceptions import ClientError

from everstep.contracts.names import image_project_of
from everstep.policy.images import Build, Found, Lookup

_NO_IMAGE = "ImageNotFoundException"
_NO_REPOSITORY = frozenset(
    {"RepositoryNotFoundException", "AccessDeniedException", "InvalidParameterException"}
)
"""The role may look into the stack's repositories only: others are refused, there or not."""
_NEWEST_BUILDS = 20
"""Of one page; a build lasts minutes."""


class NoRepository(LookupError):
    """Not one of the stack's."""


class Registry:
    def __init__(self, ecr: Any, codebuild: Any) -> None:
        self._ecr, self._codebuild = ecr, codebuild

    def find(self, wanted: Lookup) -> Found | None:
        """Raises ``NoRepository``."""
        image = {"imageDigest": wanted.digest} if wanted.digest else {"imageTag": wanted.tag}
        try:
            answer = self._ecr.describe_images(repositoryName=wanted.repository, imageIds=[image])
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code == _NO_IMAGE:
                return None
            if code in _NO_REPOSITORY:
                raise NoRepository(wanted.repository) from error
            raise
        (detail,) = answer["imageDetails"]
        counts = detail.get("imageScanFindingsSummary", {}).get("findingSeverityCounts", {})
        return Found(
            digest=detail["imageDigest"],
            scan=detail.get("imageScanStatus", {}).get("status"),
            critical=counts.get("CRITICAL", 0),
        )

    def tags(self, wanted: Lookup) -> list[str]:
        """Of the repository, the image pushed last first."""
        pages = self._ecr.get_paginator("describe_images").paginate(
            repositoryName=wanted.repository, filter={"tagStatus": "TAGGED"}
        )
        images = [detail for page in pages for detail in page["imageDetails"]]
        images.sort(key=lambda detail: detail["imagePushedAt"], reverse=True)
        return [tag for detail in images for tag in sorted(detail.get("imageTags", []))]

    def build_of(self, wanted: Lookup) -> Build | None:
        """The newest build of this tag: its project is known by name, its tag by what it was
        told to make. None where there is none, or no project."""
        try:
            ids = self._codebuild.list_builds_for_project(
                projectName=image_project_of(wanted.repository), sortOrder="DESCENDING"
            )["ids"]
        except ClientError as error:
            if error.response["Error"]["Code"] == "ResourceNotFoundException":
                return None
            raise
        if not ids:
            return None
        builds = self._codebuild.batch_get_builds(ids=ids[:_NEWEST_BUILDS])["builds"]
        made = [build for build in builds if _tag_of(build) == wanted.tag]
        if not made:
            return None
        newest = max(made, key=lambda build: build["startTime"])
        return Build(newest["buildStatus"], newest.get("logs", {}).get("deepLink", newest["id"]))


def _tag_of(build: dict[str, Any]) -> str | None:
    variables = build["environment"].get("environmentVariables", [])
    return next((v["value"] for v in variables if v["name"] == "TAG"), None)
