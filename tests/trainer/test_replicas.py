"""One flipped bit on one copy of the weights: named, undone, and in no checkpoint."""

from pathlib import Path

import pytest

from tests.trainer.forked import run_ranks
from tests.trainer.harness import Launch, losses, of_kind, weights
from trainer.replicas import odd_ones, peers

RUN = {
    "parallelism__sharding": "NO_SHARD",
    "checkpoint__every_steps": 3,
    "guard__replica_every": 100,
    "stop__steps": 9,
}


def test_a_flipped_bit_is_named_and_undone(launch: Launch, dataset: Path, tmp_path: Path) -> None:
    """Between the comparisons, and before the checkpoint that would have kept it."""
    flip = {"SABOTAGE": "flip", "SABOTAGE_AT": "5", "SABOTAGE_RANK": "1"}
    job = launch("flipped", program="tests.chaos.sabotage", environment=flip, **RUN)
    assert job.wait() == 0, job.text
    (restart,) = of_kind(job.lines, "restart")
    assert restart["error"] == "ReplicaError"
    assert "ranks 0, 1 are not those of their copies" in restart["cause"]
    assert restart["committed"] in (0, 3)  # the save of step 3 is written beside the steps
    whole = run_ranks(tmp_path / "whole", dataset, **RUN)
    assert not of_kind(whole.lines, "restart")
    ours, theirs = (weights(tmp_path / n / "checkpoints") for n in ("flipped", "whole"))
    assert ours["weights_sha256"] == theirs["weights_sha256"]
    assert losses(job.lines) == losses(whole.lines)


def test_peers_hold_the_same_parts() -> None:
    assert peers(["a", "b", "a", "b"]) == [[0, 2], [1, 3]]
    assert peers(["a", "b"]) == []


@pytest.mark.parametrize(
    ("hashes", "odd"),
    [("xxxx", []), ("xxyx", [2]), ("xyzx", [0, 1, 2, 3]), ("xxyy", [0, 1, 2, 3])],
)
def test_the_odd_one_where_most_agree(hashes: str, odd: list[int]) -> None:
    assert odd_ones([0, 1, 2, 3], hashes) == odd
