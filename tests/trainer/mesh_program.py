"""The same batches on many meshes: run under torchrun with a list of ``Job`` as JSON.

``python -m tests.trainer.mesh_program JOBS.json OUT.json``; ``run`` does one in this process.
"""

import json
import os
import sys
from collections import Counter
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

from everstep.contracts.models import ModelConfig
from everstep.contracts.training_spec import Sharding, Train
from trainer.checkpoint.state import copy_to_host, live_tensors
from trainer.loss import IGNORED
from trainer.optim import build_optimizer, local
from trainer.parallel import Layout, build_model
from trainer.step import StepResult, optimizer_step, valid_targets

SHAPE = ModelConfig(dim=32, layers=4, heads=4, kv_heads=2, ffn_dim=64, vocab_size=64)
STEPS = 30
ROWS = 8
LENGTH = 16
SYNCS = (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.is_nonzero.default)


class Job(NamedTuple):
    """Train on a mesh, from the start or from what another mesh saved."""

    sharding: str
    replicate: int = 1
    shard: int = 1
    tensor: int = 1
    pipeline: int = 1
    virtual_stages: int = 1
    optimizer: str = "adamw"
    start: int = 0
    """First step; what ``load`` holds is from before it."""
    steps: int = STEPS
    load: str | None = None
    again: str | None = None
    """Folder for what was loaded, saved at once."""
    save: str | None = None
    """Folder for the state after step 10."""
    dtype: str = "fp32"
    activation_checkpointing: str = "none"
    packed: bool = False
    """Several documents a sample."""
    watch: bool = False
    """Afterwards: one step's collectives and host syncs, and one poisoned step."""

    @property
    def layout(self) -> Layout:
        return Layout(Sharding(self.sharding), *self[1:6])


def recipe(job: Job) -> Train:
    # DTensor's dispatch makes a tensor-parallel microbatch slow here: as few as the mesh allows
    whole = ROWS // job.layout.data_ranks // job.pipeline
    return Train(
        sequence_length=LENGTH,
        global_batch=ROWS,
        micro_batch=whole if job.tensor > 1 else 1,
        dtype=job.dtype,  # type: ignore[arg-type]
        activation_checkpointing=job.activation_checkpointing,  # type: ignore[arg-type]
        grad_clip=0.1,  # binds in every step
        z_loss=1e-3,
        optimizer=job.optimizer,  # type: ignore[arg-type]
    )


def batch_of(step: int) -> Tensor:
    """The global batch, with another number of valid targets in each row."""
    random = torch.Generator().manual_seed(step)
    tokens = torch.randint(0, SHAPE.vocab_size, (ROWS, 1), generator=random)
    tokens = (tokens + torch.arange(LENGTH + 1) * 3) % SHAPE.vocab_size
    for row in range(ROWS):
        tokens[row, LENGTH + 1 - (row * 2 + step) % 9 :] = IGNORED
    return tokens


