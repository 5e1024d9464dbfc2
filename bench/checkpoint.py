"""What a checkpoint costs: ``python -m bench.checkpoint``; writes bench/results/checkpoint.json.

Two gloo ranks train a Llama of some 6 M parameters (sequence 512, fp32, FSDP2) and save the same
tensors in each way, interleaved. A checkpoint's cost is *training time lost*: the seconds that
``--steps`` steps take with a save begun before the first of them, until it is durable on every
rank, less what as many steps of the same round take without one. Ours hashes every file and
commits a manifest; the peers do neither. Then: time to load, memory at its peak while loading and
while training (fresh processes), and what a save sends to S3 (a moto server in this process).
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
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "bench" / "results" / "checkpoint.json"
RANKS = 2
SHAPE = {"dim": 256, "layers": 6, "heads": 8, "kv_heads": 8, "ffn_dim": 704, "vocab_size": 2048}
SEQUENCE, BATCH = 512, 2
CONTEXT = multiprocessing.get_context("spawn")


class Bed:
    """One rank's model, optimizer and process groups; ``step`` trains once."""

    def __init__(self, rank: int, port: int, seed: int = 0) -> None:
        import torch
        import torch.distributed as dist
        from torch.distributed.fsdp import fully_shard

        from everstep.contracts.models import ModelConfig
        from trainer.checkpoint.state import LoopState, live_tensors
        from trainer.model import Transformer

        torch.set_num_threads(1)
        os.environ |= {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "RANK": str(rank),
            "WORLD_SIZE": str(RANKS),
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
        }
        dist.init_process_group("gloo", init_method="env://", rank=rank, world_size=RANKS)
        self.rank, self.dist = rank, dist
        torch.manual_seed(seed)
        self.model = Transformer(ModelConfig.model_validate(SHAPE))
        for block in self.model.blocks.values():
            fully_shard(block)
        fully_shard(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.batch = torch.randint(0, SHAPE["vocab_size"], (BATCH, SEQUENCE + 1))
        self.tensors = live_tensors(self.model, self.optimizer)
        self.loop = LoopState()
        self.step()

    def group(self) -> Any:
        return self.dist.new_group(backend="gloo", timeout=timedelta(minutes=10))

    def step(self) -> None:
        import torch.nn.functional as F

        logits = self.model(self.batch[:, :-1])
        F.cross_entropy(logits.flatten(0, 1), self.batch[:, 1:].flatten()).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def saver(self, uri: str, node_dir: Path, group: Any) -> Any:
        from everstep.contracts.run_spec import Checkpoint
        from trainer.checkpoint.saver import Saver
        from trainer.host import Worker
        from trainer.report import Reporter
        from trainer.store import open_store

        worker = Worker(
            rank=self.rank,
            local_rank=self.rank,
            world_size=RANKS,
            local_world_size=RANKS,
            node_dir=node_dir,
            started_epoch=time.time(),
        )
        quiet = Reporter(-1)
        return Saver(
            open_store(uri),
            group,
            worker,
            quiet,
            launch=1,
            checkpoint=Checkpoint(keep_last=2),
            broken=set(),
            last_step=0,
        )


def _ways(bed: Bed, scratch: Path) -> dict[str, Callable[[int], Callable[[], None]]]:
    """Each begins save number n, and returns what waits until it is durable."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

    saver = bed.saver(str(scratch / "ours"), scratch / "node", bed.group())
    groups = {kind: bed.group() for kind in AsyncCheckpointerType}

    def ours(number: int) -> Callable[[], None]:
        saver.save(bed.tensors, bed.loop.model_copy(update={"step": number + 1}))

        def wait() -> None:
            assert saver.settle()

        return wait

    def bare(number: int) -> Callable[[], None]:
        dcp.save(bed.tensors, checkpoint_id=scratch / f"save-{number}", process_group=sync)
        return lambda: None

    def asynchronous(kind: AsyncCheckpointerType) -> Callable[[int], Callable[[], None]]:
        def begin(number: int) -> Callable[[], None]:
            future = dcp.async_save(
                bed.tensors,
                checkpoint_id=scratch / f"{kind.value}-{number}",
                process_group=groups[kind],
                async_checkpointer_type=kind,
            )
            return lambda: future.result()

        return begin

    sync = bed.group()
    return {
        "everstep": ours,
        "dcp.save": bare,
        "dcp.async_save thread": asynchronous(AsyncCheckpointerType.THREAD),
        "dcp.async_save process": asynchronous(AsyncCheckpointerType.PROCESS),
    }


def stall(rank: int, port: int, scratch: Path, rounds: int, steps: int, out: Any) -> None:
    bed = Bed(rank, port)
    ways = _ways(bed, scratch)
    lost: dict[str, list[float]] = {name: [] for name in ways}
    worked: dict[str, list[float]] = {name: [] for name in ways}
    first: dict[str, float] = {}
    base: list[float] = []

    def measured(begin: Callable[[], Callable[[], None]]) -> tuple[float, float]:
        """Seconds, and CPU seconds of both ranks and their children."""
        bed.dist.barrier()
        began, worked = time.perf_counter(), _cpu_seconds(os.getpid())
        wait = begin()
        for _ in range(steps):
            bed.step()
        wait()
        bed.dist.barrier()
        taken = time.perf_counter() - began
        cpu = [0.0] * RANKS
        bed.dist.all_gather_object(cpu, _cpu_seconds(os.getpid()) - worked)
        return taken, sum(cpu)

    measured(lambda: lambda: None)
    for number in range(rounds + 1):
        without = [measured(lambda: lambda: None)]
        taken: dict[str, tuple[float, float]] = {}
        names = list(ways)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            taken[name] = measured(partial(ways[name], number))
            without.append(measured(lambda: lambda: None))
        middle, cpu = (statistics.median(column) for column in zip(*without, strict=True))
        for name, (seconds, cpu_seconds) in taken.items():
            if number == 0:
                first[name] = seconds - middle
            else:
                lost[name].append(seconds - middle)
                worked[name].append(cpu_seconds - cpu)
        base.append(middle / steps)
    if rank == 0:
        out.put({"lost": lost, "worked": worked, "first": first, "step_seconds": base})
    bed.dist.barrier()
    os._exit(0)  # process mode leaves a daemon that waits for its parent


def loading(rank: int, port: int, scratch: Path, way: str, out: Any) -> None:
    """Peak memory of this process and the seconds of a load. ``train``: two steps, no load."""
    bed = Bed(rank, port, seed=1) if way == "train" else _unstepped(rank, port)
    bed.dist.barrier()
    began = time.perf_counter()
    if way == "train":
        bed.step()
    elif way == "everstep":
        _load_ours(bed, scratch)
    else:
        import torch.distributed.checkpoint as dcp

        newest = max(scratch.glob("save-*"), key=lambda p: int(p.name.rpartition("-")[2]))
        dcp.load(bed.tensors, checkpoint_id=newest)
    seconds = time.perf_counter() - began
    bed.dist.barrier()
    if rank == 0:
        out.put({"seconds": seconds, "peak_bytes": _peak_bytes()})
    bed.dist.destroy_process_group()


def _unstepped(rank: int, port: int) -> Bed:
    Bed.step, honest = (lambda self: None), Bed.step
    try:
        return Bed(rank, port)
    finally:
        Bed.step = honest


def _load_ours(bed: Bed, scratch: Path) -> None:
    from trainer.checkpoint.restore import Finder, load
    from trainer.report import Reporter
    from trainer.store import open_store

    saver = bed.saver(str(scratch / "ours"), scratch / "node", group := bed.group())
    quiet = Reporter(-1)
    finder = Finder(open_store(str(scratch / "ours")), group, saver._worker, quiet)
    found = finder.find(bed.tensors, bed.loop.mesh)
    assert found is not None
    load(found, bed.tensors, bed.loop, group, saver._worker, quiet, 0)


def _cpu_seconds(pid: int) -> float:
    """User and system time of a process and what it started."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    own = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(_cpu_seconds(int(child)) for child in children)


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=8, help="steps a measurement")
    args = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="everstep-bench-"))
    (scratch / "node").mkdir()
    try:
        [figures] = _on_ranks(stall, scratch, args.rounds, args.steps)
        print(json.dumps(figures), flush=True)
        loads = {"train": [], "everstep": [], "dcp.load": []}
        for _ in range(3):
            for way, seen in loads.items():
                seen.extend(_on_ranks(loading, scratch, way))
        sent = _sent_to_s3(scratch)
        newest = max((scratch / "ours").iterdir())
        size = sum(path.stat().st_size for path in newest.iterdir())
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    lost = {name: _spread(values) for name, values in figures["lost"].items()}
    bare = min(lost[n]["median"] for n in lost if n.startswith("dcp.async_save"))
    report = {
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version()},
        "ranks": RANKS,
        "rounds": args.rounds,
        "checkpoint_bytes": size,
        "step_seconds": _spread(figures["step_seconds"]),
        "lost_seconds": lost,
        "cpu_seconds": {name: _spread(values) for name, values in figures["worked"].items()},
        "lost_seconds_of_the_first_save": {k: round(v, 3) for k, v in figures["first"].items()},
        "lost_by_ours_over_better_async_save": round(lost["everstep"]["median"] / bare, 3),
        "load_seconds": {
            way: _spread([s["seconds"] for s in seen])
            for way, seen in loads.items()
            if way != "train"
        },
        "peak_memory_bytes": {
            way: max(s["peak_bytes"] for s in seen) for way, seen in loads.items()
        },
        "s3": sent,
    }
    REPORT.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
