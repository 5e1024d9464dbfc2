"""The slow rank is named, by time of its own: wall times of a step are alike on all ranks."""

import pytest

from tests.trainer.harness import Launch, of_kind
from trainer.straggler import slowest

QUICK = {
    "model__dim": 64,
    "train__sequence_length": 64,
    "checkpoint__every_steps": 1000,
    "guard__straggler_every": 5,
    "stop__steps": 15,
}


@pytest.mark.parametrize("kind", ["slow_sleep", "slow_work", "slow_data"])
def test_the_slow_rank_is_named(launch: Launch, kind: str) -> None:
    """0.2 s a step on rank 1: the ranks' steps take the same wall time, their own times do not."""
    slow = {"SABOTAGE": kind, "SABOTAGE_RANK": "1"}
    job = launch("slow", program="tests.chaos.sabotage", environment=slow, **QUICK)
    assert job.wait() == 0, job.text
    reports = of_kind(job.lines, "straggler")
    assert len(reports) == 3
    longest = max(s["step_seconds"] + s["data_seconds"] for s in of_kind(job.lines, "step"))
    for report in reports:
        assert report["rank"] == 1
        assert 0.2 <= report["own_seconds"] <= longest
        # rank 0 waits 0.2 s in collectives: with those it would be as slow, and the ratio 1;
        # on a loaded machine both need longer, so the ratio falls
        assert report["ratio"] > 1.2


def test_even_ranks_have_a_report_below_any_threshold(launch: Launch) -> None:
    """So that a straggler's reports can end. One rank alone has nobody to be slower than."""
    job = launch("even", **QUICK)
    assert job.wait() == 0, job.text
    reports = of_kind(job.lines, "straggler")
    assert len(reports) == 3
    assert all(report["ratio"] >= 1 for report in reports)
    one = launch("one", ranks=1, **QUICK)
    assert one.wait() == 0, one.text
    assert not of_kind(one.lines, "straggler")


def test_slowest() -> None:
    assert slowest([1.0, 3.0]) == (1, 3.0)
    assert slowest([2.0, 1.0, 1.0, 1.0]) == (0, 2.0)
    assert slowest([1.0, 1.0]) == (0, 1.0)
