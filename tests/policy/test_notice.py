"""The texts that people get, whole: a change of words is a change of a golden file.

``UPDATE_GOLDEN=1 pytest tests/policy/test_notice.py`` writes them anew; read the diff.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from everstep.contracts.failures import (
    Action,
    Decision,
    DecisionKind,
    Failure,
    FailureClass,
)
from everstep.contracts.records import (
    ExportPlan,
    Launch,
    Outcome,
    OwnLustre,
    Run,
    export_job_name,
    job_name,
)
from everstep.policy.classify import STOP_REASONS
from everstep.policy.notice import HISTORY_LINES, Notice, hint_of, history, notice
from everstep.policy.rule import DEFAULTS
from tests.lambdas.world import EXECUTION, RUN, SPEC, TEAM

GOLDEN = Path(__file__).parent / "golden"
RUNBOOK = "https://example.com/runbook.md"
COMPLETED = Outcome(status="Completed", secondary_status="Completed", billable_seconds=7200)
FAILED = COMPLETED.model_copy(update={"status": "Failed", "secondary_status": "Failed"})
OOM = Failure(
    failure_class=FailureClass.OUT_OF_MEMORY_GPU,
    action=Action.DO_NOT_RETRY,
    cause="CUDA out of memory. Tried to allocate 2.00 GiB",
    rule="r",
    rank=3,
    step=120,
    hint="lower train.micro_batch",
)
LOST = Failure(
    failure_class=FailureClass.INFRASTRUCTURE,
    action=Action.RETRY_REPLACE_NODE,
    cause="InternalServerError: We encountered an internal error.",
    rule="r",
)


def run(**changes: Any) -> Run:
    return Run.model_validate(
        {
            "run_id": RUN,
            "execution_arn": EXECUTION,
            "team": TEAM,
            "spec": SPEC,
            "created_epoch": 0.0,
            **changes,
        }
    )


def launch(number: int, **changes: Any) -> Launch:
    return Launch(
        **{
            "run_id": RUN,
            "launch": number,
            "job_name": job_name(RUN, number),
            "execution_arn": EXECUTION,
            "instance_type": "ml.m5.large",
            "nodes": 2,
            "planned_epoch": 0.0,
            "outcome": FAILED,
            **changes,
        }
    )


def export(number: int, **changes: Any) -> Launch:
    uri = f"{TEAM.output_uri}/{RUN}/export/step-00000100.00002"
    plan = ExportPlan(
        checkpoint="step-00000100.00002", uri=uri, volume_gib=21, after_launch=2, first=1
    )
    return launch(
        number,
        **{
            "job_name": export_job_name(RUN, number),
            "instance_type": "ml.m5.2xlarge",
            "nodes": 1,
            "export": plan,
            **changes,
        },
    )


FIRST = launch(1, last_step=45, committed_step=40, failure=LOST)
SECOND = launch(2, resume_step=40, last_step=100, committed_step=100, outcome=COMPLETED)


def say(kind: Any, text: str, launches: list[Launch] | None, **more: Any) -> Notice:
    given = more.pop("run", None) or run()
    prices = {"ml.m5.large": 0.1, "ml.m5.2xlarge": 0.5}
    return notice(given, kind, text, launches, runbook_url=RUNBOOK, prices_usd=prices, **more)


def done() -> Notice:
    finished = run(
        final_step=100,
        export_uri=export(1).plan.uri,
        model_package_arn="arn:aws:sagemaker:us-east-1:123456789012:model-package/g/1",
    )
    jobs = [FIRST, SECOND, export(1, outcome=COMPLETED)]
    return say("done", "done at step 100 after 2 launches", jobs, run=finished)


def gave_up() -> Notice:
    last = launch(2, resume_step=40, last_step=44, committed_step=40, failure=OOM)
    reason = "out_of_memory_gpu is not cured by another attempt"
    return say("give_up", f"gave up: {reason}", [FIRST, last], failure=OOM)


def gave_up_on_the_export() -> Notice:
    failure = Failure(
        failure_class=FailureClass.EXPORT_FAILED,
        action=Action.DO_NOT_RETRY,
        cause="infrastructure: InternalServerError: We lost it. (tries spent: 1 of 1)",
        rule="export",
        hint="mend the cause; training is done and is not repeated",
    )
    jobs = [FIRST, SECOND, export(1, failure=LOST)]
    trained = run(final_step=100)
    return say("give_up", "gave up: training is done", jobs, run=trained, failure=failure)


def gave_up_before_any_launch() -> Notice:
    failure = Failure(
        failure_class=FailureClass.QUOTA,
        action=Action.DO_NOT_RETRY,
        cause="ml.m5.large for training job usage is 0, the run needs 2",
        rule="check-quota",
        hint="ask for an increase in Service Quotas",
    )
    return say("give_up", "gave up: no launch was made for it", [], failure=failure)


def tries_again() -> Notice:
    return say(
        "retry",
        "retry, in 12 s: infrastructure: resume from the last checkpoint",
        [FIRST.model_copy(update={"decision": Decision(kind=DecisionKind.RETRY, reason="r")})],
        failure=LOST,
    )


def waits() -> Notice:
    return say("wait", "waits: 2 of 4 instances are in use, the run needs 4", None)


ALL = [done, gave_up, gave_up_on_the_export, gave_up_before_any_launch, tries_again, waits]


@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_the_whole_text(make: Any) -> None:
    said = make()
    text = f"{said.subject}\n\n{said.body}\n"
    file = GOLDEN / f"notice-{make.__name__}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_a_subject_is_what_sns_takes_and_the_last_line_is_json(make: Any) -> None:
    said = make()
    assert len(said.subject) < 100
    assert said.subject.isascii()
    assert said.subject.isprintable()
    facts = json.loads(said.body.splitlines()[-1])
    assert facts["id"] == said.id


def test_the_longest_run_id_still_fits_a_subject() -> None:
    longest = run(run_id="r" * 40)
    for name in FailureClass:
        failure = LOST.model_copy(update={"failure_class": name})
        said = say("give_up", "x", [], run=longest, failure=failure)
        assert said.subject.endswith(f": {name}")
        assert f"{RUNBOOK}#{name}\n" in said.body


LIMITS = [
    ({"max_usd": 5}, "--set budget.max_usd=N"),
    ({"max_gpu_hours": 5}, "--set budget.max_gpu_hours=N"),
    ({"deadline": "2027-01-31T18:00:00Z"}, "--set budget.deadline=TIME"),
    (
        {"deadline": "2027-01-31T18:00:00Z", "max_gpu_hours": 5},
        "--set budget.max_gpu_hours=N, or --set budget.deadline=TIME",
    ),
]


def limited(budget: dict[str, Any]) -> Run:
    return run(spec={**SPEC, "budget": budget})


@pytest.mark.parametrize(("budget", "sets"), LIMITS)
def test_a_spent_budget_says_the_command_and_not_a_redrive(
    budget: dict[str, Any], sets: str
) -> None:
    hint = DEFAULTS[FailureClass.BUDGET][1]
    spent = OOM.model_copy(update={"failure_class": FailureClass.BUDGET, "hint": hint})
    body = say("give_up", "x", [FIRST], failure=spent, run=limited(budget)).body
    command = f"raise the limit that was met: everstep retry {RUN} {sets}"
    assert f"{command} (a Redrive" in body
    assert "goes on where this stopped" not in body
    assert f"{command}.\n" in say("budget", "x", None, run=limited(budget)).body


@pytest.mark.parametrize(("budget", "sets"), LIMITS)
def test_a_budget_that_another_failure_met_has_the_command_too(
    budget: dict[str, Any], sets: str
) -> None:
    """Decision.of changes the class and leaves the hint of the former one out."""
    met = LOST.model_copy(update={"failure_class": FailureClass.BUDGET, "hint": ""})
    assert hint_of(met, limited(budget)).endswith(f": everstep retry {RUN} {sets}")
    assert hint_of(LOST, limited(budget)) == ""


def test_what_is_no_limit_of_the_spec_is_not_raised_by_a_command() -> None:
    """A trainer may name the class, and so may a rule of the user's, which says what helps."""
    named = LOST.model_copy(update={"failure_class": FailureClass.BUDGET})
    assert hint_of(named, run()) == "raise the limit that was met"
    theirs = named.model_copy(update={"rule": "user:wandb", "hint": "pay the bill"})
    assert hint_of(theirs, limited({"max_usd": 5})) == "pay the bill"