def places(step: int, rows: slice) -> dict[str, Tensor]:
    """Documents that end at other tokens in each row."""
    ends = (torch.arange(ROWS).unsqueeze(1) + step) % 7 + 3
    place = torch.arange(LENGTH).expand(ROWS, -1)
    return {"positions": (place % ends)[rows], "documents": (place // ends)[rows]}


class Training:
    def __init__(self, job: Job) -> None:
        self.packed = job.packed
        self.layout, self.train = job.layout, recipe(job)
        self.model = build_model(SHAPE, self.layout, self.train, torch.device("cpu"))
        self.optimizer = build_optimizer(self.model, self.train)
        self.lr = 0.5 if job.optimizer == "sgd" else 3e-3

    def step(self, number: int, watched: "Watched | None" = None) -> StepResult:
        share = ROWS // self.layout.data_ranks
        first = self.layout.data_rank(dist.get_rank()) * share
        batch = batch_of(number)
        rows = slice(first, first + share)
        mine, tokens = batch[rows], valid_targets(batch)
        where = places(number, rows) if self.packed else None
        with watched or nullcontext():
            return optimizer_step(
                self.model, self.optimizer, self.layout, self.train, mine, tokens, self.lr, where
            )

    def tensors(self) -> dict[str, Tensor]:
        return live_tensors(self.model, self.optimizer)


def run(job: Job) -> dict[str, Any]:
    """What rank 0 saw; counts over all ranks."""
    training = Training(job)
    if job.load:
        dcp.load(training.tensors(), checkpoint_id=job.load)
    if job.again:
        dcp.save(copy_to_host(training.tensors()), checkpoint_id=job.again)
    curve = []
    with in_flight() as most:
        for number in range(job.start, job.start + job.steps):
            result = training.step(number)
            curve.append((result.loss.item(), result.grad_norm.item()))
            if job.save and number == 9:
                dcp.save(copy_to_host(training.tensors()), checkpoint_id=job.save)
    seen: dict[str, Any] = {"curve": curve, "in_flight": gather(most[0])}
    if job.watch:
        own = list(training.model.parameters())
        seen["local"] = gather(sum(local(p).numel() for p in own))
        seen["names"] = gather(sorted(name for name, _ in training.model.named_parameters()))
        watched = Watched()
        training.step(100, watched)
        seen["counts"] = gather(watched.counts)
        seen |= poison(training)
    return seen


def poison(training: Training) -> dict[str, Any]:
    """A step whose gradient is bad in the first block and the embedding alone."""
    before = {name: local(tensor).clone() for name, tensor in training.tensors().items()}
    with bad_gradient(training.model):
        bad = training.step(101).bad.item()
    kept = all(torch.equal(before[name], local(t)) for name, t in training.tensors().items())
    good = training.step(102)
    after = training.tensors()
    weights = [name for name in before if name.startswith("model.")]
    moved = all(not torch.equal(before[name], local(after[name])) for name in weights)
    return {
        "bad": gather(bad),
        "kept": gather(kept),
        "moved": gather(moved),
        "good": gather(good.bad.item()),
    }


@contextmanager
def bad_gradient(model: nn.Module) -> Any:
    def spoil(module: nn.Module, inputs: Any, output: Tensor) -> None:
        output.register_hook(lambda gradient: gradient * float("nan"))

    name = "blocks.0"
    hooks = [m.register_forward_hook(spoil) for n, m in model.named_modules() if n.endswith(name)]
    yield
    for hook in hooks:
        hook.remove()


@contextmanager
def in_flight() -> Any:
    """The most microbatches that this rank's stages held for their backward at one time."""
    most, now = [0], Counter[str]()
    forward, backward = PipelineStage.forward_one_chunk, PipelineStage.backward_one_chunk

    def count_forward(self: Any, *args: Any, **more: Any) -> Any:
        now["held"] += 1
        most[0] = max(most[0], now["held"])
        return forward(self, *args, **more)

    def count_backward(self: Any, *args: Any, **more: Any) -> Any:
        now["held"] -= 1
        return backward(self, *args, **more)

    PipelineStage.forward_one_chunk = count_forward
    PipelineStage.backward_one_chunk = count_backward
    yield most
    PipelineStage.forward_one_chunk = forward
    PipelineStage.backward_one_chunk = backward


class Watched(TorchDispatchMode):
    """Counts collectives, and reads of a device scalar by the host."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if DTensor in types:
            return NotImplemented  # DTensor first: what it does inside is counted then
        if func.namespace in ("c10d", "_c10d_functional") or func in SYNCS:
            self.counts[func._opname.strip("_")] += 1
        return func(*args, **(kwargs or {}))


def gather(value: Any) -> list[Any]:
    values: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def main() -> None:
    jobs, out = sys.argv[1:]
    dist.init_process_group("gloo")
    seen = [run(Job(**job)) for job in json.loads(Path(jobs).read_text())]
    if dist.get_rank() == 0:
        Path(out).write_text(json.dumps(seen))
    dist.barrier()  # as the trainer ends: no rank leaves while another still hears from it,
    os._exit(0)  # and no thread of gloo's meets the interpreter's end


if __name__ == "__main__":
    main()
