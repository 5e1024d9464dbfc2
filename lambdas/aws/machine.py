"""Step Functions: task tokens and executions."""

import json
from typing import Any

from botocore.exceptions import ClientError

# The token was answered before, or its state has moved on: the answer is known already.
_SPENT = frozenset({"TaskTimedOut", "InvalidToken", "TaskDoesNotExist"})


class Machine:
    """Answers to tokens say whether the state was still waiting for them."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def succeed(self, token: str, payload: dict[str, Any]) -> bool:
        return self._send(
            self._client.send_task_success, taskToken=token, output=json.dumps(payload)
        )

    def fail(self, token: str, error: str, cause: str) -> bool:
        return self._send(
            self._client.send_task_failure, taskToken=token, error=error, cause=cause[:1000]
        )

    def heartbeat(self, token: str) -> bool:
        return self._send(self._client.send_task_heartbeat, taskToken=token)

    def start(self, execution_arn: str, given: Any) -> bool:
        """Start the execution of this name, or find it running with the same input. False where
        the name is burnt: by one that has ended, or one that was given something else."""
        arn, _, name = execution_arn.rpartition(":")
        try:
            self._client.start_execution(
                stateMachineArn=arn.replace(":execution:", ":stateMachine:"),
                name=name,
                input=json.dumps(given),
            )
        except ClientError as error:
            if error.response["Error"]["Code"] == "ExecutionAlreadyExists":
                return False
            raise
        return True

    def is_running(self, execution_arn: str) -> bool:
        """False also for an execution whose history is gone (ninety days)."""
        try:
            answer = self._client.describe_execution(executionArn=execution_arn)
        except ClientError as error:
            if error.response["Error"]["Code"] == "ExecutionDoesNotExist":
                return False
            raise
        return bool(answer["status"] in ("RUNNING", "PENDING_REDRIVE"))

    @staticmethod
    def _send(call: Any, **request: Any) -> bool:
        try:
            call(**request)
        except ClientError as error:
            if error.response["Error"]["Code"] in _SPENT:
                return False
            raise
        return True
