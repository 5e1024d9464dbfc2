"""NaN and spikes: back to the last checkpoint, the same batches skipped whatever happens."""

import json
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from everstep.contracts.env import FailureFile
from tests.trainer.forked import run_ranks
from tests.trainer.harness import Job, Launch, losses, of_kind, weights
from trainer.guard import Spikes
from trainer.skips import LEDGER, Skip, Skips

POISON = {"SABOTAGE": "poison", "SABOTAGE_AT": "8", "SABOTAGE_LAUNCHES": "9", "SABOTAGE_RANK": "1"}
RUN = {"stop__steps": 14}
BATCH = 8
SKIP = Skip(start=7 * BATCH, count=BATCH, step=8, reason="told to", checkpoint=6)


@pytest.fixture(scope="module")
def with_the_skip(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The run that nothing happens to, and that was told from its start what to skip."""
    base = tmp_path_factory.mktemp("skips")
    (base / "checkpoints").mkdir()
    (base / "checkpoints" / LEDGER).write_text(Skips(skipped=[SKIP]).model_dump_json())
    job = run_ranks(base, dataset, **RUN)
    other = run_ranks(tmp_path_factory.mktemp("plain"), dataset, **RUN)
    mine, whole = losses(job.lines), losses(other.lines)
    assert {s: v for s, v in mine.items() if s < 8} == {s: v for s, v in whole.items() if s < 8}
    assert mine[8] != whole[8], "nothing was skipped"
    return {"losses": mine, "weights": weights(base / "checkpoints")}


def _assert_same(jobs: list[Job], folder: Path, expected: dict[str, Any]) -> None:
    found: dict[int, float] = {}
    for job in jobs:
        found |= losses(job.lines)
    assert found == expected["losses"]
    ours = weights(folder / "checkpoints")
    assert ours["weights_sha256"] == expected["weights"]["weights_sha256"]
    assert ours["optimizer_sha256"] == expected["weights"]["optimizer_sha256"]
    assert (ours["step"], ours["final"]) == (14, True)


def test_a_poisoned_batch_is_skipped_and_nothing_else(
    launch: Launch, tmp_path: Path, with_the_skip: dict[str, Any]
) -> None:
    job = launch("nan", program="tests.chaos.sabotage", environment=POISON, **RUN)
    assert job.wait() == 0, job.text
    (rewind,) = of_kind(job.lines, "rewind")
    assert (rewind["start"], rewind["count"], rewind["checkpoint"]) == (7 * BATCH, BATCH, 6)
    (restart,) = of_kind(job.lines, "restart")
    assert restart["error"] == "Rewind"
    _assert_same([job], tmp_path / "nan", with_the_skip)


@pytest.mark.parametrize("moment", ["before the ledger", "after it"])
def test_killed_in_the_rewind_skips_the_same(
    launch: Launch, tmp_path: Path, with_the_skip: dict[str, Any], moment: str
) -> None:
    hold = {"SABOTAGE_HOLD": "ledger"} if moment == "before the ledger" else {}
    hold |= {"SABOTAGE_LAUNCHES": "1"} if hold else {}
    first = launch("killed", program="tests.chaos.sabotage", environment=POISON | hold, **RUN)
    first.wait_for(lambda line: line["everstep"] == ("held" if hold else "rewind"))
    first.process.send_signal(signal.SIGKILL)
    first.wait()
    ledger = tmp_path / "killed/checkpoints" / LEDGER
    assert ledger.exists() == (not hold)
    second = launch("killed", number=2, program="tests.chaos.sabotage", environment=POISON, **RUN)
    assert second.wait() == 0, second.text
    assert len(of_kind(second.lines, "rewind")) == (1 if hold else 0)
    assert len(json.loads(ledger.read_text())["skipped"]) == 1
    _assert_same([first, second], tmp_path / "killed", with_the_skip)


def test_a_spike_is_undone(launch: Launch, tmp_path: Path, dataset: Path) -> None:
    """Its update was applied: going back takes it away."""
    run = {"stop__steps": 16, "guard__spike_window": 32, "train__lr": 0.0003}
    spike = {"SABOTAGE": "spike", "SABOTAGE_AT": "11", "SABOTAGE_LAUNCHES": "9"}
    job = launch("spike", program="tests.chaos.sabotage", environment=spike, **run)
    assert job.wait() == 0, job.text
    (rewind,) = of_kind(job.lines, "rewind")
    assert "is a spike" in rewind["reason"]
    assert (rewind["step"], rewind["checkpoint"]) == (11, 9)
    (tmp_path / "told/checkpoints").mkdir(parents=True)
    ledger = (tmp_path / "spike/checkpoints" / LEDGER).read_text()
    (tmp_path / "told/checkpoints" / LEDGER).write_text(ledger)
    told = run_ranks(tmp_path / "told", dataset, **run)
    assert losses(job.lines) == losses(told.lines)
    ours, theirs = weights(tmp_path / "spike/checkpoints"), weights(tmp_path / "told/checkpoints")
    assert ours["weights_sha256"] == theirs["weights_sha256"]


def test_what_comes_again_is_diverged(launch: Launch, tmp_path: Path) -> None:
    """NaN at each try of step 8, whatever its batch is."""
    broken = {"SABOTAGE": "nan", "SABOTAGE_AT": "8", "SABOTAGE_LAUNCHES": "9"}
    job = launch("nan", program="tests.chaos.sabotage", environment=broken, guard__rewinds=2, **RUN)
    assert job.wait() == 1
    assert [line["start"] for line in of_kind(job.lines, "rewind")] == [7 * BATCH, 8 * BATCH]
    failure = FailureFile.model_validate_json(
        (tmp_path / "nan/output/00001/failure.json").read_bytes()
    )
    assert failure.failure_class == "diverged"
    assert "step 8: loss nan" in failure.message
    assert "2 rewinds to step 6" in failure.message


def test_spikes_are_told_from_noise() -> None:
    dice = random.Random(0)
    spikes = Spikes(10, 128, [])
    for step in range(2000):  # falls, as a loss does, with noise
        loss = 2 + 8 / (1 + step / 20) + dice.gauss(0, 0.05)
        limit = spikes.limit()
        assert (limit is None) == (step < 32)
        assert limit is None or loss < limit, step
        spikes.add(loss)
    assert (spikes.limit() or 0) < 2.8
    assert Spikes(10, 128, spikes.losses).limit() == spikes.limit()
    assert Spikes(None, 128, spikes.losses).limit() is None
    flat = Spikes(10, 32, [3.0] * 32)  # no deviation at all: the tenth holds
    assert flat.limit() == pytest.approx(3.3)


def test_the_ledger_jumps_over_what_it_holds() -> None:
    def skip(start: int, count: int) -> Skip:
        return Skip(start=start, count=count, step=1, reason="", checkpoint=start)

    skips = Skips(skipped=[skip(24, 8), skip(8, 8), skip(16, 8)])
    assert [skips.after(p, 8) for p in (0, 8, 12, 24, 32)] == [0, 32, 32, 32, 32]
    assert skips.after(4, 8) == 32  # overlaps
    assert (skips.since(0), skips.since(16), skips.since(25)) == (3, 2, 0)
