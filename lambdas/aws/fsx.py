"""FSx for Lustre: data repository tasks."""

from typing import Any

from botocore.exceptions import ClientError

_BUSY = frozenset({"DataRepositoryTaskExecuting"})
"""Another task of the file system, of whichever run: they come one after another."""


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
