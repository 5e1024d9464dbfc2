"""``retry``, ``resume --from``, ``clone``, ``stop``: which way they take, and what they refuse."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from typer.testing import CliRunner

from everstep.cli import branch, retry, runs, saved
from everstep.cli.cloud import Cloud
from everstep.cli.errors import CliError
from everstep.cli.executions import Execution
from everstep.cli.main import app
from everstep.contracts import names
from everstep.contracts.manifest import CheckpointName
from everstep.contracts.records import Adopted, RunStatus
from tests.cli import watched
from tests.cli.watched import RUN_ID

ARN = watched.run().execution_arn
MACHINE = ARN.rpartition(":")[0].replace(":execution:", ":stateMachine:")


class FakeMachine:
    """Step Functions, as far as these commands ask it."""

    def __init__(self) -> None:
        self.said: list[tuple[str, Any]] = []
        self.burnt: set[str] = set()
        self.refuses: ClientError | None = None

    def start_execution(self, **request: Any) -> dict[str, str]:
        if request["name"] in self.burnt:
            raise ClientError({"Error": {"Code": "ExecutionAlreadyExists"}}, "StartExecution")
        self.said.append((request["name"], json.loads(request["input"])))
        return {"executionArn": f"{ARN.rpartition(':')[0]}:{request['name']}"}

    def redrive_execution(self, executionArn: str) -> None:
        if self.refuses:
            raise self.refuses
        self.said.append(("redrive", executionArn))

    def stop_execution(self, **request: Any) -> None:
        self.said.append(("stop", request["executionArn"]))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    found = FakeMachine()
    monkeypatch.setattr(Cloud, "_client", lambda *_: found)
    monkeypatch.setattr(Cloud, "outputs", {names.OUTPUT_MACHINE + "Research": MACHINE})
    monkeypatch.setattr(Cloud, "launches", lambda *_: [watched.failed(1, watched.OVER)])
    monkeypatch.setattr(saved, "Checkpoints", lambda _: SimpleNamespace(steps=lambda _: []))
    return found


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, machine: FakeMachine) -> Any:
    """``world(run, execution)``: what the table and Step Functions hold."""

    def hold(run: Any, execution: Execution | None, *, changed: bool = False) -> FakeMachine:
        monkeypatch.setattr(Cloud, "find_run", lambda *_: run)
        monkeypatch.setattr("everstep.cli.executions.describe", lambda *_: execution)
        monkeypatch.setattr("everstep.cli.executions.definition_changed", lambda *_: changed)
        return machine

    return hold


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def refused(*arguments: str) -> CliError:
    with pytest.raises(CliError) as raised:
        run(*arguments)
    return raised.value


GAVE_UP = watched.run(status=RunStatus.GAVE_UP)
FAILED = Execution(ARN, "FAILED", redrivable=True)
SPEC = watched.run().spec.model_dump(mode="json", exclude_defaults=True)


def test_a_run_that_gave_up_is_redriven(world: Any) -> None:
    machine = world(GAVE_UP, FAILED)
    assert json.loads(run("retry", RUN_ID, "--json").stdout)["execution_arn"] == ARN
    assert machine.said == [("redrive", ARN)]


@pytest.mark.parametrize(
    ("execution", "deployed", "arguments", "why"),
    [
        (Execution(ARN, "FAILED", why_not="Execution is older than 14 days"), False, [], "14 days"),
        (FAILED, True, [], "state machine has changed"),
        (FAILED, False, ["--new"], "asked for"),
        (FAILED, False, ["--set", "train.lr=0.0001"], "spec is changed"),
        (None, False, [], "history is gone"),
    ],
)
def test_where_a_redrive_cannot_a_new_execution_of_the_same_run_does(
    world: Any, execution: Execution | None, deployed: bool, arguments: list[str], why: str
) -> None:
    machine = world(GAVE_UP, execution, changed=deployed)
    machine.burnt = {f"{RUN_ID}-c01"}
    done = run("retry", RUN_ID, *arguments)
    ((name, given),) = machine.said
    assert name == f"{RUN_ID}-c02"
    assert given == (SPEC | {"train": {"lr": 0.0001}} if "--set" in arguments else SPEC)
    assert why in " ".join(done.stderr.split())


def test_one_that_became_too_old_meanwhile(world: Any) -> None:
    machine = world(GAVE_UP, FAILED)
    machine.refuses = ClientError({"Error": {"Code": "ExecutionNotRedrivable"}}, "RedriveExecution")
    run("retry", RUN_ID)
    assert [name for name, _ in machine.said] == [f"{RUN_ID}-c01"]


def test_a_run_that_runs_or_is_done_is_not_retried(world: Any) -> None:
    machine = world(watched.run(), Execution(ARN, "RUNNING"))
    assert "is running: nothing to retry" in refused("retry", RUN_ID).what
    world(watched.run(status=RunStatus.STOPPED), Execution(ARN, "RUNNING"))
    assert "is about to go on: nothing to retry" in refused("retry", RUN_ID).what
    world(watched.run(status=RunStatus.DONE, final_step=9), Execution(ARN, "SUCCEEDED"))
    assert "is done at step 9: nothing to retry" in refused("retry", RUN_ID).what
    world(None, None)
    assert refused("retry", RUN_ID).code == 3
    assert machine.said == []


def test_an_adopted_run_is_redriven_but_has_no_spec_to_start_from(world: Any) -> None:
    adopted = Adopted(job="theirs", arn="arn", created_epoch=0.0, request={})
    machine = world(watched.run(status=RunStatus.GAVE_UP, adopted=adopted), FAILED)
    run("retry", RUN_ID)
    assert machine.said == [("redrive", ARN)]
    assert "took over job theirs" in refused("retry", RUN_ID, "--new").what
    assert "no spec of its own" in refused("clone", RUN_ID, "new").what


def test_a_name_without_end_is_said(world: Any) -> None:
    machine = world(GAVE_UP, FAILED)
    machine.burnt = {f"{RUN_ID}-c{n:02d}" for n in range(1, 30)}
    assert "no name left" in refused("retry", RUN_ID, "--new").what


@pytest.fixture
def committed(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [CheckpointName(step=s, launch=n) for s, n in ((40, 1), (80, 1), (80, 2), (120, 2))]
    objects = SimpleNamespace(steps=lambda _: known, committed=lambda uri: "120" not in uri)
    monkeypatch.setattr(branch, "Checkpoints", lambda _: objects)


@pytest.mark.usefixtures("committed")
def test_resume_begins_a_new_run_at_the_newest_checkpoint_of_a_step(world: Any) -> None:
    machine = world(GAVE_UP, FAILED)
    done = run("resume", RUN_ID, "--from", "80", "--set", "train.lr=0.0001")
    ((name, given),) = machine.said
    assert name == f"{RUN_ID}-from-80"
    assert given["start"] == {"checkpoint": f"{RUN_ID}/step-00000080.00002"}
    assert given["train"] == {"lr": 0.0001}
    assert f"run {RUN_ID} stays as it is" in " ".join(done.stderr.split())


@pytest.mark.usefixtures("committed")
def test_a_step_without_a_committed_checkpoint_is_refused_with_those_there_are(world: Any) -> None:
    machine = world(GAVE_UP, FAILED)
    error = refused("resume", RUN_ID, "--from", "79")
    assert (error.code, "of step 79" in error.what) == (3, True)
    assert "40, 80, 120" in error.hint
    assert "is not whole" in refused("resume", RUN_ID, "--from", "120").what
    assert machine.said == []


@pytest.mark.usefixtures("committed")
def test_a_long_run_id_leaves_room_for_the_step(world: Any) -> None:
    long = watched.run().model_copy(update={"run_id": "a" * 40})
    machine = world(long, FAILED)
    run("resume", "a" * 40, "--from", "80")
    assert machine.said[0][0] == "a" * 32 + "-from-80"


def test_a_clone_has_the_spec_and_another_name(world: Any) -> None:
    machine = world(GAVE_UP, FAILED)
    run("clone", RUN_ID, "second", "--set", "stop.steps=10")
    assert machine.said == [("second", SPEC | {"stop": {"steps": 10}})]
    machine.burnt = {"third"}
    assert "was used before" in refused("clone", RUN_ID, "third").what
    assert "name of a continuation" in refused("clone", RUN_ID, "second-c01").what
    assert "is not a run id" in refused("clone", RUN_ID, "under_score").what


def test_stop_says_what_the_bucket_holds_and_the_table_does_not_know_yet(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table learns of a launch's checkpoints when the launch has ended."""
    monkeypatch.setattr(Cloud, "launches", lambda *_: [watched.launch(1)])
    world(watched.run(), Execution(ARN, "RUNNING"))
    assert "nothing is committed" in run("stop", RUN_ID).stderr
    asked: list[str] = []

    def steps(uri: str) -> list[CheckpointName]:
        asked.append(uri)
        return [CheckpointName(step=s, launch=1) for s in (40, 80)]

    monkeypatch.setattr(saved, "Checkpoints", lambda _: SimpleNamespace(steps=steps))
    assert json.loads(run("stop", RUN_ID, "--json").stdout)["committed_step"] == 80
    assert asked == [f"s3://checkpoints/research/{RUN_ID}"]

    def denied(_: str) -> list[CheckpointName]:
        raise ClientError({"Error": {"Code": "AccessDenied"}}, "ListObjectsV2")

    monkeypatch.setattr(saved, "Checkpoints", lambda _: SimpleNamespace(steps=denied))
    assert "nothing is committed" in run("stop", RUN_ID).stderr


