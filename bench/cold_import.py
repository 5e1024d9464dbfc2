"""Cold import of every handler, beyond boto3 and Powertools: ``python -m bench.cold_import``.

Each figure is a fresh interpreter's import time, the base (boto3 and Powertools alone) and the
handlers interleaved, the median of ``--rounds``. Writes bench/results/cold_import.json.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BASE = "import boto3, aws_lambda_powertools, aws_lambda_powertools.utilities.batch, pydantic"
BUDGET_SECONDS = 0.5


def seconds(code: str) -> float:
    """Wall clock of one fresh interpreter that runs ``code``."""
    environ = {**os.environ, "EVERSTEP_CONTROL": "{}", "AWS_DEFAULT_REGION": "us-east-1"}
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environ, check=True)
    return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    handlers = sorted(p.parent.name for p in (ROOT / "lambdas").glob("*/handler.py"))
    codes = {"base": BASE} | {h: f"{BASE}; import lambdas.{h}.handler" for h in handlers}
    times: dict[str, list[float]] = {name: [] for name in codes}
    for _ in range(rounds):
        for name, code in codes.items():
            times[name].append(seconds(code))
    base = statistics.median(times.pop("base"))
    rows = {
        name: {
            "beyond_base_seconds": round(statistics.median(all_) - base, 3),
            "spread_seconds": round(max(all_) - min(all_), 3),
        }
        for name, all_ in times.items()
    }
    for name, row in rows.items():
        print(f"{name:<22} +{row['beyond_base_seconds']:.3f} s  (±{row['spread_seconds']:.3f})")
    worst = max(row["beyond_base_seconds"] for row in rows.values())
    print(f"base {base:.3f} s; worst beyond it {worst:.3f} s, budget {BUDGET_SECONDS} s")
    result = {"rounds": rounds, "base_seconds": round(base, 3), "handlers": rows}
    (ROOT / "bench/results/cold_import.json").write_text(json.dumps(result, indent=2) + "\n")
    return 0 if worst <= BUDGET_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
