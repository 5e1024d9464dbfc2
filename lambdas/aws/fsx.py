"""FSx for Lustre: data repository tasks, and file systems of runs."""

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from everstep.contracts.events import TAG_RUN, TAG_TABLE

_BUSY = frozenset({"DataRepositoryTaskExecuting"})
"""Another task of the file system, of whichever run: they come one after another."""

HOPELESS = frozenset(
    {
        "AccessDeniedException",
        "BadRequest",
        "FileSystemNotFound",
        "IncompatibleParameterError",
        "InvalidNetworkSettings",
        "UnsupportedOperation",
    }
)
"""Asking again changes nothing. The rest is tried again by Step Functions."""
_GONE = frozenset({"FileSystemNotFound"})


class DataTasks:
    def __init__(self, client: Any) -> None:
        self._client = client

    def start(self, request: dict[str, Any]) -> str | None:
        """The task's id; None while another is at work."""
        try:
            answer = self._client.create_data_repository_task(**request)
        except ClientError as error:
            if error.response["Error"]["Code"] in _BUSY:
                return None
            raise
        return str(answer["DataRepositoryTask"]["TaskId"])

    def look(self, task_id: str) -> tuple[str, str]:
        """(lifecycle, why it failed)."""
        answer = self._client.describe_data_repository_tasks(TaskIds=[task_id])
        (task,) = answer["DataRepositoryTasks"]
        counts = task.get("Status", {})
        said = task.get("FailureDetails", {}).get("Message", "")
        failed = f"{counts.get('FailedCount', 0)} of {counts.get('TotalCount', 0)} files failed"
        return task["Lifecycle"], f"{said} ({failed})".strip()


class FileSystems:
    """Those that runs make for themselves."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def create(self, request: dict[str, Any]) -> dict[str, Any]:
        return dict(self._client.create_file_system(**request)["FileSystem"])

    def look(self, system: str) -> tuple[str, str]:
        """(lifecycle, why it failed). ``GONE`` where there is none."""
        try:
            answer = self._client.describe_file_systems(FileSystemIds=[system])
        except ClientError as error:
            if error.response["Error"]["Code"] in _GONE:
                return "GONE", f"{system} was deleted"
            raise
        (found,) = answer["FileSystems"]
        return found["Lifecycle"], found.get("FailureDetails", {}).get("Message", "")

    def link(self, request: dict[str, Any]) -> str:
        answer = self._client.create_data_repository_association(**request)
        return str(answer["Association"]["AssociationId"])

    def look_link(self, link: str) -> tuple[str, str]:
        answer = self._client.describe_data_repository_associations(AssociationIds=[link])
        (found,) = answer["Associations"]
        return found["Lifecycle"], found.get("FailureDetails", {}).get("Message", "")

    def delete(self, system: str) -> str | None:
        """FSx's words where it cannot be now: it refuses while a data repository task is at work on
        it. Gone already is fine. FSx answers at once, and is done some minutes later."""
        try:
            self._client.delete_file_system(FileSystemId=system)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code == "BadRequest":
                return str(error.response["Error"].get("Message") or code)
            if code not in _GONE:
                raise
        return None

    def ours(self, table: str) -> Iterator[tuple[str, str | None]]:
        """(id, run id by its tag) of each that carries this table's and is not being deleted."""
        for page in self._client.get_paginator("describe_file_systems").paginate():
            for found in page["FileSystems"]:
                tags = {tag["Key"]: tag["Value"] for tag in found.get("Tags", [])}
                if tags.get(TAG_TABLE) == table and found["Lifecycle"] != "DELETING":
                    yield found["FileSystemId"], tags.get(TAG_RUN)
