"""What a checkpoint costs: ``python -m bench.checkpoint``; writes bench/results/checkpoint.json.

Two gloo ranks train a Llama of some 6 M parameters (sequence 512, fp32, FSDP2) and save the same
tensors in each way, interleaved. Ours hashes every file, commits a manifest and removes the last
but two; the peers do none of it. ``--only`` runs one stage and keeps the others' figures:

``stall``   *training time lost*: seconds of ``--steps`` steps with a save begun before the first of
            them, until it is durable on every rank, less as many steps of the same round without
            one (the median of five). And, with no step beside it, a save's seconds until durable
            and its CPU seconds (both ranks and their children), which a loaded machine blurs least.
``load``    Seconds of a load, verification included. Files are in the page cache.
``memory``  Peak of a whole process while loading and while training, in fresh processes.
``s3``      Requests and bytes of one save to S3 (a moto server in this process).
"""

import argparse
import json
import multiprocessing
import os
import platform
import shutil
import socket
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.checkpoint_bed import RANKS, Bed, loads, ways

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "bench" / "results" / "checkpoint.json"
CONTEXT = multiprocessing.get_context("spawn")


def stall(rank: int, port: int, scratch: Path, rounds: int, steps: int, out: Any) -> None:
    bed = Bed(rank, port)
    begins = ways(bed, scratch)
    names = list(begins)
    figures: dict[str, dict[str, list[float]]] = {
        kind: {name: [] for name in names} for kind in ("lost", "alone", "cpu", "first")
    }
    base: list[float] = []
    number = 0

    def measured(name: str | None, steps: int) -> tuple[float, float]:
        """Seconds, and CPU seconds of both ranks and their children."""
        nonlocal number
        number += 1
        if rank == 0:  # what the peers saved before
            for old in scratch.glob("dcp-*"):
                shutil.rmtree(old)
        bed.dist.barrier()
        began, worked = time.perf_counter(), _cpu_seconds()
        wait = begins[name](number) if name else lambda: None
        for _ in range(steps):
            bed.step()
        wait()
        mine = _cpu_seconds() - worked
        bed.dist.barrier()
        taken = time.perf_counter() - began
        cpu = [0.0] * RANKS
        bed.dist.all_gather_object(cpu, mine)
        return taken, sum(cpu)

    measured(None, steps)
    for turn in range(rounds + 1):
        without = [measured(None, steps)[0]]
        taken: dict[str, float] = {}
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            taken[name] = measured(name, steps)[0]
            without.append(measured(None, steps)[0])
        middle = statistics.median(without)
        for name in names:
            figures["lost" if turn else "first"][name].append(taken[name] - middle)
            seconds, cpu_seconds = measured(name, 0)
            if turn:
                figures["alone"][name].append(seconds)
                figures["cpu"][name].append(cpu_seconds)
        base.append(middle / steps)
    if rank == 0:
        newest = max((scratch / "ours").iterdir())
        size = sum(path.stat().st_size for path in newest.iterdir())
        out.put(figures | {"step_seconds": base, "checkpoint_bytes": size})
    bed.dist.barrier()
    os._exit(0)  # process mode leaves a daemon that waits for its parent


def saving(rank: int, port: int, scratch: Path, out: Any) -> None:
    """One checkpoint of ours, and one of DCP's, for the loads."""
    import torch.distributed.checkpoint as dcp

    bed = Bed(rank, port)
    saver = bed.saver(str(scratch / "ours"), scratch / "node", bed.group())
    saver.save(bed.tensors, bed.loop.model_copy(update={"step": 1}))
    assert saver.settle()
    dcp.save(bed.tensors, checkpoint_id=scratch / "dcp")
    out.put(rank)
    bed.dist.barrier()
    bed.dist.destroy_process_group()


def loading(rank: int, port: int, scratch: Path, rounds: int, out: Any) -> None:
    bed = Bed(rank, port)
    seconds: dict[str, list[float]] = {}
    ready = loads(bed, scratch)
    for turn in range(rounds + 1):
        for name, load in ready.items():
            bed.dist.barrier()
            began = time.perf_counter()
            load()
            bed.dist.barrier()
            if turn:
                seconds.setdefault(name, []).append(time.perf_counter() - began)
    if rank == 0:
        out.put(seconds)
    bed.dist.destroy_process_group()


def peak(rank: int, port: int, scratch: Path, way: str, out: Any) -> None:
    """Peak memory of this process, after one load, or after two steps (``train``)."""
    bed = Bed(rank, port, trained=way == "train")
    (loads(bed, scratch) | {"train": bed.step})[way]()
    bed.dist.barrier()
    if rank == 0:
        out.put(_peak_bytes())
    bed.dist.destroy_process_group()


def _cpu_seconds() -> float:
    """User and system time of this process and, to the clock's tick, of what it started."""
    return time.process_time() + sum(_ticks(child) for child in _children(os.getpid()))


