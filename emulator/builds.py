"""CodeBuild, as far as images go: a build ends at once, or when it is told to, and pushes its tag.

Nothing is built: the image that appears stands for this checkout, as every image here does.
"""

import hashlib
import json
import threading
import uuid
from typing import Any

from emulator.front import Front
from emulator.names import REGION, AwsError, arn
from emulator.world import World, epoch

TARGET = "CodeBuild_20161006."
ENDS = ("SUCCEEDED", "FAILED", "FAULT", "TIMED_OUT", "STOPPED")
MEDIA_TYPE = "application/vnd.docker.distribution.manifest.v2+json"


class Builds:
    """Projects, and their builds, oldest first."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lock = threading.Lock()
        self._projects: dict[str, dict[str, Any]] = {}
        self._builds: dict[str, dict[str, Any]] = {}
        self.hold = False
        """Builds that start now go on until ``end``."""

    def register(self, front: Front) -> None:
        """Take CodeBuild over for this service."""
        operations = {
            "CreateProject": self._create,
            "DeleteProject": self._delete,
            "StartBuild": self._start,
            "ListBuildsForProject": self._list,
            "BatchGetBuilds": self._get,
        }
        for name, operation in operations.items():
            front.add(TARGET + name, operation)

    def end(self, status: str) -> None:
        """End every build that goes on."""
        if status not in ENDS:
            raise AwsError("BadStatus", f"{status} is none of {', '.join(ENDS)}")
        for build in list(self._builds.values()):
            if build["buildStatus"] == "IN_PROGRESS":
                self._finish(build, status)

    def _create(self, params: dict[str, Any]) -> dict[str, Any]:
        """Put: made again, it replaces."""
        with self._lock:
            self._projects[params["name"]] = params
        return {"project": {**params, "arn": arn("codebuild", f"project/{params['name']}")}}

    def _delete(self, params: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self._projects.pop(params["name"], None)
        return {}

    def _start(self, params: dict[str, Any]) -> dict[str, Any]:
        project = self._project(params["projectName"])
        environment = project["environment"]
        given = {v["name"]: v for v in environment.get("environmentVariables", [])}
        given |= {v["name"]: v for v in params.get("environmentVariablesOverride", [])}
        name = f"{project['name']}:{uuid.uuid4()}"
        build = {
            "id": name,
            "arn": arn("codebuild", f"build/{name}"),
            "projectName": project["name"],
            "startTime": epoch(),
            "buildStatus": "IN_PROGRESS",
            "buildComplete": False,
            "environment": {**environment, "environmentVariables": list(given.values())},
            "logs": {
                "deepLink": f"https://console.aws.amazon.com/cloudwatch/home?region={REGION}"
                f"#logEvent:group=/aws/codebuild/{project['name']};stream={name.split(':')[1]}"
            },
        }
        with self._lock:
            self._builds[name] = build
        if not self.hold:
            self._finish(build, "SUCCEEDED")
        return {"build": build}

    def _list(self, params: dict[str, Any]) -> dict[str, Any]:
        self._project(params["projectName"])
        mine = [i for i, b in self._builds.items() if b["projectName"] == params["projectName"]]
        return {"ids": mine if params.get("sortOrder") == "ASCENDING" else mine[::-1]}

    def _get(self, params: dict[str, Any]) -> dict[str, Any]:
        ids = params["ids"]
        if not 1 <= len(ids) <= 100:
            raise AwsError("InvalidInputException", "ids: 1 to 100")
        return {
            "builds": [self._builds[i] for i in ids if i in self._builds],
            "buildsNotFound": [i for i in ids if i not in self._builds],
        }

    def _project(self, name: str) -> dict[str, Any]:
        if name not in self._projects:
            raise AwsError(
                "ResourceNotFoundException", f"The provided project {name} does not exist"
            )
        return self._projects[name]

    def _finish(self, build: dict[str, Any], status: str) -> None:
        if status == "SUCCEEDED":
            self._push(
                {v["name"]: v["value"] for v in build["environment"]["environmentVariables"]}
            )
        build |= {"buildStatus": status, "buildComplete": True, "endTime": epoch()}

    def _push(self, variables: dict[str, str]) -> None:
        """What the last command of the build does, if the tag is not there yet."""
        client = self._world.client("ecr")
        repository, tag = variables["REPOSITORY"].partition("/")[2], variables["TAG"]
        manifest = json.dumps({"schemaVersion": 2, "mediaType": MEDIA_TYPE, "config": tag})
        try:
            client.put_image(
                repositoryName=repository,
                imageManifest=manifest,
                imageManifestMediaType=MEDIA_TYPE,
                imageDigest=f"sha256:{hashlib.sha256(manifest.encode()).hexdigest()}",
                imageTag=tag,
            )
        except client.exceptions.ImageAlreadyExistsException:
            return  # built already: tags are immutable