def test_a_run_whose_spec_is_not_read_yet_is_stopped_too(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in the seconds after its start: it must not begin after all."""
    machine = world(None, None)
    begun = Execution(ARN, "RUNNING")
    monkeypatch.setattr("everstep.cli.executions.find", lambda *_: begun)
    found = json.loads(run("stop", RUN_ID, "--json").stdout)
    assert (found["stopping"], found["committed_step"]) == (True, 0)
    assert machine.said == [("stop", ARN)]
    refused_one = begun._replace(status="FAILED")
    monkeypatch.setattr("everstep.cli.executions.find", lambda *_: refused_one)
    assert json.loads(run("stop", RUN_ID, "--json").stdout)["status"] == "refused"
    monkeypatch.setattr("everstep.cli.executions.find", lambda *_: None)
    error = refused("stop", RUN_ID)
    assert (error.code, f"everstep watch {RUN_ID}" in error.hint) == (3, True)
    assert len(machine.said) == 1


def test_stop_twice_is_once_and_says_what_stays(world: Any) -> None:
    machine = world(watched.run(), Execution(ARN, "RUNNING"))
    said = " ".join(run("stop", RUN_ID).stderr.split())
    assert "is being stopped" in said
    assert "the checkpoint of step 51000 stays" in said
    world(watched.run(status=RunStatus.STOPPED), Execution(ARN, "ABORTED"))
    again = json.loads(run("stop", RUN_ID, "--json").stdout)
    assert (again["stopping"], again["status"], again["committed_step"]) == (
        False,
        "stopped",
        51000,
    )
    assert machine.said == [("stop", ARN)]
    assert retry.GONE.running is False
    assert runs.REFUSED in runs.STATES
