"""How fast is the simulator, and what does it say? ``python -m bench.simulate [--seeds 200]``

The whole study (``everstep simulate``: every policy, the sweep of intervals, every what-if) of 54
days on 16,384 GPUs at Llama 3's failure rates, in one process. Wall-clock and CPU seconds: on a
shared machine only the second says what a quiet one would take. Writes bench/results/simulate.json.
"""

import argparse
import json
import os
import platform
import time
from dataclasses import replace
from pathlib import Path

from everstep.simulate.scenario import default_spec, scenario
from everstep.simulate.study import study

REPORT = Path(__file__).resolve().parents[1] / "bench" / "results" / "simulate.json"
GPUS, DAYS = 16_384, 54


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=200)
    seeds = parser.parse_args().seeds
    scene = scenario(GPUS // 8, DAYS, seeds=seeds)
    plain = replace(scene, spec=default_spec(GPUS // 8, bare=True))
    wall, cpu = time.perf_counter(), time.process_time()
    found = study(scene, plain)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    load = os.getloadavg()[0]
    report = {
        "gpus": GPUS,
        "days": DAYS,
        "seeds": seeds,
        "wall_seconds": round(wall, 1),
        "cpu_seconds": round(cpu, 1),
        "load_average": round(load, 1),
        "python": platform.python_version(),
        "decide_calls": found.decisions,
        "rows": {
            row.name: {
                "goodput": round(row.goodput, 4),
                "low": round(row.low, 4),
                "high": round(row.high, 4),
                "parts": {name: round(share, 4) for name, share in row.parts.items()},
                "people": round(row.people, 2),
            }
            for row in found.rows
        },
        "interval_minutes": {
            "best": round(found.interval.best / 60, 2),
            "daly": round(found.interval.daly / 60, 2),
            "young": round(found.interval.young / 60, 2),
        },
        "levers_points": {x.name: round(100 * x.gain, 2) for x in found.levers},
        "behind_the_oracle": {
            name: {part: round(share, 4) for part, share in gap.items()}
            for name, gap in found.gaps.items()
        },
    }
    REPORT.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    for name, row in report["rows"].items():
        print(f"{name:<22} {row['goodput']:.1%} [{row['low']:.1%}, {row['high']:.1%}]")
    print(f"{wall:.1f} s, {cpu:.1f} s of one CPU, load average {load:.1f}")


if __name__ == "__main__":
    main()
