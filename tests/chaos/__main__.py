"""``make chaos SEEDS=200 SEED_START=0``: random sequences of faults, and a report of them."""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.chaos.seeds import ENV, QUOTAS, Seeds, line
from tests.scenarios.lab import ROOT, deployed

REPORT = ROOT / "bench" / "results" / "chaos.json"


def main(argv: list[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    rows = _earlier(args.out) if args.merge else {}
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="everstep-chaos-") as folder,
        deployed(Path(args.keep or folder) / "aws", QUOTAS, ENV) as lab,
    ):
        seeds = Seeds(lab)
        try:
            wanted = range(args.start, args.start + args.seeds, args.every)
            made = seeds.run(wanted, args.at_once, lambda row: print(line(row), flush=True))
            denied = seeds.denied()
        finally:
            seeds.close()
    commit = _commit()
    rows |= {row["seed"]: {**row, "commit": commit} for row in made}
    report = _report([rows[seed] for seed in sorted(rows)], denied)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(report, indent=1) + "\n")
    bad = sum(bool(row["violations"]) for row in made) + len(denied)
    print(
        f"{len(made)} seeds in {time.monotonic() - began:.0f} s: "
        f"{sum(len(row['faults']) for row in made)} faults, "
        f"{dict(Counter(row['outcome'] for row in made))}, {bad} violations; {args.out}"
    )
    for call in denied:
        print(f"  VIOLATION denied call: {call}")
    return 1 if bad else 0


def _commit() -> str:
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return commit.stdout.strip()


def _report(rows: list[dict[str, Any]], denied: list[Any]) -> dict[str, Any]:
    kinds = Counter(fault.partition("@")[0] for row in rows for fault in row["faults"])
    return {
        "seeds": len(rows),
        "outcomes": dict(Counter(row["outcome"] for row in rows)),
        "trainers": dict(Counter(row["trainer"] for row in rows)),
        "faults": dict(sorted(kinds.items())),
        "launches": sum(row["launches"] for row in rows),
        "violations": sum(len(row["violations"]) for row in rows),
        "denied_calls": len(denied),
        "rows": rows,
    }


def _earlier(path: Path) -> dict[int, dict[str, Any]]:
    if not path.exists():
        return {}
    return {row["seed"]: row for row in json.loads(path.read_text())["rows"]}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--every", type=int, default=1, help="each so many seeds, one")
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--out", type=Path, default=REPORT)
    parser.add_argument("--merge", action="store_true", help="keep the report's other seeds")
    parser.add_argument("--keep", type=Path, help="keep the emulator's state in this folder")
    return parser


if __name__ == "__main__":
    sys.exit(main())
