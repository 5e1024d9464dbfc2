"""Rung 1: the ranks start again in the same job, for what starting again can cure."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from everstep.contracts.env import FailureFile
from everstep.contracts.failures import FailureClass as F
from tests.trainer.forked import run_ranks
from tests.trainer.harness import Job, Launch, free_port, losses, of_kind, weights
from trainer.in_job import Death, why_not

KILLS = 5
LONG = {
    "train__sequence_length": 64,
    "model__dim": 64,
    "stop__steps": 60,
    "checkpoint__every_steps": 3,
}


@pytest.fixture(scope="module")
def unbroken(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    base = tmp_path_factory.mktemp("unbroken")
    job = run_ranks(base, dataset, **LONG)
    return {"losses": losses(job.lines), "weights": weights(base / "checkpoints")}


def _assert_same(job: Job, folder: Path, unbroken: dict[str, Any]) -> None:
    assert losses(job.lines) == unbroken["losses"]
    for step in of_kind(job.lines, "step"):  # of every generation, not only the last word on it
        assert step["loss"] == unbroken["losses"][step["step"]]
    ours = weights(folder / "checkpoints")
    assert ours["weights_sha256"] == unbroken["weights"]["weights_sha256"]
    assert ours["optimizer_sha256"] == unbroken["weights"]["optimizer_sha256"]


def test_every_kill_is_one_clean_restart(
    launch: Launch, tmp_path: Path, unbroken: dict[str, Any]
) -> None:
    """Killed from outside, one rank and then the other, each time after a new checkpoint."""
    job = launch("kills", **LONG)
    newest = 0
    for kill in range(KILLS):
        job.wait_for(
            lambda line, newest=newest: line["everstep"] == "committed" and line["step"] > newest
        )
        newest = of_kind(job.lines, "committed")[-1]["step"]
        os.kill(job.ranks()[kill % 2], signal.SIGKILL)
        job.wait_for(
            lambda line, kill=kill: (
                line["everstep"] == "restarted" and line["generation"] == kill + 1
            )
        )
    assert job.wait() == 0, job.text
    restarts = of_kind(job.lines, "restart")
    assert [line["generation"] for line in restarts] == list(range(1, KILLS + 1)), job.text
    assert [line["rank"] for line in restarts] == [kill % 2 for kill in range(KILLS)]
    assert all("killed by SIGKILL" in line["cause"] for line in restarts)
    for line in of_kind(job.lines, "restarted"):
        parts = [line[part] for part in ("notice", "decide", "start", "load", "first_step")]
        assert all(part >= 0 for part in parts)
        assert sum(parts) == pytest.approx(line["total"], abs=0.01)
    _assert_same(job, tmp_path / "kills", unbroken)
    # what was survived is no cause of anything any more
    assert not (tmp_path / "kills/output/00001/failure.json").exists()
    assert not (tmp_path / "kills/ml/output/failure").exists()


def test_two_hosts_start_again_together_and_a_lost_host_ends_the_job(
    launch: Launch, tmp_path: Path, unbroken: dict[str, Any]
) -> None:
    first, second = _hosts(launch, 1, **LONG)
    first.wait_for(lambda line: line["everstep"] == "committed")
    os.kill(second.ranks()[0], signal.SIGKILL)
    assert (first.wait(), second.wait()) == (0, 0), first.text + second.text
    (restart,) = of_kind(first.lines, "restart")
    assert (restart["rank"], restart["host"]) == (1, "algo-2")
    assert not second.lines, "only rank 0 prints progress"
    _assert_same(first, tmp_path / "hosts", unbroken)

    for number, lost in ((2, 0), (3, 1)):
        both = _hosts(launch, number, **LONG | {"stop__steps": 100_000})
        both[0].wait_for(lambda line: line["everstep"] == "step")
        both[lost].process.kill()
        left = both[1 - lost]
        assert left.wait(120) == 1, left.text
        assert not of_kind(both[0].lines, "restart")


def _hosts(launch: Launch, number: int, **changes: Any) -> list[Job]:
    hosts = ["algo-1", "algo-2"]
    where = {"EVERSTEP_MASTER_ADDR": "127.0.0.1", "EVERSTEP_RDZV_PORT": str(free_port())}
    return [
        launch(
            "hosts",
            ranks=1,
            number=number,
            ml=host,
            environment=where,
            resource={"current_host": host, "hosts": hosts},
            **changes,
        )
        for host in hosts
    ]


def test_a_programs_own_error_does_not_start_again(launch: Launch, tmp_path: Path) -> None:
    bug = {"SABOTAGE": "raise", "SABOTAGE_AT": "5", "SABOTAGE_RANK": "1"}
    job = launch("bug", program="tests.chaos.sabotage", environment=bug, **LONG)
    assert job.wait() == 1
    assert not of_kind(job.lines, "restart")
    failure = FailureFile.model_validate_json(
        (tmp_path / "bug/output/00001/failure.json").read_bytes()
    )
    assert (failure.kind, failure.rank) == ("DataLoaderBug", 1)


def test_the_same_cause_without_a_new_checkpoint_ends_the_job(
    launch: Launch, tmp_path: Path
) -> None:
    job = launch("again", **LONG | {"checkpoint__every_steps": 1000, "stop__steps": 100_000})
    job.wait_for(lambda line: line["everstep"] == "step" and line["step"] == 2)
    os.kill(job.ranks()[1], signal.SIGKILL)
    job.wait_for(lambda line: line["everstep"] == "restarted")
    os.kill(job.ranks()[1], signal.SIGKILL)
    assert job.wait() == 137
    assert "the same cause as before" in job.text
    assert len(of_kind(job.lines, "restart")) == 1
    failure = FailureFile.model_validate_json(
        (tmp_path / "again/output/00001/failure.json").read_bytes()
    )
    assert (failure.kind, failure.rank) == ("signal", 1)


def test_a_frozen_rank_costs_its_timeout_and_little_more(
    launch: Launch, tmp_path: Path, unbroken: dict[str, Any]
) -> None:
    job = launch("frozen", environment={"EVERSTEP_COLLECTIVE_TIMEOUT": "5"}, **LONG)
    job.wait_for(lambda line: line["everstep"] == "committed")
    began = time.monotonic()
    os.kill(job.ranks()[1], signal.SIGSTOP)
    job.wait_for(lambda line: line["everstep"] == "restart")
    # a few seconds on a quiet machine; nothing else ends it before the pulse's 300 s
    assert 5 <= time.monotonic() - began < 5 + 30
    assert job.wait() == 0, job.text
    assert len(of_kind(job.lines, "restart")) == 1
    _assert_same(job, tmp_path / "frozen", unbroken)


def test_a_stop_request_is_honoured_across_a_restart(launch: Launch) -> None:
    """SIGTERM while the ranks are being started again: nothing is lost, and nothing goes on."""
    job = launch("stop", **LONG | {"stop__steps": 100_000})
    job.wait_for(lambda line: line["everstep"] == "committed")
    os.kill(job.ranks()[0], signal.SIGKILL)
    job.wait_for(lambda line: line["everstep"] == "restart")
    job.process.send_signal(signal.SIGTERM)
    assert job.wait() == 0, job.text
    assert of_kind(job.lines, "stopped")[0]["reason"] == "sigterm"


KILLED = FailureFile(kind="signal", message="rank 1 was killed by SIGKILL", rank=1)
HUNG = FailureFile(
    kind="RuntimeError",
    message="Timed out waiting 600000ms for recv operation",
    failure_class=F.COMMUNICATION_HANG,
)
LOST = FailureFile(kind="RuntimeError", message="[gloo/transport/tcp] Connection closed by peer")
REWIND = FailureFile(kind="Rewind", message="step 17: loss nan")


@pytest.mark.parametrize("failure", [KILLED, HUNG, LOST, REWIND])
def test_what_starting_again_can_cure(failure: FailureFile) -> None:
    assert why_not(Death(failure, 10), [], 1, stopping=False) is None
    assert "being stopped" in str(why_not(Death(failure, 10), [], 1, stopping=True))


@pytest.mark.parametrize(
    "failure",
    [
        FailureFile(kind="ValueError", message="Connection closed by peer"),
        FailureFile(kind="DivergedError", message="…", failure_class=F.DIVERGED),
        FailureFile(kind="DataError", message="…", failure_class=F.BAD_DATA),
        FailureFile(kind="signal", message="…", failure_class=F.OUT_OF_MEMORY_HOST),
        FailureFile(kind="host", message="…", failure_class=F.INFRASTRUCTURE),
        FailureFile(kind="exit", message="rank 0 exited with code 3"),
    ],
)
def test_what_it_cannot(failure: FailureFile) -> None:
    assert "not cured" in str(why_not(Death(failure, 10), [], 100, stopping=False))


def test_the_budget_refills_with_progress_and_rewinds_do_not_spend_it() -> None:
    other = KILLED.model_copy(update={"message": "rank 2 was killed by SIGSEGV"})
    spent = [Death(KILLED, 10), Death(REWIND, 10), Death(HUNG, 10)]
    assert "2 restarts since" in str(why_not(Death(other, 10), spent, 2, stopping=False))
    assert why_not(Death(other, 10), spent, 3, stopping=False) is None
    assert why_not(Death(other, 20), spent, 1, stopping=False) is None
    assert why_not(Death(REWIND, 10), spent, 0, stopping=False) is None
    # another rank, the same cause
    twice = HUNG.model_copy(update={"message": HUNG.message.replace("600000", "599999")})
    assert "same cause" in str(why_not(Death(twice, 10), spent, 9, stopping=False))
    assert why_not(Death(twice, 11), spent, 9, stopping=False) is None
