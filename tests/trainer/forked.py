"""Ranks that can be held still at a named function, so that the test can kill them just there.

Each rank is a process of its own, forked from one that has imported the trainer already. It
waits inside the function for ever; only the test, from outside, ends it.
"""

import importlib
import json
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from tests.trainer.harness import PATIENCE, SMALL, Lines, free_port, progress

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["trainer.main", "trainer.train", "boto3", "tests.trainer.forked"])

Prepare = Callable[[Connection], None]


@dataclass(frozen=True)
class Hold:
    """Wait for ever at call number ``call`` of ``module:Class.function``, before or after it."""

    target: str
    call: int = 1
    after: bool = False

    def __call__(self, news: Connection) -> None:
        module, _, path = self.target.partition(":")
        *outer, name = path.split(".")
        owner: Any = importlib.import_module(module)
        for part in outer:
            owner = getattr(owner, part)
        honest, calls = getattr(owner, name), 0

        def held(*args: Any, **more: Any) -> Any:
            nonlocal calls
            calls += 1
            mine = calls == self.call
            result = honest(*args, **more) if self.after or not mine else None
            if mine:
                news.send("held")
                threading.Event().wait()
            return result

        setattr(owner, name, held)


@dataclass
class Rank:
    process: ForkServerProcess
    news: Connection
    output: Path

    def wait_until_held(self, seconds: float = PATIENCE) -> None:
        try:
            assert self.news.poll(seconds), f"never held\n{self.output.read_text()}"
            assert self.news.recv() == "held"
        except EOFError:
            raise AssertionError(f"it ended first\n{self.output.read_text()}") from None


@dataclass
class Ranks:
    """A job's ranks without a launcher, on one host."""

    ranks: list[Rank] = field(default_factory=list)

    @property
    def lines(self) -> Lines:
        return progress(self.ranks[0].output.read_text())

    @property
    def text(self) -> str:
        return "\n".join(rank.output.read_text() for rank in self.ranks)

    def wait(self, seconds: float = PATIENCE) -> list[int | None]:
        for rank in self.ranks:
            rank.process.join(seconds)
        return [rank.process.exitcode for rank in self.ranks]

    def kill(self) -> None:
        for rank in self.ranks:
            rank.process.kill()
        self.wait()


def start_ranks(
    base: Path,
    dataset: Path,
    *,
    ranks: int = 1,
    nodes: int = 1,
    number: int = 1,
    prepare: dict[int, list[Prepare]] | None = None,
    environment: dict[str, str] | None = None,
    **changes: Any,
) -> Ranks:
    """``prepare``: what to do in a rank before it starts (``Hold``, a mutant)."""
    flat = SMALL | {"data.path": str(dataset)}
    flat |= {k.replace("__", "."): str(v) for k, v in changes.items()}
    config = base / "ml" / "input" / "config"
    config.mkdir(parents=True, exist_ok=True)
    (config / "hyperparameters.json").write_text(json.dumps(flat))
    given = {
        "OMP_NUM_THREADS": "1",
        "EVERSTEP_ML_ROOT": str(base / "ml"),
        "EVERSTEP_CHECKPOINT_URI": str(base / "checkpoints"),
        "EVERSTEP_OUTPUT_URI": str(base / "output"),
        "EVERSTEP_LAUNCH": str(number),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks // nodes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "GLOO_SOCKET_IFNAME": "lo",
        **(environment or {}),
    }
    job = Ranks()
    for rank in range(ranks):
        here, there = FORKS.Pipe(duplex=False)
        output = base / f"rank-{rank}-of-launch-{number}.log"
        node, local = divmod(rank, ranks // nodes)
        mine = {
            "RANK": str(rank),
            "LOCAL_RANK": str(local),
            "EVERSTEP_NODE_DIR": str(base / f"node-{node}-of-launch-{number}"),
        } | given
        process = FORKS.Process(
            target=_run, args=(mine, output, (prepare or {}).get(rank, []), there), daemon=True
        )
        process.start()
        there.close()
        job.ranks.append(Rank(process, here, output))
    return job


def run_ranks(base: Path, dataset: Path, ranks: int = 2, **more: Any) -> Ranks:
    """``start_ranks``, to their end: a run that nothing happens to. A launcher's ranks each import
    torch, which takes longer than such a run."""
    job = start_ranks(base, dataset, ranks=ranks, **more)
    assert job.wait() == [0] * ranks, job.text
    return job


def _run(environment: dict[str, str], output: Path, prepare: list[Prepare], news: Any) -> None:
    os.environ.update(environment)
    with output.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    import torch

    torch.set_num_threads(1)
    for act in prepare:
        act(news)
    main: Any = sys.modules["trainer.main"].main
    main([])
