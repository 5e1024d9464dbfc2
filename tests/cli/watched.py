"""Runs in the moments that ``everstep watch`` shows: rows as the handlers write them."""

from typing import Any

from everstep.cli.watch_model import Picture, Reading, picture
from everstep.contracts.check import check_spec
from everstep.contracts.failures import (
    Action,
    Decision,
    DecisionKind,
    Failure,
    FailureClass,
)
from everstep.contracts.payloads import Team
from everstep.contracts.progress import Phase
from everstep.contracts.records import Launch, Outcome, Run, RunStatus, Waiting, job_name

NOW = 1_796_000_000.0
RUN_ID = "llama2-70b-night"
TYPE = "ml.p5.48xlarge"
SPEC: dict[str, Any] = {
    "model": "llama2-70b",
    "data": "datasets/corpus",
    "compute": [{"instance_type": TYPE, "nodes": 16}],
    "stop": {"steps": 250_000},
    "budget": {"max_usd": 200_000, "max_gpu_hours": 50_000},
}
TEAM = Team(
    name="research",
    job_role_arn="arn:aws:iam::123456789012:role/job",
    data_uri="s3://data/research",
    checkpoint_uri="s3://checkpoints/research",
    output_uri="s3://output/research",
    image_repository="1.dkr/everstep",
)


def run(**more: Any) -> Run:
    spec, problems = check_spec(SPEC)
    assert spec is not None, problems
    arn = f"arn:aws:states:us-east-1:123456789012:execution:everstep-dev-research:{RUN_ID}"
    given = {"created_epoch": NOW - 90_000, "spec": spec, "team": TEAM, "execution_arn": arn}
    return Run(run_id=RUN_ID, **{**given, **more})


def launch(number: int, **more: Any) -> Launch:
    given: dict[str, Any] = {
        "instance_type": TYPE,
        "nodes": 16,
        "planned_epoch": NOW - 40_000 + 10_000 * number,
    }
    return Launch(
        run_id=RUN_ID,
        launch=number,
        job_name=job_name(RUN_ID, number),
        execution_arn="arn",
        **{**given, **more},
    )


def failed(number: int, decision: Decision | None, **more: Any) -> Launch:
    failure = Failure(
        failure_class=FailureClass.INFRASTRUCTURE,
        action=Action.RETRY_REPLACE_NODE,
        cause="NVRM: Xid (PCI:0000:5e:00): 79, GPU has fallen off the bus.",
        rule="xid-host",
        rank=77,
    )
    outcome = Outcome(
        status="Failed",
        secondary_status="Failed",
        ended_epoch=NOW - 60,
        billable_seconds=36_000,
    )
    given: dict[str, Any] = {
        "failure": failure,
        "outcome": outcome,
        "decision": decision,
        "settled_epoch": NOW - 30,
        "last_step": 51_200,
        "committed_step": 51_000,
    }
    return launch(number, **{**given, **more})


RETRY = Decision(kind=DecisionKind.RETRY, reason="infrastructure: resume from the last checkpoint")
LATER = RETRY.model_copy(update={"wait_seconds": 120})
OVER = Decision(kind=DecisionKind.GIVE_UP, reason="20 attempts of 20 are spent")


def readings(first: int, last: int, began: float = NOW - 1000) -> list[Reading]:
    return [
        Reading(began + 2.0 * (n - first), n, 2.0 + 300 / n, 181_234.5, 0.412)
        for n in range(first, last + 1)
    ]


def shown(
    row: Run, launches: list[Launch], lines: list[Reading] | None = None, **more: Any
) -> Picture:
    given: dict[str, Any] = {"execution": "RUNNING", "prices_usd": {TYPE: 60.0}, "now": NOW}
    return picture(row, launches, [], lines or [], **{**given, **more})


def steps() -> Picture:
    """In the middle of the second launch."""
    running = launch(
        2,
        created=True,
        resume_step=51_000,
        phase=Phase.STEP,
        phase_since_epoch=NOW - 1,
        started_epoch=NOW - 1500,
        max_runtime_seconds=432_000,
        planned_epoch=NOW - 2000,
    )
    return shown(run(), [failed(1, RETRY), running], readings(51_001, 51_500))


def backs_off() -> Picture:
    return shown(run(), [failed(1, LATER)], readings(51_001, 51_200, NOW - 29_900))


def waits() -> Picture:
    waiting = Waiting(
        reason="needs 16 of quota 'ml.p5.48xlarge for training job usage': 8 of 16 are in use",
        task_token="t",
        since_epoch=NOW - 7200,
        step={},
    )
    return shown(run(status=RunStatus.WAITING, waiting=waiting), [])


def gave_up() -> Picture:
    note = f"gave up, infrastructure: {failed(1, OVER).failure.cause}"  # type: ignore[union-attr]
    note += "\nhint: look at the hosts\nrunbook: docs/runbook.md#infrastructure"
    launches = [failed(n, RETRY) for n in range(1, 20)] + [failed(20, OVER)]
    return shown(run(status=RunStatus.GAVE_UP, note=note), launches, execution="FAILED")


def done() -> Picture:
    last = launch(
        2,
        resume_step=51_000,
        last_step=250_000,
        committed_step=250_000,
        outcome=Outcome(
            status="Completed",
            secondary_status="Completed",
            ended_epoch=NOW - 60,
            billable_seconds=400_000,
        ),
    )
    finished = run(status=RunStatus.DONE, final_step=250_000)
    return shown(finished, [failed(1, RETRY), last], execution="SUCCEEDED")


def cut_off() -> Picture:
    return steps().model_copy(
        update={"trouble": "no answer since 00:53:20 UTC, what is shown is of then; still asked"}
    )


MOMENTS = {f.__name__: f for f in (steps, backs_off, waits, gave_up, done, cut_off)}
