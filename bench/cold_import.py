"""Cold import of every handler, beyond boto3 and Powertools: ``python -m bench.cold_import``.

Each figure is a fresh interpreter's import, the base (boto3 and Powertools alone) and the handlers
interleaved, the median of ``--rounds``. CPU seconds are judged: the wall's clock is also that of
what else this machine does. Writes bench/results/cold_import.json.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
BASE = "import boto3, aws_lambda_powertools, aws_lambda_powertools.utilities.batch, pydantic"
BUDGET_SECONDS = 0.5


class Seconds(NamedTuple):
    wall: float
    cpu: float


def seconds(code: str) -> Seconds:
    """Of one fresh interpreter that runs ``code``."""
    environ = {**os.environ, "EVERSTEP_CONTROL": "{}", "AWS_DEFAULT_REGION": "us-east-1"}
    start, before = time.perf_counter(), _children()
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environ, check=True)
    return Seconds(time.perf_counter() - start, _children() - before)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _median(all_: list[Seconds]) -> Seconds:
    return Seconds(*(statistics.median(column) for column in zip(*all_, strict=True)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    handlers = sorted(p.parent.name for p in (ROOT / "lambdas").glob("*/handler.py"))
    codes = {"base": BASE} | {h: f"{BASE}; import lambdas.{h}.handler" for h in handlers}
    times: dict[str, list[Seconds]] = {name: [] for name in codes}
    for _ in range(rounds):
        for name, code in codes.items():
            times[name].append(seconds(code))
    base = _median(times.pop("base"))
    rows = {}
    for name, all_ in times.items():
        middle, cpu = _median(all_), [x.cpu for x in all_]
        rows[name] = {
            "beyond_base_cpu_seconds": round(middle.cpu - base.cpu, 3),
            "spread_cpu_seconds": round(max(cpu) - min(cpu), 3),
            "beyond_base_wall_seconds": round(middle.wall - base.wall, 3),
        }
    for name, row in rows.items():
        cpu_beyond, spread, wall = row.values()
        print(f"{name:<22} {cpu_beyond:+.3f} s CPU (±{spread:.3f}), {wall:+.3f} s wall")
    worst = max(row["beyond_base_cpu_seconds"] for row in rows.values())
    load = os.getloadavg()[0]
    print(
        f"base {base.cpu:.3f} s CPU; worst beyond it {worst:.3f} s, budget {BUDGET_SECONDS} s; "
        f"load average {load:.1f}"
    )
    result = {
        "rounds": rounds,
        "load_average": round(load, 1),
        "base_cpu_seconds": round(base.cpu, 3),
        "base_wall_seconds": round(base.wall, 3),
        "handlers": rows,
    }
    (ROOT / "bench/results/cold_import.json").write_text(json.dumps(result, indent=2) + "\n")
    return 0 if worst <= BUDGET_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
