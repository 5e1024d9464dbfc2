"""A redeploy in the middle of a run: payloads and rows of the release before are still understood.

``tests/golden`` is typed by hand, not produced by our models: a renamed field must fail here. A new
release adds its own file beside the old one.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from emulator.asl_jsonata import evaluate
from everstep.contracts.payloads import HANDLER_STATES, State, Step
from everstep.contracts.records import Launch, Run, from_item
from everstep.policy.own_file_system import PRICE, own_spend
from lambdas.aws import services as module
from tests.lambdas.step_functions import STATES
from tests.lambdas.world import KINDS, RUN, World

GOLDEN = Path(__file__).parents[1] / "golden"
PAYLOADS: dict[str, dict[str, Any]] = json.loads((GOLDEN / "payloads-v1.json").read_text())
ROWS: dict[str, dict[str, str]] = json.loads((GOLDEN / "rows-v1.json").read_text())
NEW_SINCE = {
    State.CONTINUE_AS_NEW,
    State.EXPORT_MODEL,
    State.PREPARE_STORAGE,
    State.REGISTER_MODEL,
    State.RELEASE_STORAGE,
    State.VERIFY_EXPORT,
}


def test_every_state_of_that_release_has_a_payload() -> None:
    assert {*HANDLER_STATES, State.BACKOFF} - NEW_SINCE <= set(PAYLOADS)


def within(part: Any, whole: Any) -> bool:
    """Everything that was said is there still; fields that came later are no matter."""
    if isinstance(part, dict):
        return all(key in whole and within(value, whole[key]) for key, value in part.items())
    return bool(part == whole)


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_payload_of_the_release_before_is_understood(name: str) -> None:
    kind = KINDS.get(State(name), Step)
    parsed = kind.model_validate(PAYLOADS[name]).model_dump(mode="json")
    assert within(PAYLOADS[name], parsed)


@pytest.mark.parametrize("name", ["CheckQuota", "Decide", "Finish", "PlanAttempt"])
def test_a_handler_acts_on_it(name: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import import_module

    from everstep.contracts.names import handler_folder

    row = {k: {"S": v} for k, v in ROWS["run"].items()}
    world.store._client.put_item(TableName="runs", Item=row)
    row = {k: {"S": v} for k, v in ROWS["launch"].items()}
    world.store._client.put_item(TableName="runs", Item=row)
    monkeypatch.setattr(module, "_services", world.services())
    answer = import_module(f"lambdas.{handler_folder(name)}.handler").handler(PAYLOADS[name], None)
    assert answer["next"] in set(State)
    if name == "Decide":
        assert (answer["next"], answer["wait_seconds"]) == ("Backoff", 12)


def test_a_backoff_of_the_release_before_leads_where_it_did() -> None:
    output = STATES["Backoff"]["Output"][2:-2].strip()
    for after, wanted in (({}, "CheckQuota"), ({"after": None}, "CheckQuota")):
        found = evaluate(output, {"states": {"input": {**PAYLOADS["Backoff"], **after}}})
        assert found["next"] == wanted
    later = Step(run_id=RUN, execution_arn="a").later(5, State.INSPECT_ATTEMPT)
    assert evaluate(output, {"states": {"input": later}})["next"] == "InspectAttempt"


def test_rows_of_the_release_before_are_read() -> None:
    run, launch = from_item(Run, ROWS["run"]), from_item(Launch, ROWS["launch"])
    assert run.spec.watch.step == 900
    assert (launch.step_times, launch.inspections, launch.rung) == ([], 0, None)
    assert launch.decision is not None


def test_a_file_system_of_that_release_is_deleted_and_its_cost_known(world: World) -> None:
    """Its row has neither a size nor a number of tries."""
    row = {**ROWS["run"], **ROWS["run_with_a_file_system_of_its_own"]}
    item = {k: {"S": v} for k, v in row.items()}
    world.store._client.put_item(TableName="runs", Item=item)
    tags = {"everstep:table": "runs", "everstep:run": row["run_id"]}
    world.fsx.systems["older"] = {
        "FileSystemId": "fs-0123456789abcdef0",
        "Lifecycle": "AVAILABLE",
        "Tags": [{"Key": k, "Value": v} for k, v in tags.items()],
    }
    world.env = world.env.model_copy(update={"run_file_systems": True})
    world.machine.executions[json.loads(row["execution_arn"])] = "ABORTED"
    world.now = 1800000000.0 + 730 * 3600
    world.watch()
    assert world.fsx.deleted == ["fs-0123456789abcdef0"]
    assert own_spend(world.run(), {PRICE: 0.14}, 1e12).usd == pytest.approx(2400 * 0.14)


def test_what_a_later_release_adds_is_passed_over() -> None:
    step = Step.model_validate(PAYLOADS["Decide"] | {"schema_version": 2, "of_tomorrow": 1})
    assert step.launch == 1
