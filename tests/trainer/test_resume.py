"""Exact resume: the same losses and the same weights as a run that was never disturbed."""

import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from everstep.contracts.manifest import MANIFEST_NAME, Manifest
from tests.trainer.forked import run_ranks
from tests.trainer.harness import Alone, Launch, Lines, losses, of_kind, weights
from trainer.errors import ConfigError

# steps long enough that a kill from outside lands before the last one
SLOW = {"train__sequence_length": 128, "train__global_batch": 32, "model__dim": 64}


@pytest.fixture(scope="module")
def unbroken(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> "Unbroken":
    """Losses by step, and digests, of the run that nothing happens to."""
    base = tmp_path_factory.mktemp("unbroken")
    job = run_ranks(base, dataset, **SLOW)
    return losses(job.lines), weights(base / "checkpoints")


Unbroken = tuple[dict[int, float], dict[str, Any]]


@pytest.mark.parametrize("victim", ["launcher", "rank 1"])
def test_killed_from_outside_and_resumed_is_bit_equal(
    launch: Launch, tmp_path: Path, unbroken: Unbroken, victim: str
) -> None:
    broken = launch("broken", **SLOW, guard__in_job_restarts=0)
    broken.wait_for(lambda line: line["everstep"] == "committed")
    ranks = broken.ranks()
    os.kill(broken.process.pid if victim == "launcher" else ranks[1], signal.SIGKILL)
    assert broken.wait() != 0
    assert not of_kind(broken.lines, "done"), "it was over before it was killed"
    for rank in ranks:
        _assert_gone(rank)

    resumed = launch("broken", number=2, **SLOW)
    assert resumed.wait() == 0, resumed.text
    start = of_kind(resumed.lines, "resume")[0]["step"]
    assert start >= 3
    expected = {step: loss for step, loss in unbroken[0].items() if step > start}
    assert losses(resumed.lines) == expected
    ours, theirs = weights(tmp_path / "broken/checkpoints"), unbroken[1]
    assert ours["weights_sha256"] == theirs["weights_sha256"]
    assert ours["optimizer_sha256"] == theirs["optimizer_sha256"]
    assert (ours["step"], ours["final"], ours["tokens"]) == (12, True, 12 * 32 * 128)


def test_sigterm_saves_and_the_next_launch_goes_on(
    launch: Launch, tmp_path: Path, unbroken: Unbroken
) -> None:
    first = launch("stopped", **SLOW, checkpoint__every_steps=1000)
    first.wait_for(lambda line: line["everstep"] == "step" and line["step"] == 2)
    first.process.send_signal(signal.SIGTERM)
    assert first.wait() == 0, first.text
    stopped = of_kind(first.lines, "stopped")[0]
    assert stopped["reason"] == "sigterm"
    assert of_kind(first.lines, "committed")[0]["step"] == stopped["step"]

    second = launch("stopped", number=2, **SLOW, checkpoint__every_steps=1000)
    assert second.wait() == 0, second.text
    assert losses(first.lines) | losses(second.lines) == unbroken[0]
    stopped_weights = weights(tmp_path / "stopped/checkpoints")["weights_sha256"]
    assert stopped_weights == unbroken[1]["weights_sha256"]


def test_another_mesh_loads_the_same_weights_and_optimizer(dataset: Path, tmp_path: Path) -> None:
    quiet = {"model__dropout": 0, "train__schedule": "constant"}
    run_ranks(tmp_path / "mesh", dataset, **quiet, stop__steps=6)
    before = weights(tmp_path / "mesh/checkpoints")

    # nothing left to do: it loads on the other mesh, and saves what it loaded
    _unfinish(tmp_path / "mesh/checkpoints", step=6)
    run_ranks(tmp_path / "mesh", dataset, ranks=1, number=2, **quiet, stop__steps=6)
    after = weights(tmp_path / "mesh/checkpoints")
    assert (before["world_size"], after["world_size"]) == (2, 1)
    assert after["checkpoint"] == "step-00000006.00002"
    assert after["weights_sha256"] == before["weights_sha256"]
    assert after["optimizer_sha256"] == before["optimizer_sha256"]

    on_one = run_ranks(tmp_path / "mesh", dataset, ranks=1, number=3, **quiet)
    on_two = run_ranks(tmp_path / "two", dataset, **quiet)
    expected = {step: loss for step, loss in losses(on_two.lines).items() if step > 6}
    assert losses(on_one.lines) == pytest.approx(expected, rel=1e-5)


@pytest.fixture
def halfway(alone: Alone, tmp_path: Path) -> tuple[str, Lines]:
    """A folder whose newest checkpoint is of step 6, and the whole run's lines."""
    whole = alone(str(tmp_path / "whole"), checkpoint__keep_last=4)
    for newer in ("step-00000009.00001", "step-00000012.00001"):
        shutil.rmtree(tmp_path / "whole" / newer)
    return str(tmp_path / "whole"), whole


def test_resume_in_one_process_is_exact(alone: Alone, halfway: tuple[str, Lines]) -> None:
    uri, whole = halfway
    resumed = alone(uri, env={"launch": 2})
    assert of_kind(resumed, "resume") == [
        {"everstep": "resume", "step": 6, "checkpoint": "step-00000006.00001"}
    ]
    assert losses(resumed) == {s: v for s, v in losses(whole).items() if s > 6}


def test_a_changed_run_is_refused(alone: Alone, halfway: tuple[str, Lines]) -> None:
    with pytest.raises(ConfigError, match=r"global_batch=8.*hint"):
        alone(halfway[0], env={"launch": 2}, train__global_batch=16)


def test_a_finished_run_does_nothing(alone: Alone, tmp_path: Path) -> None:
    alone()
    again = alone(env={"launch": 2})
    assert [line["everstep"] for line in again] == ["resume", "phase", "done"]
    assert not list((tmp_path / "checkpoints").glob("*.00002"))


def test_checkpoints_by_the_clock(alone: Alone) -> None:
    lines = alone(checkpoint__every_steps="null", checkpoint__every_minutes=1e-6)
    assert [line["step"] for line in of_kind(lines, "committed")] == list(range(1, 13))


def test_deadline_saves_and_stops(alone: Alone) -> None:
    lines = alone(env={"max_runtime_seconds": 1}, stop__steps=100_000)
    assert lines[-1]["everstep"] == "stopped"
    assert lines[-1]["reason"] == "deadline"
    assert of_kind(lines, "committed")[-1]["step"] == lines[-1]["step"]


def _unfinish(folder: Path, step: int) -> None:
    """Take the ``final`` mark off a manifest: the next start has to save that step itself."""
    path = folder / f"step-{step:08d}.00001" / MANIFEST_NAME
    manifest = Manifest.unseal(path.read_bytes())
    path.write_bytes(manifest.model_copy(update={"final": False}).sealed())


def _assert_gone(pid: int) -> None:
    """The process has ended (or is being reaped): no orphan goes on training."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":
            return
    raise AssertionError(f"rank {pid} outlived its launcher")
