"""From a killed rank to the next step, in one job: ``python -m bench.restart``; writes
bench/results/restart.json.

Two gloo ranks of the reference trainer, a rank killed by SIGKILL from outside each time a new
checkpoint has been committed: under Everstep's launcher, and under bare ``torchrun
--max-restarts`` with the same trainer and the same checkpoints, interleaved. Seconds from the
signal to the next step that is printed; and how many kills did not end in a restart.
"""

import argparse
import json
import os
import platform
import queue
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from everstep.contracts.progress import parse_line
from trainer.council import free_port
from trainer.prepare import write_dataset

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "bench" / "results" / "restart.json"
SETTINGS = {
    "model.dim": 128,
    "model.layers": 4,
    "model.heads": 4,
    "model.kv_heads": 4,
    "model.ffn_dim": 256,
    "model.vocab_size": 64,
    "train.sequence_length": 128,
    "train.global_batch": 16,
    "train.micro_batch": 4,
    "train.dtype": "fp32",
    "checkpoint.every_steps": 5,
    "stop.steps": 1_000_000,
}
WAYS = ("everstep", "torchrun")
PATIENCE = 120.0


class Run:
    """One job, and what it prints."""

    def __init__(self, way: str, folder: Path, dataset: Path) -> None:
        changes = {**SETTINGS, "data.path": dataset}
        arguments = [x for key, value in changes.items() for x in ("--set", f"{key}={value}")]
        (folder / "run.toml").write_text("")
        arguments = ["--config", str(folder / "run.toml"), *arguments]
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        command = {
            "everstep": ["-m", "trainer.launch"],
            "torchrun": [*torchrun, "--max-restarts=1000", "-m", "trainer.main"],
        }[way]
        given = {
            "EVERSTEP_RANKS_PER_NODE": "2",
            "EVERSTEP_RDZV_PORT": str(free_port()),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(folder),
        }
        self.process = subprocess.Popen(
            [sys.executable, *command, *arguments],
            cwd=folder,
            env={**os.environ, **given},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._lines: queue.Queue[tuple[float, str]] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for text in self.process.stdout or ():
            line = parse_line(text)
            if line is not None:
                self._lines.put((time.monotonic(), line.everstep))

    def next(self, kind: str) -> float | None:
        """When the next line of a kind came; None where the job has ended or says nothing."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                at, found = self._lines.get(timeout=1)
            except queue.Empty:
                if self.process.poll() is not None:
                    return None
                continue
            if found == kind:
                return at
        return None

    def kill_rank(self) -> float:
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        began = time.monotonic()
        os.kill(int(children[-1]), signal.SIGKILL)
        return began

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def measure(way: str, dataset: Path, kills: int) -> tuple[list[float], int]:
    """Seconds of each restart, and the kills after which the job was gone."""
    seconds: list[float] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        run = Run(way, Path(folder), dataset)
        try:
            for _ in range(kills):
                if run.next("committed") is None:
                    return seconds, kills - len(seconds)
                began = run.kill_rank()
                if run.next("resume") is None or (at := run.next("step")) is None:
                    return seconds, kills - len(seconds)
                seconds.append(at - began)
        finally:
            run.end()
    return seconds, 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kills", type=int, default=4, help="a round and way")
    args = parser.parse_args()
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    lost = dict.fromkeys(WAYS, 0)
    with tempfile.TemporaryDirectory() as folder:
        write_dataset(Path(folder), [i % 64 for i in range(50_000)], 64, 50_000)
        for _ in range(args.rounds):
            for way in WAYS:
                took, gone = measure(way, Path(folder), args.kills)
                seconds[way] += took
                lost[way] += gone
    rows: dict[str, Any] = {
        way: {
            "kills": args.rounds * args.kills,
            "without_restart": lost[way],
            "median_s": round(statistics.median(took), 2) if took else None,
            "spread_s": [round(min(took), 2), round(max(took), 2)] if took else None,
        }
        for way, took in seconds.items()
    }
    rows["machine"] = f"{platform.machine()}, {os.cpu_count()} cores"
    REPORT.write_text(json.dumps(rows, indent=1) + "\n")
    print(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