def _ticks(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(_ticks(child) for child in _children(pid))


def _children(pid: int) -> list[int]:
    return [
        int(child)
        for path in Path(f"/proc/{pid}/task").glob("*/children")
        for child in path.read_text().split()
    ]


def _peak_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise OSError("no VmHWM in /proc/self/status")


def s3(rank: int, port: int, scratch: Path, endpoint: str, out: Any) -> None:
    """Requests and bytes of one save, of the one rank a node that uploads."""
    os.environ |= {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    bed = Bed(rank, port)
    saver = bed.saver("s3://bench/run", scratch / "node", bed.group())
    sent: list[int] = []
    saver._store._s3.meta.events.register(
        "before-send.s3.PutObject",
        lambda request, **_: sent.append(int(request.headers["Content-Length"])),
    )
    saver.save(bed.tensors, bed.loop.model_copy(update={"step": 1}))
    assert saver.settle()
    out.put({"rank": rank, "puts": len(sent), "bytes": sum(sent)})
    bed.dist.barrier()
    bed.dist.destroy_process_group()


def _on_ranks(target: Callable[..., None], *args: Any, answers: int = 1) -> list[Any]:
    """The given function on two fresh processes; what they put."""
    out, port = CONTEXT.SimpleQueue(), _free_port()
    processes = [
        CONTEXT.Process(target=target, args=(rank, port, *args, out)) for rank in range(RANKS)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(1800)
    if codes := [process.exitcode for process in processes if process.exitcode != 0]:
        raise RuntimeError(f"a rank of {target.__name__} ended with {codes[0]}")
    return [out.get() for _ in range(answers)]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _spread(values: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), 4),
        "least": round(min(values), 4),
        "most": round(max(values), 4),
    }


def _sent_to_s3(scratch: Path) -> dict[str, Any]:
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    endpoint = f"http://localhost:{server.get_host_and_port()[1]}"
    keys = {"aws_access_key_id": "bench", "aws_secret_access_key": "bench"}
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)
    client.create_bucket(Bucket="bench")
    ranks = _on_ranks(s3, scratch, endpoint, answers=RANKS)
    server.stop()
    return {
        "puts_of_the_node": sum(r["puts"] for r in ranks),
        "bytes_of_the_node": sum(r["bytes"] for r in ranks),
        "ranks_that_upload": sum(1 for r in ranks if r["puts"]),
    }


def _stall_stage(scratch: Path, args: argparse.Namespace) -> dict[str, Any]:
    [figures] = _on_ranks(stall, scratch, args.rounds, args.steps)
    spreads = {
        kind: {name: _spread(values) for name, values in figures[kind].items()}
        for kind in ("lost", "alone", "cpu")
    }
    bare = {
        kind: min(of[name]["median"] for name in of if name.startswith("dcp.async_save"))
        for kind, of in spreads.items()
    }
    ours = {kind: of["everstep"]["median"] for kind, of in spreads.items()}
    return {
        "rounds": args.rounds,
        "steps": args.steps,
        "checkpoint_bytes": figures["checkpoint_bytes"],
        "step_seconds": _spread(figures["step_seconds"]),
        "lost_seconds": spreads["lost"],
        "lost_seconds_of_the_first_save": {n: round(v[0], 3) for n, v in figures["first"].items()},
        "seconds_with_no_step_beside": spreads["alone"],
        "cpu_seconds_with_no_step_beside": spreads["cpu"],
        "lost_by_ours_less_by_better_async_save": round(ours["lost"] - bare["lost"], 4),
        "cpu_of_ours_over_better_async_save": round(ours["cpu"] / bare["cpu"], 3),
    }


def _load_stage(scratch: Path, args: argparse.Namespace) -> dict[str, Any]:
    _on_ranks(saving, scratch, answers=RANKS)
    [seconds] = _on_ranks(loading, scratch, args.rounds)
    return {"load_seconds": {name: _spread(values) for name, values in seconds.items()}}


def _memory_stage(scratch: Path, args: argparse.Namespace) -> dict[str, Any]:
    _on_ranks(saving, scratch, answers=RANKS)
    ways = ("train", "everstep", "dcp.load")
    return {"peak_bytes": {way: _on_ranks(peak, scratch, way)[0] for way in ways}}


def _s3_stage(scratch: Path, args: argparse.Namespace) -> dict[str, Any]:
    return _sent_to_s3(scratch)


STAGES = {"stall": _stall_stage, "load": _load_stage, "memory": _memory_stage, "s3": _s3_stage}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=4, help="steps a measurement")
    parser.add_argument("--only", choices=STAGES, help="one stage; the others' figures stay")
    args = parser.parse_args()
    report: dict[str, Any] = json.loads(REPORT.read_text()) if REPORT.exists() else {}
    report["machine"] = {"cpus": os.cpu_count(), "python": platform.python_version()}
    report["ranks"] = RANKS
    for name in [args.only] if args.only else STAGES:
        scratch = Path(tempfile.mkdtemp(prefix="everstep-bench-"))
        (scratch / "node").mkdir()
        before = os.getloadavg()[0]
        try:
            figures = STAGES[name](scratch, args)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        # these processes are a load of two themselves
        figures["load_average"] = {
            "before": round(before, 1),
            "after": round(os.getloadavg()[0], 1),
        }
        report[name] = figures
        REPORT.write_text(json.dumps(report, indent=2) + "\n")
        print(json.dumps({name: figures}, indent=2), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
