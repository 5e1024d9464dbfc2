"""The state machine as a plain dict, in JSONata. Pure: a template's tokens are strings here.

Shape: a hub. Every state that decides returns ``next``, the Choice ``Next`` follows it. The edges
are therefore data of the payload, and the rules are in ``everstep.policy``; only what the service
itself must know (waits, heartbeats, which error goes where) is written here.
"""

from collections.abc import Mapping
from typing import Any

from everstep.contracts.names import handler_folder
from everstep.contracts.payloads import SCHEMA_VERSION, State

DECIDED = tuple(state for state in State if state not in (State.VALIDATE_SPEC, State.NEXT))
"""What a handler may name in ``next``."""

SERVICE_ERRORS = (
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.TooManyRequestsException",
    "Lambda.Unknown",
    "Runtime.ExitError",
    "Sandbox.Timedout",
    # botocore's class names, when a service stayed ill through the client's own retries. Codes
    # that a service's model does not name, throttling among them, arrive as ClientError.
    "ClientError",
    "ConnectTimeoutError",
    "ConnectionClosedError",
    "EndpointConnectionError",
    "InternalServerError",
    "ProvisionedThroughputExceededException",
    "ReadTimeoutError",
    "ThrottlingException",
    "TooManyRequestsException",
)
"""The invocation's trouble, not the handler's answer. Handlers may be run twice."""

NO_HEARTBEAT = ["States.HeartbeatTimeout", "States.Timeout"]
"""Both names are used for it; these states have no time-out that could be meant instead."""

FORMER_JOB = {
    "ErrorEquals": ["FormerJobRunning"],
    "IntervalSeconds": 2,
    "BackoffRate": 2,
    "MaxDelaySeconds": 60,
    "MaxAttempts": 64,
}
"""LaunchAttempt's wish to be asked again, for about an hour: the former job may still write."""

INPUT = "{% $states.input %}"
RESULT = "{% $states.result %}"
PAYLOAD = "{% $states.result.Payload %}"


def _expression(text: str) -> str:
    return "{% " + text + " %}"


def _input_with(text: str) -> str:
    return _expression(f"$merge([$states.input, {text}])")


WITH_TOKEN = _input_with('{"task_token": $states.context.Task.Token}')
WITH_ERROR = _input_with('{"error": $states.errorOutput}')
WITH_START = _input_with('{"execution_input": $states.context.Execution.Input}')
AFTER_THE_WAIT = _input_with(
    f'{{"next": $states.input.after ? $states.input.after : "{State.CHECK_QUOTA}"}}'
)
WITH_REDRIVES = _input_with(
    '{"redrive_count": $exists($states.context.Execution.RedriveCount)'
    " ? $states.context.Execution.RedriveCount : 0}"
)


