"""A rank that does not come: named, with the collective; and ranks that do not run at all."""

import os
import pickle
import signal
import time
from pathlib import Path
from typing import Any

from everstep.contracts.env import FailureFile
from tests.trainer.harness import Launch, of_kind
from trainer.flight import blame, last_seen
from trainer.watching import Pulses

RUN = {"stop__steps": 12, "checkpoint__every_steps": 3}
SHORT = {"EVERSTEP_COLLECTIVE_TIMEOUT": "3"}


def _late(at: int) -> dict[str, str]:
    return {"SABOTAGE": "late", "SABOTAGE_AT": str(at), "SABOTAGE_RANK": "1"} | SHORT


def test_the_first_steps_may_take_long(launch: Launch) -> None:
    """A rank is 8 s late in the first step: more than the timeout that holds later."""
    job = launch("start", program="tests.chaos.sabotage", environment=_late(1), **RUN)
    assert job.wait() == 0, job.text
    assert not of_kind(job.lines, "restart")


def test_a_rank_that_is_alive_elsewhere_is_named(launch: Launch, tmp_path: Path) -> None:
    """It raises nothing itself; the launcher asks it for its record."""
    job = launch(
        "late",
        program="tests.chaos.sabotage",
        environment=_late(6),
        guard__in_job_restarts=0,
        **RUN,
    )
    assert job.wait() == 1, job.text
    failure = FailureFile.model_validate_json(
        (tmp_path / "late/output/00001/failure.json").read_bytes()
    )
    assert failure.failure_class == "communication_hang"
    assert failure.rank == 1
    assert "rank 1 did not come to collective" in failure.message
    assert "in which rank 0 waited" in failure.message
    flight = tmp_path / "late/output/00001/flight-0"
    assert sorted(path.name for path in flight.iterdir()) == ["rank-0.pickle", "rank-1.pickle"]
    first = (tmp_path / "late/ml/output/failure").read_text().splitlines()[0]
    assert "rank 1 did not come" in first


def test_all_ranks_freeze(launch: Launch) -> None:
    """No collective is left to time out: their launcher sees it, and starts them again."""
    job = launch("frozen", environment={"EVERSTEP_PULSE_TIMEOUT": "4"}, **RUN | {"stop__steps": 60})
    job.wait_for(lambda line: line["everstep"] == "committed")
    for rank in job.ranks():
        os.kill(rank, signal.SIGSTOP)
    assert job.wait() == 0, job.text
    (restart,) = of_kind(job.lines, "restart")
    assert restart["error"] == "frozen"
    assert "no sign of life for 4 s" in restart["cause"]


def test_pulses_that_stop_are_told_from_a_pause_of_the_launcher(tmp_path: Path) -> None:
    pulses = Pulses(tmp_path, 2, patience=30)
    now = time.time()

    def look(ages: dict[int, float], since: float = 2.0) -> int | None:
        pulses._looked = now - since
        for rank, age in ages.items():
            path = tmp_path / str(rank)
            path.touch()
            os.utime(path, (now - age, now - age))
        return pulses.stopped()

    assert look({}) is None, "not there yet"
    assert look({0: 1, 1: 29}) is None
    pulses.reset()
    assert look({0: 1, 1: 31}) == 1
    pulses.reset()
    assert look({0: 1, 1: 1}) is None
    # the whole host was away for ten minutes: its ranks get their time anew
    assert look({0: 601, 1: 601}, since=600) is None
    assert look({0: 632, 1: 632}) is None


def _entries(*rows: tuple[str, int, str]) -> bytes:
    entries: list[dict[str, Any]] = [
        {"process_group": (group, "mesh"), "collective_seq_id": number, "profiling_name": name}
        for group, number, name in rows
    ]
    return pickle.dumps({"entries": entries})


def test_blame(tmp_path: Path) -> None:
    path = tmp_path / "rank-0"
    assert last_seen(path) is None
    path.write_bytes(_entries(("0", 7, "a"), ("1", 3, "b"), ("0", 8, "c"))[:40])
    assert last_seen(path) is None
    path.write_bytes(_entries(("0", 7, "a"), ("1", 3, "b"), ("0", 8, "c")))
    seen = last_seen(path)
    assert seen == {"0 (mesh)": (8, "c"), "1 (mesh)": (3, "b")}

    waits = {"0": (9, "nccl:all_gather")}
    late = {"0": (8, "nccl:all_gather")}
    assert blame({}, 4) is None
    assert blame({0: waits, 1: waits}, 2) is None, "all are there: nobody is late"
    for records, rank in (
        ({0: waits, 1: waits, 3: waits}, 2),  # the frozen one has no record
        ({0: waits, 1: late, 2: waits, 3: waits}, 1),
        ({0: late, 1: waits, 2: waits, 3: waits}, 0),
    ):
        found = blame(records, 4)
        assert found is not None
        assert found[0] == rank
        assert "collective 9 of group 0, nccl:all_gather" in found[1]
        assert f"rank {rank} did" in found[1]
    # two stages wait in groups of their own behind the pair that hangs
    stages = {
        0: {"a": (5, "x"), "w": (2, "z")},
        1: {"a": (4, "x"), "w": (2, "z")},
        2: {"b": (5, "y"), "w": (2, "z")},
        3: {"b": (5, "y"), "w": (2, "z")},
    }
    assert (blame(stages, 4) or (None,))[0] == 1
