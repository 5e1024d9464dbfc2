"""FSx's data repository tasks: done at once, and seen to be executing once before that is told."""

import threading
from typing import Any

from emulator import cfn_fsx
from emulator.front import Front
from emulator.names import AwsError
from emulator.training.storage import download, upload_changes
from emulator.world import World

PREFIX = "AWSSimbaAPIService_v20180301"


class DataTasks:
    """Paths in are S3 prefixes below a link; paths out are relative to the mount point."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._tasks: dict[str, dict[str, Any]] = {}
        self._tokens: dict[str, str] = {}
        self._lock = threading.Lock()

    def register(self, front: Front) -> None:
        front.add(f"{PREFIX}.CreateDataRepositoryTask", self._create)
        front.add(f"{PREFIX}.DescribeDataRepositoryTasks", self._describe)

    def _create(self, request: dict[str, Any]) -> dict[str, Any]:
        system, kind = request["FileSystemId"], request["Type"]
        if not cfn_fsx.folder(self._world, system).is_dir():
            raise AwsError("FileSystemNotFound", f"File system '{system}' does not exist.")
        with self._lock:
            known = self._tokens.get(request["ClientRequestToken"])
            if known is None:
                known = f"task-{len(self._tasks):017x}"
                self._tokens[request["ClientRequestToken"]] = known
                task = {
                    "TaskId": known,
                    "Type": kind,
                    "FileSystemId": system,
                    "Paths": request["Paths"],
                    "Lifecycle": "EXECUTING",
                }
                self._tasks[known] = task
                for path in request["Paths"]:
                    self._move(task, path)
            return {"DataRepositoryTask": dict(self._tasks[known])}

    def _describe(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            unknown = [name for name in request["TaskIds"] if name not in self._tasks]
            if unknown:
                raise AwsError("DataRepositoryTaskNotFound", f"No task {unknown[0]}.")
            found = [dict(self._tasks[name]) for name in request["TaskIds"]]
            for name in request["TaskIds"]:
                task = self._tasks[name]
                task["Lifecycle"] = "FAILED" if "FailureDetails" in task else "SUCCEEDED"
        return {"DataRepositoryTasks": found}

    def _move(self, task: dict[str, Any], path: str) -> None:
        system, root = task["FileSystemId"], cfn_fsx.folder(self._world, task["FileSystemId"])
        if task["Type"] == "EXPORT_TO_REPOSITORY":
            folder = root / cfn_fsx.MOUNT / path
            prefix = cfn_fsx.linked_prefix(self._world, system, path, by_itself=False)
            if prefix and folder.is_dir():
                upload_changes(folder, prefix, {})
                return
        for start, link in cfn_fsx.links(self._world, system).items():
            if task["Type"].startswith("IMPORT") and path.startswith(link["prefix"]):
                below = path.removeprefix(link["prefix"])
                folder = root / cfn_fsx.MOUNT / start.lstrip("/") / below
                folder.mkdir(parents=True, exist_ok=True)
                download(path, folder)
                return
        task["FailureDetails"] = {"Message": f"The path {path} is not valid."}
