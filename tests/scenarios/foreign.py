"""A trainer that is not ours: imports nothing of Everstep, keeps its contract, costs no torch.

Its "weights" are a hash chained over the steps, so a run that was broken and resumed ends with the
same ones as an unbroken run, and with others if a step was lost or done twice.
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

import boto3

ML = Path(os.environ.get("EVERSTEP_ML_ROOT", "/opt/ml"))
BUCKET, _, PREFIX = os.environ["EVERSTEP_CHECKPOINT_URI"].removeprefix("s3://").partition("/")
LAUNCH = int(os.environ["EVERSTEP_LAUNCH"])
STEP_SECONDS = float(os.environ.get("FOREIGN_STEP_SECONDS", "0.05"))
START = os.environ.get("EVERSTEP_START_FROM", "").rstrip("/")
WEIGHTS_ONLY = os.environ.get("EVERSTEP_START_WITH") == "weights"
BUG_AT = int(os.environ.get("FOREIGN_BUG_AT", "0"))
HURRIES = "FOREIGN_HURRIES" in os.environ
"""Steps take no time once an object ``hurry`` lies beside the checkpoints."""


def say(**fields: object) -> None:
    print(json.dumps(fields, separators=(",", ":")), flush=True)


def newest(s3) -> tuple[int, str]:
    """(step, state) of the newest committed checkpoint."""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{PREFIX}/")
    keys = sorted(
        item["Key"]
        for page in pages
        for item in page.get("Contents", [])
        if item["Key"].endswith("/manifest.json")
    )
    if not keys and not START:
        return 0, "start"
    folder = keys[-1].rsplit("/", 1)[0] if keys else START.removeprefix(f"s3://{BUCKET}/")
    state = s3.get_object(Bucket=BUCKET, Key=f"{folder}/state.txt")["Body"].read().decode()
    return 0 if WEIGHTS_ONLY and not keys else int(folder.rsplit("/", 1)[-1][5:13]), state


def save(s3, step: int, state: str, final: bool) -> None:
    folder = f"{PREFIX}/step-{step:08d}.{LAUNCH:05d}"
    s3.put_object(Bucket=BUCKET, Key=f"{folder}/state.txt", Body=state.encode())
    manifest = {
        "step": step,
        "launch": LAUNCH,
        "world_size": 1,
        "tokens": step,
        "final": final,
        "entries": [
            {
                "path": "state.txt",
                "size": len(state),
                "sha256": hashlib.sha256(state.encode()).hexdigest(),
            }
        ],
    }
    s3.put_object(Bucket=BUCKET, Key=f"{folder}/manifest.json", Body=json.dumps(manifest).encode())


def told(s3, word: str) -> bool:
    return bool(s3.list_objects_v2(Bucket=BUCKET, Prefix=f"{PREFIX}/{word}").get("KeyCount"))


def main() -> int:
    config = json.loads((ML / "input/config/resourceconfig.json").read_text())
    flags = json.loads((ML / "input/config/hyperparameters.json").read_text())
    steps, every = int(flags["stop.steps"]), int(flags["checkpoint.every_steps"])
    s3 = boto3.client("s3")
    step, state = newest(s3)
    leader = config["current_host"] == config["hosts"][0]
    if leader:
        say(everstep="resume", step=step)
    hurry = False
    while step < steps:
        hurry = hurry or (HURRIES and told(s3, "hurry"))
        time.sleep(0 if hurry else STEP_SECONDS)
        step += 1
        state = hashlib.sha256(f"{state} {step}".encode()).hexdigest()
        if step == BUG_AT and not told(s3, "mended"):
            raise KeyError("the same bug every time")
        if leader:
            say(everstep="step", step=step, loss=1.0 / step, step_seconds=STEP_SECONDS)
            if step % every == 0 or step == steps:
                save(s3, step, state, final=step == steps)
    return 0


if __name__ == "__main__":
    sys.exit(main())
