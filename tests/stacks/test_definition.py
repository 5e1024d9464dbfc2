"""The state machine, as deployed: a graph without loose ends, in JSONata only."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonata import Jsonata

from everstep.contracts.env import ControlEnv
from everstep.contracts.names import construct_id, handler_folder
from everstep.contracts.payloads import HANDLER_STATES, State
from stacks.config import Config

from .conftest import Synthesised

TOKEN_STATES = {"WaitForRoom", "LaunchAttempt", "InspectAttempt", "ExportModel"}
JSONPATH_FIELDS = {
    "InputPath", "OutputPath", "ResultPath", "ResultSelector", "Parameters", "Variable",
    "SecondsPath", "TimeoutSecondsPath", "HeartbeatSecondsPath", "CausePath", "ErrorPath",
}  # fmt: skip


def _targets(state: dict[str, Any]) -> Iterator[str]:
    for place in (state, *state.get("Choices", ()), *state.get("Catch", ())):
        if "Next" in place:
            yield place["Next"]
    if "Default" in state:
        yield state["Default"]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
    elif isinstance(value, str):
        yield value


def _evaluate(text: str, states: dict[str, Any]) -> Any:
    expression = Jsonata(text.removeprefix("{%").removesuffix("%}").strip())
    expression.assign("states", states)
    return expression.evaluate(None)


def test_every_next_exists_and_every_state_is_reached(definition: dict[str, Any]) -> None:
    states = definition["States"]
    seen, todo = set(), [definition["StartAt"]]
    while todo:
        name = todo.pop()
        assert name in states, name
        if name not in seen:
            seen.add(name)
            todo += _targets(states[name])
    assert seen == set(states)


def test_states_end_or_go_on(definition: dict[str, Any]) -> None:
    for name, state in definition["States"].items():
        assert (state["Type"] in ("Fail", "Succeed")) == (not list(_targets(state))), name


def test_every_state_of_the_contract_is_there(definition: dict[str, Any]) -> None:
    assert {state.value for state in State} == set(definition["States"]) - {"UnknownNext"}


def test_a_state_invokes_the_alias_of_its_own_handler(definition: dict[str, Any]) -> None:
    for state in HANDLER_STATES:
        function = definition["States"][state.value]["Arguments"]["FunctionName"]
        assert function.startswith(f"<Handlers{construct_id(handler_folder(state))}Alias"), function


def test_jsonata_only(definition: dict[str, Any]) -> None:
    assert definition["QueryLanguage"] == "JSONata"
    for name, state in definition["States"].items():
        assert not JSONPATH_FIELDS & state.keys(), name
        assert ".$" not in json.dumps(state), name


def test_every_expression_parses(definition: dict[str, Any]) -> None:
    expressions = [text for text in _strings(definition["States"]) if text.startswith("{%")]
    assert len(expressions) > 30
    for text in expressions:
        assert text.endswith("%}")
        Jsonata(text[2:-2].strip())


def test_waiting_states_wait_for_a_token_and_give_it(definition: dict[str, Any]) -> None:
    for name, state in definition["States"].items():
        waits = state.get("Resource", "").endswith(".waitForTaskToken")
        assert waits == (name in TOKEN_STATES), name
        if waits:
            payload = _evaluate(
                state["Arguments"]["Payload"],
                {"input": {"run_id": "r"}, "context": {"Task": {"Token": "t"}}},
            )
            assert payload == {"run_id": "r", "task_token": "t"}
            assert state["Output"] == "{% $states.result %}"


def test_a_missing_heartbeat_is_looked_into_and_any_failure_is_classified(
    definition: dict[str, Any],
) -> None:
    for name, inspect, judge in (
        ("LaunchAttempt", "InspectAttempt", "Classify"),
        ("InspectAttempt", "InspectAttempt", "Classify"),
        ("ExportModel", "ExportModel", "VerifyExport"),
    ):
        state = definition["States"][name]
        assert state["HeartbeatSeconds"] == "{% $states.input.heartbeat_seconds %}"
        assert [(c["ErrorEquals"], c["Next"]) for c in state["Catch"]] == [
            (["States.HeartbeatTimeout", "States.Timeout"], inspect),
            (["States.ALL"], judge),
        ]
        error = {"Error": "Hang", "Cause": "no step"}
        assert _evaluate(
            state["Catch"][1]["Output"], {"input": {"run_id": "r"}, "errorOutput": error}
        ) == {"run_id": "r", "error": error}


@pytest.mark.parametrize(("execution", "count"), [({}, 0), ({"RedriveCount": 2}, 2)])
def test_give_up_is_told_the_redrives(
    definition: dict[str, Any], execution: dict[str, int], count: int
) -> None:
    payload = definition["States"]["GiveUp"]["Arguments"]["Payload"]
    states = {"input": {"run_id": "r"}, "context": {"Execution": execution}}
    assert _evaluate(payload, states) == {"run_id": "r", "redrive_count": count}


def test_give_up_fails_in_its_task_and_is_not_retried_for_what_it_raises(
    definition: dict[str, Any],
) -> None:
    state = definition["States"]["GiveUp"]
    assert "Catch" not in state
    retried = {error for retry in state["Retry"] for error in retry["ErrorEquals"]}
    assert "States.ALL" not in retried
    assert "States.TaskFailed" not in retried


def test_every_invocation_is_retried_when_lambda_is_ill(definition: dict[str, Any]) -> None:
    for name, state in definition["States"].items():
        if state["Type"] == "Task":
            retry = state["Retry"][0]
            assert "Lambda.TooManyRequestsException" in retry["ErrorEquals"], name
            # A process that was killed half way: found by chaos seed 9.
            assert "Runtime.ExitError" in retry["ErrorEquals"], name
            assert retry["JitterStrategy"] == "FULL"


@pytest.mark.parametrize(("payload", "leads"), [({}, "CheckQuota"), ({"after": "X"}, "X")])
def test_a_wait_leads_where_the_payload_says(
    definition: dict[str, Any], payload: dict[str, str], leads: str
) -> None:
    state = definition["States"]["Backoff"]
    assert state["Next"] == "Next"
    assert _evaluate(state["Output"], {"input": {"next": "Backoff", **payload}})["next"] == leads


def test_refusal_says_why(definition: dict[str, Any]) -> None:
    state = definition["States"]["RefuseSpec"]
    assert state["Error"] == "InvalidSpec"
    assert _evaluate(state["Cause"], {"input": {"message": "2 problems"}}) == "2 problems"


def test_definition_is_far_from_the_services_limit(prod: Synthesised) -> None:
    for machine in prod.resources("AWS::StepFunctions::StateMachine"):
        assert len(json.dumps(machine["DefinitionString"])) < 200_000


def test_statelint(definition: dict[str, Any]) -> None:
    """It knows JSONata, but takes no expression for a number: those get one first."""
    linter = pytest.importorskip("statelint.linter").Linter
    numbers = {"Seconds", "TimeoutSeconds", "HeartbeatSeconds"}
    states = {
        name: {field: 60 if field in numbers else value for field, value in state.items()}
        for name, state in definition["States"].items()
    }
    problems = linter.validate(definition | {"States": states})
    assert [p for p in problems if "BackoffRate is 2 but should be a Float" not in p] == []


MOST_EVENTS = 25_000


def _most_events(state: dict[str, Any]) -> int:
    """Entered and left; a try is scheduled, started and failed; the last one has one more."""
    if state["Type"] != "Task":
        return 2
    tries = 1 + sum(rule["MaxAttempts"] for rule in state.get("Retry", ()))
    return 2 + 3 * (tries - 1) + 4


def test_an_execution_that_retries_everything_to_the_end_stays_below_the_limit(
    definition: dict[str, Any],
) -> None:
    """Of a turn, every state at most once (a wait for room, a backoff and a look included), each
    with the hub after it. Decide leads away at the limit, InspectAttempt one turn later."""
    a_turn = [
        "CheckQuota", "WaitForRoom", "PlanAttempt", "LaunchAttempt", "Classify", "Decide",
        "VerifyOutcome", "Backoff",
    ]  # fmt: skip
    an_inspection = ["InspectAttempt", "Classify", "Backoff"]
    states = definition["States"]
    hub = _most_events(states["Next"])
    worst = max(
        sum(_most_events(states[name]) + hub for name in names) for names in (a_turn, an_inspection)
    )
    most = Config.model_fields["continue_after_turns"]
    limit = next(rule.le for rule in most.metadata if hasattr(rule, "le"))
    assert limit >= most.default == ControlEnv.model_fields["continue_after_turns"].default
    once = ["ValidateSpec", "ContinueAsNew", "GiveUp"]
    rest = sum(_most_events(states[name]) + hub for name in once)
    assert (limit + 1) * worst + rest <= MOST_EVENTS
