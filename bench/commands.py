"""What people wait for: ``python -m bench.commands``, with node on PATH as the Makefile puts it.

One synthesis, and the parts of ``make check`` as it runs them, each once. The wall's clock is also
that of what else this machine does, so CPU seconds are judged: of the command and of all that it
started, node included, which outlives its parent by a moment (Linux: this process adopts those).
Merges into bench/results/commands.json.
"""

import argparse
import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "bench" / "results" / "commands.json"
PR_SET_CHILD_SUBREAPER = 36
CDK = "node_modules/.bin/cdk synth --quiet"
COMMANDS = {
    "synth": f"{CDK} --context env=dev --output {{out}}/dev",
    "lint": ".venv/bin/ruff check . && .venv/bin/ruff format --check --quiet .",
    "types": ".venv/bin/mypy",
    "imports": ".venv/bin/lint-imports",
    "schema": ".venv/bin/python -m everstep.contracts.schema --check",
    "cfn-lint": ".venv/bin/cfn-lint {out}/dev/*.template.json",
    "iam-lint": ".venv-checks/bin/python -W ignore stacks/proof/iam_lint.py {out}/dev",
    "checkov": "cd {out}/dev && {root}/.venv-checks/bin/checkov --directory . --framework "
    "cloudformation --compact --quiet --skip-download",
    "security": f"{CDK} --context env=prod --output {{out}}/prod && .venv/bin/python -m "
    "stacks.proof.document {out}/prod --check",
    "tests": '.venv/bin/python -m pytest -q -m "not slow and not scenario" tests/contracts '
    "tests/policy tests/lambdas",
}


def measured(command: str) -> dict[str, Any]:
    """Seconds of the wall's clock, and of all processes. Raises for a command that fails."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, shell=True, cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
    wall = time.monotonic() - began
    while True:
        try:
            os.wait()  # what the command left behind, a moment each
        except ChildProcessError:
            break
    if done.returncode:
        raise SystemExit(f"exit {done.returncode}: {command}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_seconds": round(wall, 1), "cpu_seconds": round(cpu, 1)}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.commands", description=__doc__)
    parser.add_argument("--only", nargs="*", choices=COMMANDS, default=list(COMMANDS))
    args = parser.parse_args(argv)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    found = json.loads(REPORT.read_text()) if REPORT.exists() else {}
    with tempfile.TemporaryDirectory(prefix="everstep-commands-") as out:
        for name, command in COMMANDS.items():
            if name not in args.only:
                continue
            found[name] = {
                "command": command,
                **measured(command.format(out=out, root=ROOT)),
                "load_average": round(os.getloadavg()[0], 1),
                "cores": os.cpu_count(),
            }
            print(name, found[name], flush=True)
            REPORT.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
