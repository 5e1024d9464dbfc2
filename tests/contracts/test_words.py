"""Records, progress lines, names and events: what is written is what is read."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from everstep.contracts import schema
from everstep.contracts.check import check_spec
from everstep.contracts.env import ControlEnv, TrainerEnv
from everstep.contracts.events import TERMINAL_JOB_STATUSES, JobEvent
from everstep.contracts.failures import (
    Action,
    Decision,
    DecisionKind,
    Failure,
    FailureClass,
    StopReason,
)
from everstep.contracts.hyperparameters import from_hyperparameters, to_hyperparameters
from everstep.contracts.manifest import CheckpointName
from everstep.contracts.names import construct_id, handler_folder
from everstep.contracts.payloads import HANDLER_STATES, State, Step, Team
from everstep.contracts.progress import Phase, format_line, metric_definitions, parse_line
from everstep.contracts.records import (
    Launch,
    Outcome,
    Run,
    Waiting,
    encode,
    export_item,
    export_job_name,
    from_item,
    job_name,
    job_row,
    launch_item,
    parse_job_name,
    to_item,
)
from everstep.contracts.run_id import problem_of_run_id, run_id_of
from everstep.contracts.run_spec import RunSpec
from tests.contracts.test_check import SMALLEST, spec

TEAM = Team(
    name="research",
    job_role_arn="arn:aws:iam::111122223333:role/job",
    data_uri="s3://d/r",
    checkpoint_uri="s3://c/r",
    output_uri="s3://o/r",
    image_repository="1.dkr/everstep",
)
texts = st.text(max_size=20)
times = st.floats(0, 4e9)
maybe_times = st.none() | times

launches = st.builds(
    Launch,
    run_id=st.just("run"),
    launch=st.integers(1, 99999),
    job_name=texts,
    execution_arn=texts,
    target=st.integers(0, 15),
    subnet=st.none() | texts,
    instance_type=texts,
    nodes=st.integers(1, 5000),
    resume_checkpoint=st.none() | texts,
    planned_epoch=times,
    task_token=st.none() | texts,
    created=st.booleans(),
    phase=st.none() | st.sampled_from(Phase),
    phase_since_epoch=maybe_times,
    last_step=st.none() | st.integers(0),
    progress_epoch=maybe_times,
    stop_reason=st.none() | st.sampled_from(StopReason),
    stop_detail=st.none() | texts,
    outcome=st.none()
    | st.builds(
        Outcome,
        status=texts,
        secondary_status=texts,
        failure_reason=texts,
        transitions=st.lists(texts, max_size=3),
        started_epoch=maybe_times,
        billable_seconds=st.integers(0),
        training_seconds=st.none() | st.integers(1),
    ),
    failure=st.none()
    | st.builds(
        Failure,
        failure_class=st.sampled_from(FailureClass),
        action=st.sampled_from(Action),
        cause=texts,
        rule=texts,
        rank=st.none() | st.integers(0),
        hint=texts,
    ),
    decision=st.none()
    | st.builds(
        Decision,
        kind=st.sampled_from(DecisionKind),
        reason=texts,
        wait_seconds=st.integers(0),
        spends_attempt=st.booleans(),
    ),
)


def a_run(**changes: object) -> Run:
    fields = {
        "run_id": "run",
        "execution_arn": "arn",
        "team": TEAM,
        "created_epoch": 1.5,
        "spec": RunSpec.model_validate(SMALLEST),
        **changes,
    }
    return Run.model_validate(fields)


# --- records -----------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(launches)
def test_a_launch_comes_back_as_it_was_written(launch: Launch) -> None:
    assert from_item(Launch, to_item(launch)) == launch


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"trainer": {"environment": {"A": "ü=“x”"}}, "tags": {"team": "a b"}},
        {
            "compute": [
                {"instance_type": "ml.p5.48xlarge", "nodes": 4},
                {"instance_type": "ml.m5.large"},
            ],
            "train": {"lr": 1e-5},
            "budget": {"max_gpu_hours": 3},
        },
    ],
)
def test_a_run_comes_back_as_it_was_written(more: dict[str, object]) -> None:
    waiting = Waiting(reason="r", task_token="t", since_epoch=2.25, step={"run_id": "run", "n": 1})
    run = a_run(spec=RunSpec.model_validate(spec(**more)), waiting=waiting)
    assert from_item(Run, to_item(run)) == run


def test_keys_of_an_index_do_not_disturb_a_record() -> None:
    run = a_run()
    assert from_item(Run, {**to_item(run), "active": "waiting", "item": "run"}) == run


def test_an_encoded_field_equals_itself_after_a_round_trip_so_conditions_hold() -> None:
    waiting = Waiting(
        reason="r",
        task_token="t",
        since_epoch=1e9 / 3,
        step=Step(run_id="run", execution_arn="a").to(State.PLAN_ATTEMPT),
    )
    run = a_run(waiting=waiting)
    again = from_item(Run, to_item(run))
    assert encode(again, {"waiting"}) == encode(run, {"waiting"})


# --- progress ----------------------------------------------------------------------------------


def test_a_line_is_parsed_as_it_was_formatted() -> None:
    line = parse_line(format_line("step", step=12, loss=2.5, lr=1e-4))
    assert line is not None
    assert (line.everstep, line.step, line.loss) == ("step", 12, 2.5)
    assert line.model_extra == {"lr": 1e-4}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "step 12",
        '{"step":12}',
        '{"everstep"',
        '{"everstep":"step","step":"x"}',
        '{"everstep":3}',
        '{"everstep":"phase","phase":"dancing"}',
        '{"everstep":"step","step":1',
        'the line {"everstep" is ours',
    ],
)
def test_log_text_is_no_progress(text: str) -> None:
    assert parse_line(text) is None


def test_what_stands_before_and_behind_a_line_does_not_hide_it() -> None:
    whole = format_line("step", step=7)
    for text in (f"[rank0]: {whole}", f"{whole} trailing", whole + whole, f"{whole}\r\n"):
        line = parse_line(text)
        assert line is not None, text
        assert line.step == 7


def test_a_loss_that_is_no_number_is_still_a_line() -> None:
    line = parse_line(format_line("step", step=3, loss=float("nan")))
    assert line is not None
    assert line.step == 3


def _metrics(text: str) -> dict[str, str]:
    found = {}
    for definition in metric_definitions():
        match = re.search(definition["Regex"], text)
        if match:
            found[definition["Name"]] = match[1]
    return found


def test_metrics_read_exactly_the_figures_of_a_step_line() -> None:
    figures = {
        "step": 12,
        "loss": 5.1023,
        "tokens_per_s": 8123.4,
        "step_seconds": 0.000012,
        "grad_norm": 1.5e-07,
        "lr": 3e-4,
        "tokens": 99,
    }
    found = _metrics(format_line("step", **figures))
    assert {k: float(v) for k, v in found.items()} == {
        f"everstep:{k}": float(v) for k, v in figures.items() if k != "tokens"
    }


def test_metrics_read_a_foreign_trainers_spaces_too() -> None:
    found = _metrics(json.dumps({"everstep": "step", "step": 3, "loss": -0.5}))
    assert found == {"everstep:step": "3", "everstep:loss": "-0.5"}


def test_metrics_do_not_read_other_lines_or_look_alike_names() -> None:
    assert _metrics(format_line("phase", phase="save", step=12)) == {}
    assert "everstep:loss" not in _metrics(format_line("step", step=1, val_loss=2.0))
    assert "everstep:loss" not in _metrics(format_line("step", step=1, loss=float("nan")))


def test_metric_definitions_keep_sagemakers_limits() -> None:
    definitions = metric_definitions()
    assert len(definitions) <= 40
    assert all(len(d["Regex"]) <= 500 for d in definitions)


# --- names -------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**8 - 1), st.integers(0, 99999)), min_size=2))
def test_checkpoints_order_by_step_then_launch_in_text_as_in_number(
    pairs: list[tuple[int, int]],
) -> None:
    names = [CheckpointName(step=s, launch=n) for s, n in pairs]
    by_order = sorted(names, key=lambda n: n.order)
    assert [str(n) for n in by_order] == sorted(str(n) for n in names)
    assert [CheckpointName.parse(str(n)) for n in names] == names


@pytest.mark.parametrize(
    "text",
    [
        "",
        "step-1.2",
        "step-00000001.00002x",
        "xstep-00000001.00002",
        "step-00000001.00002\n",
        "manifest.json",
        "step-00000001",
        "step-٠٠٠٠٠٠٠١.٠٠٠٠٢",
    ],
)
def test_other_folders_are_no_checkpoints(text: str) -> None:
    assert CheckpointName.parse(text) is None


def test_a_checkpoints_folder_is_found_in_a_whole_prefix() -> None:
    name = CheckpointName.parse("team/run/step-00000120.00002/")
    assert name == CheckpointName(step=120, launch=2)


def test_job_names_tell_the_run_and_the_launch() -> None:
    assert parse_job_name(job_name("a-b", 3)) == ("a-b", 3)
    assert parse_job_name(job_name("a-00001", 12)) == ("a-00001", 12)
    for other in ("", "00001", "-00001", "run", "run-1", "run-000001x", "run-0001"):
        assert parse_job_name(other) is None, other


@pytest.mark.parametrize("run_id", ["a-b", "a-export", "a-export-01", "a" * 40])
def test_an_exports_job_is_never_taken_for_a_launchs(run_id: str) -> None:
    for number in (1, 99, 100, 9999):
        name = export_job_name(run_id, number)
        assert len(name) <= 63
        assert parse_job_name(name) is None
        assert job_row(name) == (run_id, export_item(number))
    assert job_row(job_name(run_id, 12)) == (run_id, launch_item(12))


@pytest.mark.parametrize("name", ["", "run", "-export-01", "run-export-1", "run-export-1x"])
def test_other_jobs_have_no_row(name: str) -> None:
    assert job_row(name) is None


@pytest.mark.parametrize("name", ["a", "a-b", "A1--b", "a" * 40, "x-c02", "a" * 40 + "-c02"])
def test_good_run_ids(name: str) -> None:
    assert problem_of_run_id(name) == []
    assert len(job_name(run_id_of(name), 99999)) <= 63


@pytest.mark.parametrize("name", ["", "-a", "a-", "a_b", "a" * 41, "a b", "a\n", "é", "-c01"])
def test_bad_run_ids(name: str) -> None:
    assert [p.path for p in problem_of_run_id(name)] == ["execution name"]


def test_a_continuation_has_the_run_id_of_its_run() -> None:
    assert run_id_of("llama-c02") == "llama"
    assert run_id_of("llama-c2") == "llama-c2"
    assert run_id_of("llama") == "llama"


def test_states_constructs_and_folders_share_one_spelling() -> None:
    for state in HANDLER_STATES:
        assert construct_id(handler_folder(state)) == state


# --- the rest ------------------------------------------------------------------------------------


def test_hyperparameters_come_back_as_the_sections_they_were() -> None:
    found, _ = check_spec(
        spec(
            train={"lr": 1e-5, "seed": 3},
            checkpoint={"every_steps": 5},
            model={"preset": "tiny", "vocab_size": 2048},
        )
    )
    assert found is not None
    sections = from_hyperparameters(to_hyperparameters(found))
    assert (
        RunSpec.model_validate(
            {"compute": SMALLEST["compute"], **{k: v for k, v in sections.items() if v}}
        ).train
        == found.train
    )
    assert sections["checkpoint"] == {"every_steps": 5}
    assert sections["model"] == {"preset": "tiny", "vocab_size": 2048}


def test_environments_come_back_as_they_were() -> None:
    env = TrainerEnv(run_id="r", launch=3, checkpoint_uri="s3://c/r", output_uri="s3://o/r")
    assert TrainerEnv.parse(env.as_environment()) == env
    control = ControlEnv(table="t", topic_arn="a", prices_usd={"ml.m5.large": 0.1})
    assert ControlEnv.parse({"EVERSTEP_CONTROL": control.model_dump_json()}) == control


def test_a_payload_of_the_first_release_is_still_read() -> None:
    golden = (
        '{"schema_version":1,"run_id":"r","execution_arn":"a","launch":2,'
        '"heartbeat_seconds":300,"wait_seconds":0,"next":"PlanAttempt","message":null}'
    )
    step = Step.model_validate_json(golden)
    assert (step.launch, step.next) == (2, State.PLAN_ATTEMPT)


def test_an_event_with_an_unknown_status_is_read_and_is_not_terminal() -> None:
    # Typed from EventBridge's published sample, cut to the fields that matter and one that is new.
    event = JobEvent.model_validate_json("""{
        "version": "0", "id": "844e2571-85d4-695f-b930-0153b71dcb42",
        "detail-type": "SageMaker Training Job State Change", "source": "aws.sagemaker",
        "account": "123456789012", "time": "2018-10-06T12:26:13Z", "region": "us-east-1",
        "resources": ["arn:aws:sagemaker:us-east-1:123456789012:training-job/kmeans-1"],
        "detail": {"TrainingJobName": "89c96cc8-dded-4739-afcc-6f1dc936701d",
                   "TrainingJobStatus": "Dreaming", "SecondaryStatus": "Deep"}}""")
    assert event.detail.status not in TERMINAL_JOB_STATUSES


def test_the_schema_in_the_docs_is_current() -> None:
    assert schema.main(["--check"]) == 0


def test_the_schema_is_valid_and_takes_what_check_spec_takes() -> None:
    body = schema.schema()
    Draft202012Validator.check_schema(body)
    validator = Draft202012Validator(body)
    for good in (SMALLEST, spec(model={"preset": "tiny"}, data={"prefix": "a"})):
        assert list(validator.iter_errors(good)) == []
        assert check_spec(good)[0] is not None
    for bad in (spec(modle=1), spec(stop={"steps": 0}), spec(compute=[]), {}):
        assert list(validator.iter_errors(bad))


def test_a_field_of_the_schema_carries_its_docstring() -> None:
    fields = schema.schema()["$defs"]["Data"]["properties"]
    assert "index.json" in fields["prefix"]["description"]
