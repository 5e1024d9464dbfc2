"""Task tokens: open, or finished; answered as AWS answers."""

import threading
from typing import Any

from moto.stepfunctions.parser.asl.eval.callback.callback import (
    CallbackEndpoint,
    CallbackOutcome,
    CallbackOutcomeFailure,
    CallbackOutcomeSuccess,
    CallbackPoolManager,
)

from emulator.names import AwsError
from emulator.patching import replace

_FINISHED = "Task Timed Out: 'Provided task does not exist anymore'"
_UNKNOWN = "Invalid Token: 'Invalid token'"


class Tokens:
    """moto keeps tokens by execution and never closes them; this is one table of all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, CallbackEndpoint] = {}
        self._finished: set[str] = set()
        tokens = self

        def remember(self: Any, callback_id: str) -> CallbackEndpoint:
            endpoint: CallbackEndpoint = add(self, callback_id)
            with tokens._lock:
                tokens._open[callback_id] = endpoint
            return endpoint

        def close(self: Any) -> None:
            # The state has been left, or its execution ended: nobody waits any more.
            tokens._take(self.callback_id)
            interrupt(self)

        add = replace(CallbackPoolManager, "add", remember)
        interrupt = replace(CallbackEndpoint, "interrupt_all", close)

    def succeed(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """SendTaskSuccess."""
        token = parameters["taskToken"]
        return self._finish(CallbackOutcomeSuccess(token, parameters["output"]))

    def fail(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """SendTaskFailure."""
        token, error = parameters["taskToken"], parameters.get("error")
        return self._finish(CallbackOutcomeFailure(token, error, parameters.get("cause")))

    def heartbeat(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """SendTaskHeartbeat."""
        token = parameters["taskToken"]
        with self._lock:
            endpoint = self._open.get(token)
            if endpoint:
                endpoint.notify_heartbeat()
                return {}
            raise self._refusal(token)

    def _finish(self, outcome: CallbackOutcome) -> dict[str, Any]:
        endpoint = self._take(outcome.callback_id)
        if endpoint is None:
            raise self._refusal(outcome.callback_id)
        endpoint.notify(outcome)
        return {}

    def _take(self, token: str) -> CallbackEndpoint | None:
        with self._lock:
            endpoint = self._open.pop(token, None)
            if endpoint:
                self._finished.add(token)
            return endpoint

    def _refusal(self, token: str) -> AwsError:
        if token in self._finished:
            return AwsError("TaskTimedOut", _FINISHED)
        return AwsError("InvalidToken", _UNKNOWN)