@pytest.mark.parametrize("kind", ["wait", "budget"])
def test_what_nobody_read_is_not_said_to_have_cost_nothing(kind: Any) -> None:
    """The cost of a file system alone is not what the run has spent."""
    own = OwnLustre(since_epoch=0.0, file_system_id="fs-1", gib=2400, made_epoch=0.0)
    body = say(kind, "x", None, run=run(own_lustre=own), now=3600.0).body
    assert "Spent" not in body
    facts = json.loads(body.splitlines()[-1])
    assert [facts[name] for name in ("attempts", "gpu_hours", "usd")] == [None, None, None]
    assert "Spent: 0.00" in say("give_up", "x", [], run=run(own_lustre=own), now=3600.0).body


def test_no_hint_holds_a_field_that_nothing_fills_in() -> None:
    hints = [hint for _, hint in DEFAULTS.values()] + [hint for *_, hint in STOP_REASONS.values()]
    assert not [hint for hint in hints if "{" in hint or "cNN" in hint]


def test_the_same_decision_has_the_same_id_and_the_next_another() -> None:
    assert gave_up().id == gave_up().id
    ids = {make().id for make in ALL}
    assert len(ids) == len(ALL)
    redriven = run(redrive_count=1)
    assert say("give_up", "x", [FIRST], run=redriven).id != say("give_up", "x", [FIRST]).id


@pytest.mark.parametrize(
    ("partition", "region", "host"),
    [
        ("aws", "eu-west-1", "https://eu-west-1.console.aws.amazon.com/"),
        ("aws-cn", "cn-north-1", "https://cn-north-1.console.amazonaws.cn/"),
        ("aws-us-gov", "us-gov-west-1", "https://us-gov-west-1.console.amazonaws-us-gov.com/"),
    ],
)
def test_links_lead_to_the_partitions_own_console(partition: str, region: str, host: str) -> None:
    arn = f"arn:{partition}:states:{region}:123456789012:execution:m:my-run"
    body = say("done", "x", [FIRST], run=run(execution_arn=arn)).body
    assert f"Execution: {host}states/home?region={region}#/v2/executions/details/{arn}" in body
    assert f"Job: {host}sagemaker/home?region={region}#/jobs/{FIRST.job_name}" in body


def test_a_long_history_and_a_long_cause_fit_a_message() -> None:
    wordy = LOST.model_copy(update={"cause": "x" * 5000})
    many = [launch(number, failure=wordy) for number in range(1, 1000)]
    assert len(history(many)) == HISTORY_LINES + 1
    assert "… 959 more …" in history(many)[5]
    assert len(say("give_up", "x", many, failure=wordy).body.encode()) < 256 * 1024
