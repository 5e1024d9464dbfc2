"""Step Functions in a page: follows ``stacks.definition`` over the handlers of a small world.

``StepFunctions.settle`` lets every execution run until it waits for a token or a time, or is over.
It holds what the machine promises: no execution goes on for ever without waiting or making a job.
"""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

from emulator.asl_jsonata import evaluate as jsonata
from everstep.contracts.names import handler_folder
from everstep.contracts.payloads import HANDLER_STATES, State
from lambdas.aws.services import Services
from stacks.definition import definition
from tests.lambdas.world import EXECUTION, RUN, TEAM, Crash, World

MOST_STATES_WITHOUT_WAITING = 40
STATES = definition({handler_folder(s): s for s in HANDLER_STATES}, TEAM.model_dump())["States"]


@cache
def _evaluate(expression: str, bindings: str) -> Any:
    return jsonata(expression, json.loads(bindings))


class Execution:
    def __init__(self, machine: "StepFunctions", arn: str, given: Any) -> None:
        self.machine, self.world, self.arn, self.given = machine, machine.world, arn, given
        self.name = arn.rpartition(":")[2]
        self.at, self.input = "ValidateSpec", given
        self.token: str | None = None
        self.until: float | None = None
        self.tries, self.redrives, self.path = 0, 0, list[str]()
        self.error: dict[str, str] | None = None

    @property
    def status(self) -> str:
        return self.world.machine.executions[self.arn]

    def settle(self) -> None:
        busy = 0
        while self.status == "RUNNING":
            if self.until is not None and self.world.now < self.until and self.token is None:
                return  # a Wait
            if self.token is not None and not self._answered():
                return
            self.until = None if self.token is None else self.until
            jobs = len(self.world.sagemaker.created)
            self._state()
            waits = self.until is not None or self.token is not None
            busy = 0 if waits or len(self.world.sagemaker.created) > jobs else busy + 1
            assert busy < MOST_STATES_WITHOUT_WAITING, f"a loop: {self.path[-busy:]}"

    def heartbeat_timeout(self) -> None:
        if self.token is not None and "HeartbeatSeconds" in STATES[self.at]:
            self._abandon()
            self._fail({"Error": "States.HeartbeatTimeout", "Cause": ""})

    def stop(self) -> None:
        self._abandon()
        self.until = None
        self.world.machine.executions[self.arn] = "ABORTED"

    def redrive(self) -> None:
        """Goes on in the state that failed, or was stopped in."""
        self.redrives += 1
        self.tries = 0
        self.world.machine.executions[self.arn] = "RUNNING"

    # --- one state

    def _state(self) -> None:
        state = STATES[self.at]
        self.path.append(self.at)
        kind = state["Type"]
        if kind == "Choice":
            chosen = [c["Next"] for c in state["Choices"] if self._eval(c["Condition"])]
            self.at = chosen[0] if chosen else state["Default"]
        elif kind == "Wait":
            seconds = self._eval(state["Seconds"])
            assert seconds >= 1, "a wait that is none"
            self.until = self.world.now + seconds
            self._go(self._eval(state["Output"]), state["Next"])
        elif kind == "Succeed":
            self.world.machine.executions[self.arn] = "SUCCEEDED"
        elif kind == "Fail":
            cause = self._eval(state["Cause"])
            self.error = {"Error": state["Error"], "Cause": cause}
            self.world.machine.executions[self.arn] = "FAILED"
        else:
            self._task(state)

    def _task(self, state: dict[str, Any]) -> None:
        waits = state["Resource"].endswith(".waitForTaskToken")
        if waits:
            self.machine.tokens += 1
            self.token = self.world.machine.token(f"T{self.machine.tokens}")
        payload = self._eval(state["Arguments"]["Payload"])
        try:
            result = self.world.act(State(self.at), payload, self.machine.services())
        except Crash:
            self._fail({"Error": "Lambda.Unknown", "Cause": "it died"})
        except Exception as error:  # noqa: BLE001 - what Step Functions catches
            cause = json.dumps({"errorMessage": str(error), "stackTrace": []})
            self._fail({"Error": type(error).__name__, "Cause": cause})
        else:
            self.tries = 0
            if waits:
                seconds = state.get("TimeoutSeconds")
                self.until = self.world.now + self._eval(seconds) if seconds else None
            else:
                self._go(json.loads(json.dumps(result)), state["Next"])

    def _answered(self) -> bool:
        answer = self.world.machine.answers.pop(self.token, None)
        if answer is None:
            if self.until is not None and self.world.now >= self.until:
                self._abandon()
                self._fail({"Error": "States.Timeout", "Cause": ""})
                return self.token is None
            return False
        state = STATES[self.at]
        self.token = self.until = None
        if "Error" in answer:
            self._fail(answer)
        else:
            self._go(answer, state["Next"])
        return True

    def _fail(self, error: dict[str, str]) -> None:
        self._abandon()
        self.until = None
        state = STATES[self.at]
        for retry in state.get("Retry", ()):
            if error["Error"] in retry["ErrorEquals"] and self.tries < retry["MaxAttempts"]:
                self.tries += 1
                self.until = self.world.now + retry["IntervalSeconds"]
                return
        self.tries = 0
        for catch in state.get("Catch", ()):
            if {"States.ALL", error["Error"]} & set(catch["ErrorEquals"]):
                self._go(self._eval(catch["Output"], errorOutput=error), catch["Next"])
                return
        self.error = error
        self.world.machine.executions[self.arn] = "FAILED"

    def _go(self, payload: Any, state: str) -> None:
        self.input, self.at = payload, state

    def _abandon(self) -> None:
        self.world.machine.waiting.discard(self.token or "")
        self.token = None

    def _eval(self, value: Any, **more: Any) -> Any:
        if isinstance(value, dict):
            return {k: self._eval(v, **more) for k, v in value.items()}
        if not (isinstance(value, str) and value.startswith("{%")):
            return value
        states = {
            "input": self.input,
            "context": {
                "Execution": {
                    "Id": self.arn,
                    "Name": self.name,
                    "Input": self.given,
                    "RedriveCount": self.redrives,
                },
                "Task": {"Token": self.token or ""},
            },
            **more,
        }
        return _evaluate(value[2:-2].strip(), json.dumps({"states": states}))