def definition(
    functions: Mapping[str, str], team: Mapping[str, Any], partition: str = "aws"
) -> dict[str, Any]:
    """``functions`` maps a handler's folder to the ARN that is invoked: an alias."""

    def task(state: State, payload: Any, **more: Any) -> dict[str, Any]:
        return {
            "Type": "Task",
            "Resource": f"arn:{partition}:states:::lambda:invoke",
            "Arguments": {"FunctionName": functions[handler_folder(state)], "Payload": payload},
            "Output": PAYLOAD,
            "Retry": [_retry()],
            "Next": State.NEXT.value,
            **more,
        }

    def waiting(state: State, **more: Any) -> dict[str, Any]:
        """A state that someone else finishes: what SendTaskSuccess gave is the next payload."""
        resource = f"arn:{partition}:states:::lambda:invoke.waitForTaskToken"
        return task(state, WITH_TOKEN, Resource=resource, Output=RESULT, **more)

    def launch(state: State, inspect: State, judge: State) -> dict[str, Any]:
        return waiting(
            state,
            Retry=[_retry(), FORMER_JOB],
            HeartbeatSeconds=_expression("$states.input.heartbeat_seconds"),
            Catch=[
                # No heartbeat: the watchdog is ill, not the job. Look, and wait again.
                _catch(NO_HEARTBEAT, inspect, INPUT),
                _catch(["States.ALL"], judge, WITH_ERROR),
            ],
        )

    start = {
        "schema_version": SCHEMA_VERSION,
        "execution_arn": _expression("$states.context.Execution.Id"),
        "execution_name": _expression("$states.context.Execution.Name"),
        "team": dict(team),
        "input": INPUT,
    }
    training = (State.INSPECT_ATTEMPT, State.CLASSIFY)
    wait_seconds = _expression("$states.input.wait_seconds")
    states = {
        State.VALIDATE_SPEC: task(State.VALIDATE_SPEC, start),
        State.NEXT: {
            "Type": "Choice",
            "Choices": [
                {"Condition": _expression(f"$states.input.next = '{state}'"), "Next": state.value}
                for state in DECIDED
            ],
            "Default": "UnknownNext",
        },
        State.CHECK_QUOTA: task(State.CHECK_QUOTA, INPUT),
        State.WAIT_FOR_ROOM: waiting(
            State.WAIT_FOR_ROOM,
            TimeoutSeconds=wait_seconds,
            # Out of time: CheckQuota counts the wait, and refuses with the arithmetic.
            Catch=[_catch(["States.Timeout"], State.CHECK_QUOTA, INPUT)],
        ),
        State.PREPARE_STORAGE: task(State.PREPARE_STORAGE, INPUT),
        State.PLAN_ATTEMPT: task(State.PLAN_ATTEMPT, INPUT),
        State.LAUNCH_ATTEMPT: launch(State.LAUNCH_ATTEMPT, *training),
        State.INSPECT_ATTEMPT: launch(State.INSPECT_ATTEMPT, *training),
        State.CLASSIFY: task(State.CLASSIFY, INPUT),
        State.DECIDE: task(State.DECIDE, INPUT),
        State.BACKOFF: {
            "Type": "Wait",
            "Seconds": wait_seconds,
            "Output": AFTER_THE_WAIT,
            "Next": State.NEXT.value,
        },
        State.VERIFY_OUTCOME: task(State.VERIFY_OUTCOME, INPUT),
        # Its own inspection: run again, it waits for the job that is there.
        State.EXPORT_MODEL: launch(State.EXPORT_MODEL, State.EXPORT_MODEL, State.VERIFY_EXPORT),
        State.VERIFY_EXPORT: task(State.VERIFY_EXPORT, INPUT),
        State.REGISTER_MODEL: task(State.REGISTER_MODEL, INPUT),
        State.RELEASE_STORAGE: task(State.RELEASE_STORAGE, INPUT),
        State.FINISH: task(State.FINISH, INPUT),
        # Raises the failure class, which fails the execution in a Task: so Redrive goes on.
        State.GIVE_UP: task(State.GIVE_UP, WITH_REDRIVES),
        State.CONTINUE_AS_NEW: task(State.CONTINUE_AS_NEW, WITH_START),
        State.REFUSE_SPEC: {
            "Type": "Fail",
            "Error": "InvalidSpec",
            "Cause": _expression("$states.input.message"),
        },
        State.DONE: {"Type": "Succeed", "Output": INPUT},
        "UnknownNext": {
            "Type": "Fail",
            "Error": "UnknownNext",
            "Cause": "A handler named a state that this definition does not have. The payload "
            "is the input of this state.",
        },
    }
    return {
        "Comment": "One run of one team. The numbered life of a run is in docs/architecture.md.",
        "QueryLanguage": "JSONata",
        "StartAt": State.VALIDATE_SPEC.value,
        "States": {str(name): body for name, body in states.items()},
    }


def _retry() -> dict[str, Any]:
    return {
        "ErrorEquals": list(SERVICE_ERRORS),
        "IntervalSeconds": 2,
        "BackoffRate": 2,
        "MaxAttempts": 6,
        "JitterStrategy": "FULL",
    }


def _catch(errors: list[str], state: State, output: str) -> dict[str, Any]:
    return {"ErrorEquals": errors, "Output": output, "Next": state.value}
