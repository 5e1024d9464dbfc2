"""The estimate while a run goes on, against the count of its steps."""

import pytest

from everstep.contracts.records import Launch, Outcome
from everstep.policy.cost import Spend, cost_of, spend_of
from everstep.policy.goodput import StepTime, goodput, so_far
from tests.policy.test_job_request import EXECUTION

NODES, GPUS, SECONDS = 2, 8, 30.0


def launch(number: int, **more: object) -> Launch:
    return Launch.model_validate(
        {
            "run_id": "r",
            "launch": number,
            "job_name": f"r-{number:05d}",
            "execution_arn": EXECUTION,
            "instance_type": "ml.p5.48xlarge",
            "nodes": NODES,
            "planned_epoch": 0.0,
            **more,
        }
    )


@pytest.mark.parametrize("start", [0, 400])
def test_at_an_even_pace_the_estimate_is_the_count(start: int) -> None:
    """100 steps, 20 of them lost and done again, and a start of 600 s for each job."""
    first = launch(1, outcome=Outcome(
        status="Failed", secondary_status="Failed", billable_seconds=600 + 100 * 30
    ))  # fmt: skip
    second = launch(2, last_step=start + 150, step_times=[SECONDS] * 21)
    ran = 600 + 70 * SECONDS
    spend = spend_of([first], {}).plus(cost_of(second, ran, {}))
    assert spend.gpu_hours == pytest.approx(NODES * GPUS * (3600 + ran) / 3600)
    told = so_far(second, start, spend)
    ended = second.model_copy(
        update={
            "outcome": Outcome(
                status="Completed", secondary_status="Completed", billable_seconds=int(ran)
            )
        }
    )
    steps = {
        number: [StepTime(step=start + n, seconds=SECONDS) for n in range(begin, last + 1)]
        for number, begin, last in ((1, 1, 100), (2, 81, 150))
    }
    assert told == pytest.approx(goodput([first, ended], steps, now=0.0).ratio)


def test_a_larger_job_than_before_counts_its_own_machines() -> None:
    """Half the steps' time on twice the hosts is as much useful GPU time."""
    small = so_far(launch(1, last_step=10, step_times=[60.0], nodes=1), 0, Spend(gpu_hours=8))
    large = so_far(launch(2, last_step=10, step_times=[30.0], nodes=2), 0, Spend(gpu_hours=8))
    assert small == large == pytest.approx(10 / 60)


@pytest.mark.parametrize(
    ("row", "hours"),
    [
        ({"step_times": [1.0]}, 1.0),
        ({"last_step": 5}, 1.0),
        ({"last_step": 5, "step_times": [1.0]}, 0.0),
    ],
)
def test_nothing_is_estimated_from_nothing(row: dict[str, object], hours: float) -> None:
    assert so_far(launch(1, **row), 0, Spend(gpu_hours=hours)) is None


def test_never_more_than_all_and_never_less_than_nothing() -> None:
    slow_at_last = launch(1, last_step=10, step_times=[3600.0] * 3)
    assert so_far(slow_at_last, 0, Spend(gpu_hours=1)) == 1
    assert so_far(slow_at_last, 20, Spend(gpu_hours=1)) == 0


def test_a_spot_jobs_saving_is_no_goodput() -> None:
    """SageMaker bills fewer seconds than the hosts were there: three of ten here."""
    spot = Outcome(
        status="Completed",
        secondary_status="Completed",
        started_epoch=1000.0,
        ended_epoch=2000.0,
        billable_seconds=300,
    )
    steps = {1: [StepTime(step=n, seconds=SECONDS) for n in range(1, 31)]}
    found = goodput([launch(1, outcome=spot)], steps, now=0.0)
    assert (found.paid_seconds, found.ratio) == (1000.0, pytest.approx(0.9))


def test_steps_that_claim_more_time_than_there_was_tell_no_goodput() -> None:
    ran = Outcome(status="Completed", secondary_status="Completed", billable_seconds=60)
    milliseconds = {1: [StepTime(step=1, seconds=30_000.0)]}
    assert goodput([launch(1, outcome=ran)], milliseconds, now=0.0).ratio is None