class StepFunctions:
    """All executions of a world; ``services`` may be replaced to make a handler die."""

    def __init__(self, world: World) -> None:
        self.world, self.tokens = world, 0
        self.executions: dict[str, Execution] = {}
        self.services: Callable[[], Services] = world.services
        world.machine.executions.clear()

    def start(self, spec: dict[str, Any], name: str = RUN) -> Execution:
        arn = EXECUTION.removesuffix(RUN) + name
        self.world.machine.start_execution(
            stateMachineArn=arn.rpartition(":")[0].replace(":execution:", ":stateMachine:"),
            name=name,
            input=json.dumps(spec),
        )
        self.settle()
        return self.executions[arn]

    def settle(self) -> None:
        """Executions that handlers started run too."""
        for _ in range(200):
            for arn, given in list(self.world.machine.inputs.items()):
                if arn not in self.executions:
                    self.executions[arn] = Execution(self, arn, json.loads(given))
            before = self._where()
            for execution in list(self.executions.values()):
                execution.settle()
            known = len(self.executions) == len(self.world.machine.inputs)
            if known and before == [
                (e.at, e.status, len(e.path)) for e in self.executions.values()
            ]:
                return
        raise AssertionError(f"executions without end: {[*self.executions]}")

    def _where(self) -> list[tuple[str, str, int]]:
        return [(e.at, e.status, len(e.path)) for e in self.executions.values()]

    def running(self) -> list[Execution]:
        return [e for e in self.executions.values() if e.status == "RUNNING"]
