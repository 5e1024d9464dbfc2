"""A training program without torch: counts steps, keeps checkpoints, obeys SIGTERM or not."""

import json
import os
import signal
import sys
import time
from pathlib import Path

ROOT = Path(os.environ["EVERSTEP_ML_ROOT"])


def say(**fields: object) -> None:
    print(json.dumps(fields, separators=(",", ":")), flush=True)


def main() -> int:
    parameters = json.loads((ROOT / "input/config/hyperparameters.json").read_text())
    resources = json.loads((ROOT / "input/config/resourceconfig.json").read_text())
    steps, pause = int(parameters.get("steps", 3)), float(parameters.get("pause", 0.02))
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True
        print("got SIGTERM", flush=True)

    if parameters.get("deaf") != "yes":
        signal.signal(signal.SIGTERM, stop)
    else:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    data = sorted(p.name for p in (ROOT / "input/data").rglob("*") if p.is_file())
    say(note="files", files=data, host=resources["current_host"], hosts=resources["hosts"])
    counter = ROOT / "checkpoints" / "step.txt"
    begin = int(counter.read_text()) if counter.exists() else 0
    for step in range(begin + 1, steps + 1):
        if stopping:
            break
        time.sleep(pause)
        say(everstep="step", step=step, loss=1.0 / step)
        counter.write_text(str(step))
        if str(step) == parameters.get("fail_at") and resources["current_host"] == "algo-1":
            (ROOT / "output" / "failure").write_text(f"broke at step {step}")
            return 3
    (ROOT / "model" / "model.txt").write_text("weights")
    return 0


if __name__ == "__main__":
    sys.exit(main())
