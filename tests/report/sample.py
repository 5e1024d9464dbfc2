"""A run with three failures, as its rows and step lines have it."""

from typing import Any

from everstep.contracts.failures import (
    Action,
    Decision,
    DecisionKind,
    Failure,
    FailureClass,
    Rung,
)
from everstep.contracts.payloads import Team
from everstep.contracts.records import Launch, Outcome, Run, RunStatus
from everstep.contracts.run_spec import RunSpec
from everstep.report.steps import StepLine

START = 1_790_000_000.0
EXECUTION = "arn:aws:states:us-east-1:123456789012:execution:everstep-dev-research:my-run"
TEAM = Team(
    name="research",
    job_role_arn="arn:aws:iam::123456789012:role/everstep-job",
    data_uri="s3://data/research",
    checkpoint_uri="s3://checkpoints/research",
    output_uri="s3://output/research",
    image_repository="123456789012.dkr.ecr.us-east-1.amazonaws.com/everstep-dev",
)
SPEC: dict[str, Any] = {
    "model": "llama2-7b",
    "data": "datasets/corpus",
    "compute": [{"instance_type": "ml.p5.48xlarge", "nodes": 4}],
    "train": {"sequence_length": 4096, "global_batch": 64},
    "stop": {"steps": 400},
}
STEP = 10.0
TOKENS = 4096 * 64
PRICES = {"ml.p5.48xlarge": 60.0}


def run(status: RunStatus = RunStatus.DONE, run_id: str = "my-run", **more: Any) -> Run:
    fields = {"final_step": 400} if status is RunStatus.DONE else {}
    return Run(
        run_id=run_id,
        execution_arn=EXECUTION,
        team=TEAM,
        spec=RunSpec.model_validate(SPEC),
        status=status,
        created_epoch=START,
        **{**fields, **more},
    )


def failure(kind: FailureClass, cause: str, **more: Any) -> Failure:
    return Failure(failure_class=kind, action=Action.RETRY_SAME, cause=cause, rule="test", **more)


def launch(
    number: int,
    planned: float,
    ended: float,
    resume: int,
    why: Failure | None = None,
    kind: DecisionKind = DecisionKind.RETRY,
    wait: int = 30,
    **more: Any,
) -> Launch:
    """``planned`` and ``ended`` in seconds since the run was accepted."""
    outcome = Outcome(
        status="Failed" if why else "Completed",
        secondary_status="Failed" if why else "Completed",
        started_epoch=START + planned + 60,
        ended_epoch=START + ended,
        billable_seconds=int(ended - planned - 60),
    )
    return Launch(
        run_id="my-run",
        launch=number,
        job_name=f"my-run-{number:05d}",
        execution_arn=EXECUTION,
        instance_type="ml.p5.48xlarge",
        nodes=4,
        resume_step=resume,
        planned_epoch=START + planned,
        settled_epoch=START + ended + 5,
        training_epoch=START + planned + 90,
        rung=Rung.WARM_HOSTS if number > 1 else None,
        created=True,
        outcome=outcome,
        failure=why,
        decision=Decision(kind=kind, reason=f"{why.failure_class}: try again", wait_seconds=wait)
        if why
        else None,
        **more,
    )


def steps(begin: float, first: int, last: int, save_every: int = 50) -> list[StepLine]:
    """Steps of ``STEP`` seconds, one after the other, each ``save_every``-th with a save."""
    found, at = [], START + begin
    for step in range(first, last + 1):
        save = 2.0 if step % save_every == 1 and step > first else 0.0
        at += STEP + save
        found.append(
            StepLine(
                time_epoch=at,
                step=step,
                seconds=STEP,
                save_seconds=save,
                loss=10.0 / (1 + 0.02 * step) + 0.05 * (step % 7),
                tokens=step * TOKENS,
                tokens_per_s=TOKENS / STEP,
                mfu=0.41,
            )
        )
    return found


HOST = failure(
    FailureClass.INFRASTRUCTURE,
    "InternalServerError: host algo-3 was lost (Xid 79: GPU has fallen off the bus)",
    rank=17,
    step=131,
)
HANG = failure(FailureClass.HANG, "no step for 600 s while step 241 was computed", step=240)
ROOM = failure(FailureClass.CAPACITY, "CapacityError: Unable to provision requested ML compute")


def three_failures() -> tuple[list[Launch], dict[int, list[StepLine]]]:
    """Lost a host at step 131, hung at 240, found no room, arrived at 400."""
    lines = {
        1: steps(300, 1, 130),
        2: steps(2000, 101, 240),
        4: steps(8000, 201, 400),
    }
    launches = [
        launch(1, 60, 1700, 0, HOST, committed_step=100),
        launch(2, 1780, 4100, 100, HANG, committed_step=200),
        launch(3, 4150, 4300, 200, ROOM, kind=DecisionKind.WAIT, wait=3400),
        launch(4, 7705, 10100, 200),
    ]
    return launches, lines
