"""``make load RUNS=200``: many runs at once on the emulator, every second one broken.

None may be lost, none doubled. Prints what the control plane cost: handler durations, AWS calls an
attempt (budget 36, the watchdog's looks apart) and calls a look. The trainer is the 15 MB one of
the chaos suite, slow enough that all runs are there at the same time.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.chaos.driver import Watch, live
from tests.chaos.invariants import outcome, violations
from tests.chaos.random_faults import Fault, Kind, Plan
from tests.chaos.seeds import QUOTAS, SERVICES
from tests.scenarios.lab import ROOT, Lab, deployed

REPORT = ROOT / "bench" / "results" / "load.json"
MINUTE = 10.0
"""Of a schedule; ``config/load.toml`` has the heartbeat that belongs to it."""
STEPS = 40
CALLS_BUDGET = 36
WATCH = {"starting": 600, "warmup": 600, "downloading": 600, "step": 120, "stopping": 600}
POLL_SECONDS = 3.0
DEADLINE = 1800.0
FAULTS: tuple[Kind, ...] = ("capacity", "crash_lambda", "events", "kill_host", "throttle")
WATCHDOG = "Watchdog"
LOOK = ("sagemaker", "DescribeTrainingJob")
"""The watchdog makes one of these a look."""


def plan(number: int, step_seconds: float) -> Plan:
    """Run ``number``; every second one meets a fault."""
    draw = random.Random(f"everstep load {number}")
    spec: dict[str, Any] = {
        "model": "tiny",
        "data": "datasets/stdlib",
        "compute": [{"instance_type": "ml.m5.large", "nodes": 1}],
        "train": {"sequence_length": 128, "global_batch": 16, "micro_batch": 4, "dtype": "fp32"},
        "checkpoint": {"every_steps": 5},
        "retry": {"backoff_seconds": 2, "backoff_cap_seconds": 10},
        "watch": WATCH,
        "trainer": {
            "command": ["python", "tests/chaos/lean.py"],
            "environment": {"LEAN_STEP_SECONDS": str(step_seconds)},
        },
        "stop": {"steps": STEPS, "max_runtime_hours": 1},
    }
    details: dict[Kind, dict[str, Any]] = {
        "capacity": {"count": draw.randint(1, 2)},
        "crash_lambda": {"function": draw.choice(("LaunchAttempt", "PlanAttempt")), "times": 1},
        "events": {"mode": draw.choice(("lose", "double", "triple")), "count": 8},
        "kill_host": {"host": "algo-1"},
        "throttle": {"operation": "CreateTrainingJob", "count": draw.randint(1, 3)},
    }
    kind = draw.choice(FAULTS)
    at = draw.randrange(6, STEPS - 5) if kind == "kill_host" else 0
    faults = (Fault(at, kind, details[kind]),) if number % 2 else ()
    return Plan(number, "lean", spec, faults, name="load")


class Peak:
    """The most jobs that ran at once, and the memory that this machine then had in use."""

    def __init__(self, lab: Lab) -> None:
        self.jobs, self.memory_gib = 0, 0.0
        self._lab, self._closing = lab, threading.Event()
        threading.Thread(target=self._loop, daemon=True).start()

    def close(self) -> None:
        self._closing.set()

    def _loop(self) -> None:
        while not self._closing.wait(1.0):
            jobs = [j for j in self._lab.control.jobs() if j["secondary_status"] == "Training"]
            self.jobs = max(self.jobs, len(jobs))
            self.memory_gib = max(self.memory_gib, round(_used() / 2**30, 2))


def _used() -> int:
    found = dict(
        line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines() if line
    )
    return 1024 * (int(found["MemTotal"].split()[0]) - int(found["MemAvailable"].split()[0]))


def calls(state: Path) -> Iterator[tuple[str, str, str]]:
    """(function, service, operation) of each AWS call that a handler made."""
    with (state / "calls.jsonl").open() as lines:
        for line in lines:
            made = json.loads(line)
            if made["service"] != "runtime":
                yield made["function"], made["service"], made["operation"]


def measure(lab: Lab, runs: int, step_seconds: float) -> dict[str, Any]:
    """Start all, wait for all, judge all."""
    for service in SERVICES:
        lab.cloud.client(service)
    assert lab.cloud.outputs
    idle = _used()
    watch, peak, began = Watch(lab, every=1.0), Peak(lab), time.monotonic()
    plans = [plan(number, step_seconds) for number in range(runs)]
    with ThreadPoolExecutor(runs) as pool:
        stories = list(pool.map(lambda p: live(lab, watch, p, POLL_SECONDS, DEADLINE), plans))
    seconds = time.monotonic() - began
    peak.close()
    functions = lab.control.functions()
    made = Counter(calls(lab.work))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda s: violations(lab, watch, s, ""), stories))
    rows = [outcome(lab, story) for story in stories]
    watch.close()
    launches = sum(row["launches"] for row in rows)
    outside = sum(n for (name, _, _), n in made.items() if not name.endswith(WATCHDOG))
    watched = sum(n for (name, _, _), n in made.items() if name.endswith(WATCHDOG))
    looks = sum(
        n for (name, *call), n in made.items() if name.endswith(WATCHDOG) and tuple(call) == LOOK
    )
    return {
        "runs": runs,
        "cores": os.cpu_count(),
        "seconds": round(seconds, 1),
        "step_seconds": step_seconds,
        "at_once": peak.jobs,
        "memory_gib": round(peak.memory_gib - idle / 2**30, 2),
        "outcomes": dict(Counter(row["outcome"] for row in rows)),
        "launches": launches,
        "faults": dict(Counter(f.partition("@")[0] for row in rows for f in row["faults"])),
        "violations": [
            {"run": row["seed"], "faults": row["faults"], "violations": bad}
            for row, bad in zip(rows, found, strict=True)
            if bad
        ],
        "calls_per_launch": round(outside / max(1, launches), 1),
        "calls_per_look": round(watched / max(1, looks), 1),
        "looks": looks,
        "handlers": {
            name.rpartition("-")[2]: {
                key: row[key] for key in ("invocations", "errors", "cold", "p50", "p95")
            }
            for name, row in sorted(functions.items())
        },
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--step-seconds", type=float, default=6.0)
    parser.add_argument("--out", type=Path, default=REPORT)
    parser.add_argument("--keep", type=Path, help="keep the emulator's state in this folder")
    args = parser.parse_args(argv)
    with (
        tempfile.TemporaryDirectory(prefix="everstep-load-") as folder,
        deployed(Path(args.keep or folder) / "aws", QUOTAS, env="load", minute=MINUTE) as lab,
    ):
        report = measure(lab, args.runs, args.step_seconds)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(report, indent=1) + "\n")
    print(
        f"{report['runs']} runs, {report['at_once']} at once, {report['launches']} launches in "
        f"{report['seconds']} s on {report['cores']} cores, {report['memory_gib']} GiB; "
        f"{report['outcomes']}; {len(report['violations'])} violations"
    )
    print(f"AWS calls: {report['calls_per_launch']} a launch, {report['calls_per_look']} a look")
    for name, row in report["handlers"].items():
        print(f"  {name:<18} {row['invocations']:>6} ×  p50 {row['p50']} s  p95 {row['p95']} s")
    for bad in report["violations"]:
        print(f"  VIOLATION run {bad['run']} {bad['faults']}: {bad['violations']}")
    over = report["calls_per_launch"] > CALLS_BUDGET
    return 1 if over or report["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
