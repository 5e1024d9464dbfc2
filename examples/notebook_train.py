"""A training program that knows nothing of Everstep: SageMaker's own folders, no progress lines.

Its "weights" are a hash chained over the steps, kept in /opt/ml/checkpoints, which SageMaker copies
to the job's CheckpointConfig and back: a program that resumes ends with the same ones.
"""

import hashlib
import json
import os
import time
from pathlib import Path

# On SageMaker /opt/ml; the emulator gives each host a folder of its own.
ML = Path(os.environ.get("EVERSTEP_ML_ROOT", "/opt/ml"))
STATE = ML / "checkpoints" / "state.json"


def main() -> None:
    flags = json.loads((ML / "input/config/hyperparameters.json").read_text())
    kept = json.loads(STATE.read_text()) if STATE.exists() else {"step": 0, "weights": "start"}
    print("begins at step", kept["step"], flush=True)
    while kept["step"] < int(flags["steps"]):
        time.sleep(float(flags.get("seconds", "0.1")))
        step = kept["step"] + 1
        weights = hashlib.sha256(f"{kept['weights']} {step}".encode()).hexdigest()
        kept = {"step": step, "weights": weights}
        half = STATE.with_suffix(".half")
        half.write_text(json.dumps(kept))
        half.replace(STATE)
    (ML / "model" / "weights.txt").write_text(kept["weights"])
    print("done at step", kept["step"], flush=True)


if __name__ == "__main__":
    main()
