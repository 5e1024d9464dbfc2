"""Before the first step: are these hosts fit to train on?

A job that starts on sockets where it has EFA, on a GPU with broken memory or without room for its
checkpoints costs as much as a good one. Not seen from a container: the kernel's Xid lines; those
are read from the log when they end a job.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from everstep.contracts.failures import FailureClass
from everstep.contracts.instances import efa_gigabits
from trainer.efa import Fabric, read_log, refusal
from trainer.errors import TrainerError
from trainer.host import MlRoot, Worker
from trainer.report import Reporter

SHORT, BROKEN = 0.5, 0.1
"""Of the line rate: below the first an all-reduce is reported, below the second refused."""
PROBE_BYTES, PROBE_ROUNDS = 256 * 2**20, 5
_SMI = "index,ecc.errors.uncorrected.volatile.total,remapped_rows.pending,remapped_rows.failure"


class WrongNetwork(TrainerError):
    """The image or the job's network settings: the same everywhere."""

    failure_class = FailureClass.BAD_CONFIG


class UnfitHost(TrainerError):
    """Other hosts may be fit."""

    failure_class = FailureClass.INFRASTRUCTURE


class NoRoom(TrainerError):
    """Local disk is too small for what the trainer must write there."""

    failure_class = FailureClass.BAD_CONFIG


def check_hosts(worker: Worker, ml: MlRoot, device: torch.device, report: Reporter) -> None:
    """GPUs, the network between hosts, and NCCL's version. Called by all ranks; CPU hosts pass.

    Raises on every rank alike.
    """
    trouble: list[str] = []
    rate = None
    if device.type == "cuda":
        trouble = gpu_trouble(_nvidia_smi()) if worker.local_rank == 0 else []
        rate = _all_reduce_rate(worker, device)
    words: list[tuple[list[str], Fabric | None]] = [([], None)] * worker.world_size
    mine = ([f"{worker.host}: {x}" for x in trouble], fabric_of(worker, device))
    dist.all_gather_object(words, mine)
    broken = [line for lines, _ in words for line in lines]
    if broken:
        raise UnfitHost("; ".join(broken), "the run goes on on other hosts")
    kind = instance_type(ml)
    nodes = worker.world_size // worker.local_world_size
    for node in range(nodes):
        first = node * worker.local_world_size
        fabric = Fabric()
        seen = [f for _, f in words[first : first + worker.local_world_size] if f is not None]
        if not seen:
            continue
        for each in seen:
            fabric = fabric.plus(each)
        reason = refusal(fabric, kind) if nodes > 1 else None
        if reason is not None:
            raise WrongNetwork(
                f"node {node}: {reason}",
                "image with EFA installer >= 1.48, security group open to itself in and out; "
                "guard.health=warn starts all the same",
            )
        if rate is not None:
            _compare_nccl(fabric)
    if rate is not None:
        _judge_rate(rate, kind, nodes, report)


def fabric_of(worker: Worker, device: torch.device) -> Fabric | None:
    """What this rank's NCCL has logged; None without NCCL, or where its log goes elsewhere."""
    path = worker.nccl_log(os.getpid())
    if device.type != "cuda" or not path.exists():
        return None
    return read_log(path.read_text(errors="replace").splitlines())


def instance_type(ml: MlRoot) -> str:
    return str(ml.config("resourceconfig").get("current_instance_type", ""))


def gpu_trouble(report: str) -> list[str]:
    """Of ``nvidia-smi --query-gpu`` in CSV: what makes a GPU unfit. ``[N/A]`` is no trouble."""
    found = []
    for line in report.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != 4:
            continue
        index, errors, pending, failed = cells
        if errors.isdigit() and int(errors):
            found.append(f"GPU {index} has {errors} uncorrected ECC errors")
        if pending.lower() in ("yes", "1"):
            found.append(f"GPU {index} waits for a reset to remap memory rows")
        if failed.lower() in ("yes", "1"):
            found.append(f"GPU {index} could not remap memory rows")
    return found


def bus_rate(size: int, seconds: float, ranks: int) -> float:
    """GB/s that an all-reduce of ``size`` bytes means for each rank's link (ring)."""
    return 2 * (ranks - 1) / ranks * size / seconds / 1e9


def check_room(folder: Path, tensors: Iterable[Tensor], nodes: int) -> None:
    """Room for one checkpoint, or for a node's share of it: without that no save can succeed."""
    need = sum(tensor.numel() * tensor.element_size() for tensor in tensors) / nodes
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free
    if free < need:
        raise NoRoom(
            f"{folder}: {free / 1e9:.3g} GB free, a checkpoint takes {need / 1e9:.3g} GB",
            "raise compute.volume_gib, or take a type with local disks",
        )


def _compare_nccl(fabric: Fabric) -> None:
    built = torch.cuda.nccl.version()
    if fabric.nccl is not None and tuple(built[:3]) != fabric.nccl:
        raise WrongNetwork(
            f"NCCL {'.'.join(map(str, fabric.nccl))} is loaded, torch was built with "
            f"{'.'.join(map(str, built[:3]))}",
            "the image must hold one NCCL: torch's own (LD_LIBRARY_PATH, LD_PRELOAD)",
        )


def _judge_rate(rate: float, kind: str, nodes: int, report: Reporter) -> None:
    line = efa_gigabits(kind) if nodes > 1 else None
    share = None if line is None else rate / (line / 8)
    report.line("health", all_reduce_gb_per_s=round(rate, 1), share_of_line=share)
    if share is not None and share < BROKEN:
        raise UnfitHost(
            f"all-reduce over {nodes} nodes: {rate:.1f} GB/s, {share:.0%} of what {kind} has",
            "a host's network is broken; the run goes on on other hosts",
        )
    if share is not None and share < SHORT:
        report.log(f"all-reduce reaches {rate:.1f} GB/s, {share:.0%} of what {kind} has")


def _all_reduce_rate(worker: Worker, device: torch.device) -> float:
    """Of a node's links together: all of its ranks send at once."""
    data = torch.zeros(PROBE_BYTES // 4, device=device)
    dist.all_reduce(data)
    torch.cuda.synchronize(device)
    began = time.monotonic()
    for _ in range(PROBE_ROUNDS):
        dist.all_reduce(data)
    torch.cuda.synchronize(device)
    return bus_rate(PROBE_BYTES, (time.monotonic() - began) / PROBE_ROUNDS, worker.world_size)


def _nvidia_smi() -> str:
    """Empty where it does not answer: NVIDIA's runtime mounts it, other runtimes may not."""
    command = ["nvidia-smi", f"--query-gpu={_SMI}", "--format=csv,noheader,nounits"]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=30, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
