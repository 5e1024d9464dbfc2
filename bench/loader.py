"""The loader's figures: ``python -m bench.loader --peers``. Writes bench/results/loader.json.

(c) tokens/s in one process: ours, bare memmap loops, litdata, grain, mosaicml-streaming. Each
round runs every loader in a fresh process, one after another; the figure is the median of the
rounds. All run in the same interpreter: with ``--peers`` one of their own below ``--cache``
(EVERSTEP_BENCH_CACHE), where pip installs them; without it ours and the bare loops run in this.
(d) time from nothing to the first batch at 1 % and 99 % of a corpus of 10¹² tokens.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

from bench.loader_contenders import BARE, OURS, PEERS
from bench.loader_corpus import LENGTH, ROWS, TOKENS, VOCAB, make_corpus, make_large
from trainer.data import Dataset, Samples

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "bench" / "results" / "loader.json"
PACKAGES = ["litdata==0.2.76", "grain==0.2.18", "mosaicml-streaming==0.13.0"]
LEAST_RATE = 100e6
LONGEST_RESTORE = 0.05
_GLOBAL_BATCH, _RANKS = 512, 64


def peers_python(cache: Path) -> Path:
    """The interpreter of the peers' environment, made the first time."""
    home = cache / "peers"
    python, done = home / "bin" / "python", home / ".installed"
    wanted = [*PACKAGES, f"torch=={version('torch')}", f"pydantic=={version('pydantic')}"]
    if not done.exists() or done.read_text() != repr(wanted):
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *wanted], check=True)
        done.write_text(repr(wanted))
    return python


def rate(python: Path, name: str, corpus: Path, seconds: float) -> float:
    command = [str(python), "-m", "bench.loader_contenders", name]
    done = subprocess.run(
        [*command, "--corpus", str(corpus), "--seconds", str(seconds)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(done.stdout.split()[-1])


def restore_seconds(folder: Path, share: float) -> tuple[float, float]:
    """(opening the dataset, locating the position and reading its first batch)."""
    began = time.perf_counter()
    dataset = Dataset(folder, verify=False)
    opened = time.perf_counter()
    samples = Samples([dataset], 4096, 0, VOCAB, _GLOBAL_BATCH)
    position = int(samples.count * share) // _GLOBAL_BATCH * _GLOBAL_BATCH
    batch = samples.batch(range(position, position + _GLOBAL_BATCH // _RANKS))
    assert batch.tokens.shape == (_GLOBAL_BATCH // _RANKS, 4097)
    return opened - began, time.perf_counter() - opened


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", action="store_true", help="measure the peers too")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of one measurement")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(os.environ.get("EVERSTEP_BENCH_CACHE") or ROOT / ".everstep" / "bench"),
    )
    args = parser.parse_args()
    make_corpus(args.cache / "corpus")
    large = make_large(args.cache / "large")
    python = peers_python(args.cache) if args.peers else Path(sys.executable)
    rates: dict[str, list[float]] = {n: [] for n in OURS | BARE | (PEERS if args.peers else {})}
    restores: dict[str, list[tuple[float, float]]] = {"1 %": [], "99 %": []}
    for _ in range(args.rounds):
        for name, taken in rates.items():
            taken.append(rate(python, name, args.cache / "corpus", args.seconds))
        restores["1 %"].append(restore_seconds(large, 0.01))
        restores["99 %"].append(restore_seconds(large, 0.99))
    return report(rates, restores, args.rounds)


def report(
    rates: dict[str, list[float]], restores: dict[str, list[tuple[float, float]]], rounds: int
) -> int:
    """Prints and writes the figures; 1 where one misses what is promised."""
    medians = {name: statistics.median(taken) for name, taken in rates.items()}
    loaders = {
        name: {
            "million_tokens_per_s": round(medians[name] / 1e6, 1),
            "spread": [round(min(taken) / 1e6, 1), round(max(taken) / 1e6, 1)],
            "ours_is_times": round(medians["ours"] / medians[name], 2),
        }
        for name, taken in rates.items()
    }
    places = {
        place: {
            "restore_ms": round(1000 * statistics.median(r for _, r in taken), 2),
            "spread_ms": [round(1000 * f(r for _, r in taken), 2) for f in (min, max)],
            "open_ms": round(1000 * statistics.median(o for o, _ in taken), 2),
        }
        for place, taken in restores.items()
    }
    for name, row in loaders.items():
        low, high = row["spread"]
        print(f"{name:<24} {row['million_tokens_per_s']:>8} Mtok/s  [{low}, {high}]")
    for place, row in places.items():
        print(f"restore at {place:<5} {row['restore_ms']} ms (opening the index: {row['open_ms']})")
    shape = {"length": LENGTH, "rows": ROWS, "tokens": TOKENS, "large_tokens": 10**12}
    result = {"rounds": rounds, **shape, "loaders": loaders, "restore": places}
    REPORT.write_text(json.dumps(result, indent=2) + "\n")
    peers = [medians[name] for name in medians if name not in OURS]
    held = (
        medians["ours"] >= max([LEAST_RATE, *peers])
        and max(row["restore_ms"] for row in places.values()) <= LONGEST_RESTORE * 1000
    )
    print("held" if held else "NOT held: 100 Mtok/s, every peer, 50 ms")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
