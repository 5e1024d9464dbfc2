"""Changes to moto's behaviour where it differs from AWS in a way that a run would notice."""

import datetime
from typing import Any

import moto.stepfunctions.models as plain
import moto.stepfunctions.parser.models as parser
from moto.iam.access_control import PermissionResult
from moto.s3.models import FakeBucket
from moto.sagemaker.models import SageMakerModelBackend
from moto.stepfunctions.parser.api import HistoryEventType
from moto.stepfunctions.parser.asl.component.common.error_name.error_equals_decl import (
    ErrorEqualsDecl,
)
from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import FailureEvent
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name import (
    StatesErrorName,
)
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name_type import (
    StatesErrorNameType,
)
from moto.stepfunctions.parser.asl.component.common.timeouts.timeout import TimeoutSeconds
from moto.stepfunctions.parser.asl.component.state.exec.execute_state import ExecutionState
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
    state_task_service_callback as callbacks,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task.state_task import StateTask
from moto.stepfunctions.parser.asl.eval.callback.callback import (
    HeartbeatTimedOut,
    HeartbeatTimeoutError,
)
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.eval.event.event_manager import EventManager
from moto.stepfunctions.parser.asl.eval.program_state import ProgramStopped, ProgramTimedOut
from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker

from emulator.asl_jsonata import patch_jsonata
from emulator.patching import replace
from emulator.registry import patch_registry

_done = False
_AFTER_STOP = {
    HistoryEventType.ExecutionAborted,
    HistoryEventType.ExecutionTimedOut,
    "ExecutionRedriven",
}


def patch_moto() -> None:
    """Apply all patches, once a process."""
    global _done
    if _done:
        return
    _done = True
    patch_jsonata()
    patch_registry()
    # CloudFormation puts state machines where no interpreter looks.
    replace(plain, "stepfunctions_backends", parser.stepfunctions_parser_backends)
    task = callbacks.StateTaskServiceCallback
    replace(task, "_wait_for_task_token_heartbeat", _wait_for_task_token_heartbeat)
    _patch_default_timeout()
    _patch_heartbeat_name()
    _patch_endings()
    _patch_context()
    _patch_model_packages()
    # moto's bucket policies know no conditions: a deny of plain HTTP would deny everything.
    replace(FakeBucket, "get_permission", lambda *_: PermissionResult.NEUTRAL)


def _wait_for_task_token_heartbeat(
    self: Any, env: Environment, callback_endpoint: Any, heartbeat_endpoint: Any
) -> Any:
    """An outcome that came before the heartbeat was set up must be seen, not waited for."""
    while env.is_running():
        outcome = callback_endpoint.get_outcome()
        if outcome is not None:
            return outcome
        if not heartbeat_endpoint.clear_and_wait() and env.is_running():
            # The outcome may have come together with the deadline.
            return callback_endpoint.get_outcome() or HeartbeatTimedOut()
    return callback_endpoint.get_outcome()


def _patch_default_timeout() -> None:
    def from_state_props(self: Any, state_props: Any) -> None:
        original(self, state_props)
        # moto ends a task that has only a heartbeat after 60 s; AWS does not.
        if getattr(self.timeout, "is_default", None):
            self.timeout = TimeoutSeconds(TimeoutSeconds.DEFAULT_TIMEOUT_SECONDS)

    original = replace(ExecutionState, "from_state_props", from_state_props)


def _patch_heartbeat_name() -> None:
    """A missed heartbeat has a name of its own; ``States.Timeout`` stands for both."""
    heartbeat = StatesErrorName(typ=StatesErrorNameType.StatesHeartbeatTimeout)
    timeout = StatesErrorName(typ=StatesErrorNameType.StatesTimeout)

    def from_error(self: Any, env: Environment, ex: Exception) -> Any:
        event = failure(self, env, ex)
        if isinstance(ex, HeartbeatTimeoutError):
            event.event_details["taskTimedOutEventDetails"]["error"] = heartbeat.error_name
            return FailureEvent(env, heartbeat, event.event_type, event.event_details)
        return event

    def match(self: Any, env: Environment) -> None:
        missed = env.stack[-1] == heartbeat
        equals(self, env)
        if missed and timeout in self.error_names:
            env.stack[-1] = True

    failure = replace(StateTask, "_from_error", from_error)
    equals = replace(ErrorEqualsDecl, "_eval_body", match)


def _patch_endings() -> None:
    """A stopped or timed out execution stays so, and writes no more history."""

    def ended(env: Environment) -> bool:
        return isinstance(env._program_state, ProgramStopped | ProgramTimedOut)

    def interrupt(env: Environment) -> None:
        if env.is_frame():
            return
        env.event_manager.__dict__["closed"] = True
        for endpoint in list(env.callback_pool_manager._pool.values()):
            endpoint.interrupt_all()

    def guarded_error(self: Environment, error: Any) -> None:
        if not ended(self):
            set_error(self, error)

    def guarded_time_out(self: Environment) -> None:
        set_timed_out(self)
        interrupt(self)

    def stop(self: Environment, stop_date: Any, cause: Any, error: Any) -> None:
        set_stop(self, stop_date, cause, error)
        interrupt(self)

    def guarded_event(self: Any, context: Any, event_type: Any, *args: Any, **kwargs: Any) -> int:
        late = self.__dict__.get("closed") and event_type not in _AFTER_STOP
        # A redriven execution goes on in its old history: it does not start again.
        again = event_type == HistoryEventType.ExecutionStarted and self._history_event_list
        if late or again:
            return int(context.last_published_event_id)
        return int(add_event(self, context, event_type, *args, **kwargs))

    set_error = replace(Environment, "set_error", guarded_error)
    set_timed_out = replace(Environment, "set_timed_out", guarded_time_out)
    set_stop = replace(Environment, "set_stop", stop)
    add_event = replace(EventManager, "add_event", guarded_event)


def _patch_context() -> None:
    def environment(self: Any) -> Environment:
        env: Environment = original(self)
        execution: Any = env.states.context_object.context_object_data["Execution"]
        execution["RedriveCount"] = 0
        start = execution["StartTime"]
        if isinstance(start, datetime.datetime):
            execution["StartTime"] = start.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        return env

    original = replace(ExecutionWorker, "_get_evaluation_environment", environment)


def _patch_model_packages() -> None:
    """The same client token is the same version, as AWS has it."""

    def create(self: Any, *args: Any, client_token: str | None = None, **more: Any) -> str:
        known = [p.arn for p in self.model_packages.values() if p.client_token == client_token]
        if client_token and known:
            return str(known[0])
        return str(original(self, *args, client_token=client_token, **more))

    original = replace(SageMakerModelBackend, "create_model_package", create)
