"""Step throughput beside a bare FSDP2 loop: ``python -m bench.step [--peers PYTHON]``.

Two gloo ranks, a Llama of 6 M parameters, sequence 512, fp32: each contestant is a group of
processes of its own that waits while another runs. They take turns, a few steps each; the figure
is the median of the ratios within a turn, of wall time and of CPU time (which other load on the
machine disturbs less). ``--peers``: the Python of an environment that has
ai2-olmo-core (never ours). Writes bench/results/step.json.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.trainer.harness import free_port

ROOT = Path(__file__).resolve().parents[1]
RANKS = 2
TARGET = 0.97


class Contestant:
    """Ranks that run steps when told to."""

    def __init__(self, kind: str, python: str, steps: int) -> None:
        port = str(free_port())
        self.steps = steps
        self.kind = kind
        self._ranks = [
            subprocess.Popen(
                [python, str(ROOT / "bench" / "step_worker.py"), kind, str(steps)],
                cwd=ROOT,
                env=os.environ
                | {
                    "RANK": str(rank),
                    "LOCAL_RANK": str(rank),
                    "WORLD_SIZE": str(RANKS),
                    "LOCAL_WORLD_SIZE": str(RANKS),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": port,
                    "OMP_NUM_THREADS": "1",
                    "PYTHONPATH": str(ROOT),
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(RANKS)
        ]

    def turn(self) -> dict[str, Any]:
        """One turn of ``steps`` steps: seconds a step, and the last loss."""
        for rank in self._ranks:
            assert rank.stdin is not None
            rank.stdin.write("go\n")
            rank.stdin.flush()
        answers = []
        for rank in self._ranks:
            assert rank.stdout is not None
            line = rank.stdout.readline()
            while line and not line.startswith('{"seconds"'):
                line = rank.stdout.readline()
            if not line:
                raise SystemExit(f"{rank.args} ended with {rank.wait()}")
            answers.append(json.loads(line))
        return dict(answers[0])

    def end(self) -> None:
        for rank in self._ranks:
            assert rank.stdin is not None
            rank.stdin.close()
        for rank in self._ranks:
            rank.wait(60)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--steps", type=int, default=5, help="steps a turn")
    parser.add_argument("--peers", help="Python that can import olmo_core")
    args = parser.parse_args()
    pythons = {"everstep": sys.executable, "bare": sys.executable}
    if args.peers:
        pythons["olmo-core"] = args.peers
    contestants = {kind: Contestant(kind, py, args.steps) for kind, py in pythons.items()}
    for contestant in contestants.values():
        contestant.turn()  # warm-up
    turns = []
    for number in range(args.turns):
        order = list(contestants)[:: 1 if number % 2 else -1]
        turns.append({kind: contestants[kind].turn() for kind in order})
    for contestant in contestants.values():
        contestant.end()
    rows = {kind: _row(kind, turns, args.steps) for kind in contestants}
    load = [round(value, 1) for value in os.getloadavg()]
    result = {
        "load_average": load,
        "ranks": RANKS,
        "turns": args.turns,
        "steps_a_turn": args.steps,
        "rows": rows,
    }
    for kind, row in rows.items():
        print(
            f"{kind:<10} {row['tokens_per_s']:>8.0f} tokens/s   everstep is "
            f"{row['everstep_ratio']:.3f}× ({row['ratio_low']:.3f}–{row['ratio_high']:.3f}), "
            f"by CPU time {row['everstep_cpu_ratio']:.3f}×"
        )
    (ROOT / "bench/results/step.json").write_text(json.dumps(result, indent=2) + "\n")
    others = [row["everstep_ratio"] for kind, row in rows.items() if kind != "everstep"]
    return 0 if min(others) >= TARGET else 1


def _row(kind: str, turns: list[dict[str, Any]], steps: int) -> dict[str, Any]:
    seconds = [turn[kind]["seconds"] for turn in turns]
    ratios = sorted(turn[kind]["seconds"] / turn["everstep"]["seconds"] for turn in turns)
    cpu = sorted(turn[kind]["cpu_seconds"] / turn["everstep"]["cpu_seconds"] for turn in turns)
    return {
        "parameters": turns[0][kind]["parameters"],
        "seconds_a_step": round(statistics.median(seconds) / steps, 5),
        "tokens_per_s": round(turns[0][kind]["tokens"] * steps / statistics.median(seconds), 1),
        "everstep_ratio": round(statistics.median(ratios), 4),
        "ratio_low": round(ratios[0], 4),
        "ratio_high": round(ratios[-1], 4),
        "cpu_seconds_a_step": round(
            statistics.median(turn[kind]["cpu_seconds"] for turn in turns) / steps, 5
        ),
        "everstep_cpu_ratio": round(statistics.median(cpu), 4),
        "cpu_ratio_low": round(cpu[0], 4),
        "cpu_ratio_high": round(cpu[-1], 4),
        "first_loss": turns[0][kind]["loss"],
    }


if __name__ == "__main__":
    sys.exit(main())
