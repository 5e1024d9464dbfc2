"""Step Functions' operations on executions, as AWS has them: names, stops, redrives, events."""

import datetime
import json
import threading
import uuid
from typing import Any

from botocore.exceptions import ClientError
from moto.awslambda.exceptions import LambdaClientError, UnknownFunctionException
from moto.core.exceptions import AWSError
from moto.stepfunctions.parser.api import ExecutionStatus
from moto.stepfunctions.parser.asl.component.common.flow.start_at import StartAt
from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils
from moto.stepfunctions.parser.backend.execution import (
    BaseExecutionWorkerCommunication,
    Execution,
)
from moto.stepfunctions.parser.models import (
    StepFunctionsParserBackend,
    stepfunctions_parser_backends,
)

from emulator.bus import Bus
from emulator.front import Front
from emulator.lambda_pool import LambdaPool
from emulator.names import ACCOUNT, REGION, AwsError
from emulator.patching import replace
from emulator.tokens import Tokens
from emulator.world import World, epoch

EVENT = "Step Functions Execution Status Change"
_REDRIVABLE = {ExecutionStatus.FAILED, ExecutionStatus.ABORTED, ExecutionStatus.TIMED_OUT}


class Executions:
    """Starts, stops, describes and redrives executions of moto's interpreter."""

    def __init__(self, world: World, bus: Bus, lambdas: LambdaPool) -> None:
        self._world = world
        self._bus = bus
        self._tokens = Tokens()
        self._lock = threading.Lock()
        self._stops: dict[str, tuple[str | None, str | None]] = {}
        self._watch_endings()
        replace(lambda_eval_utils, "_invoke_lambda_function", _direct_invocation(lambdas))

    def register(self, front: Front) -> None:
        """Take these operations over from moto."""
        operations = {
            "StartExecution": self.start,
            "StopExecution": self.stop,
            "DescribeExecution": self.describe,
            "RedriveExecution": self.redrive,
            "SendTaskSuccess": self._tokens.succeed,
            "SendTaskFailure": self._tokens.fail,
            "SendTaskHeartbeat": self._tokens.heartbeat,
        }
        for name, operation in operations.items():
            front.add(f"AWSStepFunctions.{name}", operation)

    def start(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """StartExecution: the same name and input while it runs is the same execution."""
        version = _version_of(parameters["stateMachineArn"])
        name = parameters.get("name") or str(uuid.uuid4())
        with self._lock:
            try:
                _backend()._validate_name(name)
                execution = _start(version, name, parameters.get("input", "{}"))
            except AWSError as error:
                raise _as_aws(error) from error
        self._publish(execution)
        return {
            "executionArn": execution.exec_arn,
            "startDate": execution.start_date.timestamp(),
        }

    def stop(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """StopExecution: ABORTED, with the given error and cause."""
        execution = _find(parameters["executionArn"])
        now = datetime.datetime.now(datetime.UTC)
        if execution.exec_status == ExecutionStatus.RUNNING:
            error, cause = parameters.get("error"), parameters.get("cause")
            self._stops[execution.exec_arn] = (error, cause)
            # The interpreter's thread makes the environment: a stop may come before it has.
            while execution.exec_worker is None or execution.exec_worker.env is None:
                if self._world.closing.wait(0.01):
                    break
            execution.stop(stop_date=now, error=error, cause=cause)
        return {"stopDate": now.timestamp()}

    def describe(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """DescribeExecution, with stop date, redrives, error and cause of every ending."""
        execution = _find(parameters["executionArn"])
        status = execution.exec_status or ExecutionStatus.RUNNING
        redrives: int = execution.__dict__.get("redrives", 0)
        found: dict[str, Any] = {
            "executionArn": execution.exec_arn,
            "stateMachineArn": execution.state_machine_arn,
            "name": execution.name,
            "status": status.value,
            "startDate": execution.start_date.timestamp(),
            "input": execution.execution_input,
            "inputDetails": {"included": True},
            "redriveCount": redrives,
            "redriveStatus": "REDRIVABLE" if status in _REDRIVABLE else "NOT_REDRIVABLE",
        }
        if "version_arn" in execution.__dict__:
            found["stateMachineVersionArn"] = execution.__dict__["version_arn"]
        if redrives:
            found["redriveDate"] = execution.__dict__["redriven_at"]
        if status == ExecutionStatus.RUNNING:
            found["redriveStatusReason"] = "Execution is RUNNING and cannot be redriven"
            return found
        if execution.stop_date:
            found["stopDate"] = execution.stop_date.timestamp()
        if status == ExecutionStatus.SUCCEEDED:
            found["redriveStatusReason"] = "Execution is SUCCEEDED and cannot be redriven"
            found["output"] = json.dumps(execution.output, separators=(",", ":"))
            found["outputDetails"] = {"included": True}
        found.update({k: v for k, v in _error_of(execution, self._stops).items() if v})
        return found

    def redrive(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """RedriveExecution: go on from the state that did not succeed, with the same input."""
        execution = _find(parameters["executionArn"])
        with self._lock:
            if execution.exec_status not in _REDRIVABLE:
                raise AwsError(
                    "ExecutionNotRedrivable",
                    f"Execution is {execution.status} and cannot be redriven",
                )
            now = epoch()
            _restart(execution, now)
            self._stops.pop(execution.exec_arn, None)
        self._publish(execution)
        return {"redriveDate": now}

    def _watch_endings(self) -> None:
        executions = self

        def terminated(self: Any) -> None:
            reflect(self)
            executions._publish(self.execution)

        reflect = replace(BaseExecutionWorkerCommunication, "terminated", terminated)

    def _publish(self, execution: Execution) -> None:
        described = self.describe({"executionArn": execution.exec_arn})
        detail = {key: described.get(key) for key in ("executionArn", "stateMachineArn", "name")}
        detail |= {
            "status": described["status"],
            "startDate": int(described["startDate"] * 1000),
            "stopDate": int(described["stopDate"] * 1000) if "stopDate" in described else None,
            "input": described["input"],
            "output": described.get("output"),
            "error": described.get("error"),
            "cause": described.get("cause"),
            "inputDetails": {"included": True},
            "redriveCount": described["redriveCount"],
            "redriveStatus": described["redriveStatus"],
        }
        self._bus.put("aws.states", EVENT, detail, [execution.exec_arn])


def _restart(execution: Execution, now: float) -> None:
    """Run the machine again from the state in which it stopped, in a fresh environment."""
    former = execution.exec_worker.env if execution.exec_worker else None
    state = former and former.states.context_object.context_object_data.get("State")
    if not former or not state:
        raise AwsError("ExecutionNotRedrivable", "The execution has not entered a state")
    redrives = execution.__dict__.get("redrives", 0) + 1
    execution.__dict__.update(redrives=redrives, redriven_at=now)
    worker = execution._get_start_execution_worker()

    def environment() -> Any:
        env = make_environment()
        env.states.reset(former.states.get_input())
        context: Any = env.states.context_object.context_object_data["Execution"]
        context["RedriveCount"] = redrives
        context["RedriveTime"] = datetime.datetime.fromtimestamp(now, datetime.UTC).isoformat()
        env.variable_store._inner_scope.update(former.variable_store._inner_scope)
        env.event_manager = former.event_manager
        env.event_manager.__dict__["closed"] = False
        env.event_history_context.integrate(former.event_history_context)
        kind: Any = "ExecutionRedriven"
        details: Any = {"executionRedrivenEventDetails": {"redriveCount": redrives}}
        env.event_manager.add_event(env.event_history_context, kind, details)
        return env

    def program() -> Any:
        made = make_program()
        replace(made, "start_at", StartAt(state["Name"]))
        return made

    make_environment = replace(worker, "_get_evaluation_environment", environment)
    make_program = replace(worker, "_get_evaluation_entrypoint", program)
    execution.exec_worker = worker
    execution.error = execution.cause = execution.stop_date = None
    execution.exec_status = ExecutionStatus.RUNNING
    worker.start()


def _error_of(
    execution: Execution, stops: dict[str, tuple[str | None, str | None]]
) -> dict[str, str | None]:
    if execution.exec_status == ExecutionStatus.ABORTED:
        error, cause = stops.get(execution.exec_arn, (None, None))
        return {"error": error, "cause": cause}
    if execution.exec_status == ExecutionStatus.TIMED_OUT:
        return {"error": "States.Timeout", "cause": None}
    return {"error": execution.error, "cause": execution.cause}


def _backend() -> StepFunctionsParserBackend:
    return stepfunctions_parser_backends[ACCOUNT][REGION]


def _find(arn: str) -> Execution:
    try:
        return _backend().describe_execution(arn)  # type: ignore[return-value]
    except AWSError as error:
        raise _as_aws(error) from error


def _as_aws(error: AWSError) -> AwsError:
    return AwsError(error.TYPE or type(error).__name__, str(error.message))


def _start(machine_arn: str, name: str, text: str) -> Execution:
    """Start a machine, or one version of it: moto starts only machines."""
    backend = _backend()
    version = backend.describe_state_machine(machine_arn)
    if not hasattr(version, "source_arn"):
        return backend.start_execution(machine_arn, name, text)
    machine: Any = backend.describe_state_machine(version.source_arn)
    newest = (machine.definition, machine.roleArn)
    machine.definition, machine.roleArn = version.definition, version.roleArn
    try:
        # The execution takes a copy of the machine as it is now; the caller holds the lock.
        execution = backend.start_execution(machine.arn, name, text)
    finally:
        machine.definition, machine.roleArn = newest
    execution.__dict__["version_arn"] = version.arn
    return execution


def _version_of(arn: str) -> str:
    """The version that an alias points to; other ARNs as they are."""
    machine, _, name = arn.rpartition(":")
    if machine.count(":") != 6 or name.isnumeric():
        return arn
    try:
        alias = _backend().describe_state_machine_alias(arn)
    except AWSError as error:
        raise _as_aws(error) from error
    return str(alias.routing_configuration[0]["stateMachineVersionArn"])


def _direct_invocation(lambdas: LambdaPool) -> Any:
    """Lambda tasks without a detour over HTTP: moto makes a boto3 client for each."""

    def invoke(parameters: dict[str, Any], region: str, state_credentials: Any) -> dict[str, Any]:
        name = parameters["FunctionName"]
        try:
            event = json.loads(parameters.get("Payload") or b"{}")
            result = lambdas.invoke(name, event, parameters.get("Qualifier"))
        except (UnknownFunctionException, LambdaClientError) as error:
            answer: Any = {"Code": "ResourceNotFoundException", "Message": str(error)}
            meta: Any = {"HTTPStatusCode": 404, "RequestId": str(uuid.uuid4())}
            raise ClientError({"Error": answer, "ResponseMetadata": meta}, "Invoke") from error
        response = {"StatusCode": 200, "Payload": json.loads(result["payload"])}
        if "error" in result:
            response["FunctionError"] = result["error"]
        else:
            response["ExecutedVersion"] = result["version"]
        return response

    return invoke
