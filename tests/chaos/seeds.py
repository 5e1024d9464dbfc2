"""Many seeds at once on one emulator."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.chaos.driver import Watch, live
from tests.chaos.invariants import outcome, violations
from tests.chaos.random_faults import TORCH_EVERY, plan
from tests.scenarios.lab import ROOT, Lab

MOST = 2000
ENV = "chaos"
QUOTAS = {
    "ml.m5.large for training job usage": MOST,
    "ml.m5.large for spot training job usage": MOST,
    "Number of instances across training jobs": MOST,
    "Total number of instances across training jobs": MOST,
}
SERVICES = ("stepfunctions", "dynamodb", "sagemaker", "s3", "logs", "cloudformation", "fsx")
STOP_SECONDS = 10.0
"""Between SIGTERM and SIGKILL, 120 on AWS: a frozen host waits for its whole length."""
TORCH_AT_ONCE = 2
"""Real training takes a core; more of it at a time would only look like hosts that hang."""


class Seeds:
    """Runs seeds; the torch baseline is trained once, when first needed."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        for service in SERVICES:
            lab.cloud.client(service)  # making one is not safe in threads
        assert lab.cloud.outputs
        lab.control.settings(stop_seconds=STOP_SECONDS)
        self.watch = Watch(lab)
        self._torch = threading.Semaphore(TORCH_AT_ONCE)
        self._lock, self._baseline = threading.Lock(), threading.Lock()
        self._weights = ""

    def run(
        self, seeds: Iterable[int], at_once: int, say: Callable[[dict[str, Any]], None]
    ) -> list[dict[str, Any]]:
        """A report row a seed, in the order of seeds."""

        def one(seed: int) -> dict[str, Any]:
            row = self._one(seed)
            with self._lock:
                say(row)
            return row

        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(one, seeds))

    def _one(self, seed: int) -> dict[str, Any]:
        made = plan(seed)
        began = time.monotonic()
        try:
            if made.trainer != "torch":
                return self._judged(seed)
            with self._torch:
                return self._judged(seed)
        except Exception as error:  # noqa: BLE001 - a seed that breaks the driver is a violation
            return {
                "seed": seed,
                "trainer": made.trainer,
                "faults": [str(f) for f in made.faults],
                "outcome": "error",
                "launches": 0,
                "seconds": round(time.monotonic() - began, 1),
                "violations": [f"{type(error).__name__}: {error}"],
            }

    def _judged(self, seed: int) -> dict[str, Any]:
        made = plan(seed)
        weights = self._unbroken() if made.trainer == "torch" else ""
        story = live(self._lab, self.watch, made)
        found = violations(self._lab, self.watch, story, weights)
        return {**outcome(self._lab, story), "violations": found}

    def _unbroken(self) -> str:
        with self._baseline:
            return self._weights or self._train_unbroken()

    def _train_unbroken(self) -> str:
        spec = plan(TORCH_EVERY - 1).spec
        spec = {**spec, "compute": [{"instance_type": "ml.m5.large", "nodes": 2}]}
        arn = self._lab.start("chaos-unbroken", spec)
        assert self._lab.end(arn, 300)["status"] == "SUCCEEDED"
        self._weights = self._lab.weights("chaos-unbroken")
        return self._weights

    def denied(self) -> list[dict[str, Any]]:
        """Calls that a role did not allow: read by a process of its own, the file is long."""
        done = subprocess.run(
            [sys.executable, "-m", "emulator", "access-report", "--state", str(self._lab.work)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        return list(json.loads(done.stdout)["denied"])

    def close(self) -> None:
        self.watch.close()


def line(row: dict[str, Any]) -> str:
    """What a person reads of one seed."""
    end = row["outcome"] + (f" ({row['class']})" if row.get("class") else "")
    said = (
        f"seed {row['seed']:>6}  {row['trainer']:<5}  {end:<28}  {row['launches']} launches  "
        f"{row['seconds']:>6.1f} s  {' '.join(row['faults']) or '-'}"
    )
    for text in row["violations"]:
        said += f"\n  VIOLATION {text}\n  again: make chaos SEEDS=1 SEED_START={row['seed']}"
    return said
