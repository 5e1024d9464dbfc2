"""The device mesh, and a model laid out on it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from everstep.contracts.fp8_rules import fp8_shape_problems
from everstep.contracts.mesh import (
    Mesh,
    batch_problems,
    mesh_of,
    shape_problems,
    sharded,
    world_problem,
)
from everstep.contracts.models import ModelConfig
from everstep.contracts.problems import Problem
from everstep.contracts.training_spec import Lora, Parallelism, Sharding, Train
from trainer.blocks import prepare
from trainer.errors import ConfigError
from trainer.lora import add_adapters
from trainer.model import Block, Part, Transformer, initial_values
from trainer.pipeline import Pipeline
from trainer.tensor_parallel import cut

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
COMPUTE = DTYPES | {"fp8": torch.bfloat16}
"""What parameters are gathered in; an FP8 product rounds its own operands."""


@dataclass(frozen=True)
class Layout:
    """How many ranks hold a copy of the parameters together, and how many copies there are."""

    sharding: Sharding
    replicate: int
    shard: int
    tensor: int = 1
    pipeline: int = 1
    virtual_stages: int = 1

    def __str__(self) -> str:
        text = f"{self.sharding} {self.replicate}×{self.shard}"
        if self.tensor > 1:
            text += f" tensor {self.tensor}"
        if self.pipeline > 1:
            text += f" pipeline {self.pipeline}×{self.virtual_stages}"
        return text

    @property
    def data_ranks(self) -> int:
        """Ranks that see different samples."""
        return self.replicate * self.shard

    def data_rank(self, rank: int) -> int:
        """Which of them ``rank`` is: those of one tensor or pipeline group are the same."""
        return rank // self.tensor % self.data_ranks

    def counts(self, rank: int) -> bool:
        """One rank for each data rank, where something is summed over the world."""
        return rank % self.tensor == 0 and rank // (self.tensor * self.data_ranks) == 0


def layout_of(
    shape: ModelConfig,
    parallelism: Parallelism,
    train: Train,
    world_size: int,
    local_world_size: int,
) -> Layout:
    """Raises ``ConfigError`` where the mesh does not fill the world, or the model not the mesh."""
    problems = list(_problems(shape, parallelism, train, world_size))
    if problems:
        said = "; ".join(f"{p.path}={p.value!r}: {p.message}" for p in problems)
        raise ConfigError(said, problems[0].hint)
    mesh = sharded(cast(Mesh, mesh_of(parallelism, world_size)), parallelism, local_world_size)
    return Layout(
        parallelism.sharding,
        mesh.replicate,
        mesh.shard,
        mesh.tensor,
        mesh.pipeline,
        parallelism.virtual_stages,
    )


def build_model(
    config: ModelConfig,
    layout: Layout,
    train: Train,
    device: torch.device,
    lora: Lora | None = None,
) -> Transformer | Pipeline:
    """The model, laid out and initialised: the same weights on every layout.

    One communication group a block and one for the rest. Gradients are summed over ranks, not
    averaged: the loss is already divided by the global number of tokens.
    """
    mesh = mesh_for(layout, device.type)
    parts = laid_out(config, layout, train, mesh, lora)
    for part in parts:
        _initialise(part, config, train.seed, device)
    if layout.pipeline == 1:
        return parts[0]
    model = Pipeline(parts)
    micro_batches = train.global_batch // (layout.data_ranks * train.micro_batch)
    model.schedule(mesh.get_group("pipeline"), train, micro_batches, COMPUTE[train.dtype], device)
    return model


def laid_out(
    config: ModelConfig,
    layout: Layout,
    train: Train,
    mesh: DeviceMesh,
    lora: Lora | None = None,
) -> list[Transformer]:
    """This rank's stages, sharded, on the meta device: sizes without memory."""
    policy = MixedPrecisionPolicy(
        param_dtype=COMPUTE[train.dtype] if train.dtype != "fp32" else None,
        reduce_dtype=torch.float32,
        cast_forward_inputs=False,  # rotary angles stay fp32
    )
    parts = [_part(config, layout, part) for part in _parts(layout, mesh)]
    for part in parts:
        if lora is not None:
            add_adapters(part, lora)
        if layout.tensor > 1:
            cut(part, mesh["tensor"])
        for block in part.blocks.values():
            prepare(cast(Block, block), train)
        for module in [*part.blocks.values(), part]:
            _lay_out(module, layout, mesh, policy)
    return parts


def set_gradient_sync(model: nn.Module, layout: Layout, last: bool) -> None:
    """Before each microbatch: ``last`` of its step or not. Not for a pipeline, which knows.

    Where gradients are sharded they are reduced every microbatch, so that whole ones are never
    kept: HYBRID_SHARD within its shard group, and across the copies once. SHARD_GRAD_OP keeps the
    parameters gathered from one microbatch to the next.
    """
    grouped = cast(FSDPModule, model)
    if layout.sharding is Sharding.NO_SHARD:
        grouped.set_requires_gradient_sync(last)
    elif layout.sharding is Sharding.HYBRID_SHARD:
        grouped.set_requires_all_reduce(last)
    elif layout.sharding is Sharding.SHARD_GRAD_OP:
        grouped.set_reshard_after_backward(last)


def tensor_group(layout: Layout, device: torch.device) -> torch.distributed.ProcessGroup | None:
    """The ranks that share each matrix with this one; None where it has all of it."""
    return mesh_for(layout, device.type).get_group("tensor") if layout.tensor > 1 else None


def _problems(
    shape: ModelConfig, parallelism: Parallelism, train: Train, world_size: int
) -> Iterator[Problem]:
    yield from shape_problems(shape, parallelism, train)
    yield from fp8_shape_problems(shape, parallelism, train)
    mesh = mesh_of(parallelism, world_size)
    if mesh is None:
        yield world_problem(parallelism, world_size, "")
    else:
        yield from batch_problems(parallelism, train, mesh, "")


def _parts(layout: Layout, mesh: DeviceMesh) -> Iterator[Part]:
    """The stages of this rank: with two ranks and two stages each, 0 and 2 or 1 and 3."""
    count = layout.pipeline * layout.virtual_stages
    for turn in range(layout.virtual_stages):
        yield Part(turn * layout.pipeline + mesh.get_local_rank("pipeline"), count)


def _part(config: ModelConfig, layout: Layout, part: Part) -> Transformer:
    with torch.device("meta"):
        return Transformer(config, part, layout.tensor)


def _initialise(model: nn.Module, config: ModelConfig, seed: int, device: torch.device) -> None:
    model.to_empty(device=device)
    for name, parameter in model.named_parameters():
        whole = initial_values(config, name, parameter.shape, seed)
        sharded = cast(DTensor, parameter.data)
        part = distribute_tensor(
            whole.to(device), sharded.device_mesh, sharded.placements, src_data_rank=None
        )
        sharded.to_local().copy_(part.to_local())


def _lay_out(
    module: nn.Module, layout: Layout, mesh: DeviceMesh, policy: MixedPrecisionPolicy
) -> None:
    if layout.sharding is Sharding.NO_SHARD:
        from torch.distributed._composable.replicate_with_fsdp import replicate

        replicate(module, mesh=mesh["replicate"], mp_policy=policy)
    else:
        hybrid = layout.replicate > 1 or layout.sharding is Sharding.HYBRID_SHARD
        fully_shard(
            module,
            mesh=mesh["replicate", "shard"] if hybrid else mesh["shard"],
            mp_policy=policy,
            reshard_after_forward=layout.sharding is not Sharding.SHARD_GRAD_OP,
        )
    grouped = cast(FSDPModule, module)
    grouped.set_gradient_divide_factor(1.0)
    grouped.set_force_sum_reduction_for_comms(True)  # gloo has no pre-multiplied sum


_meshes: dict[tuple[Layout, str], DeviceMesh] = {}


def mesh_for(layout: Layout, kind: str) -> DeviceMesh:
    """One mesh a process: a second one would make its process groups again."""
    key = (layout, kind)
    if key not in _meshes:
        _meshes[key] = init_device_mesh(
            kind,
            (layout.pipeline, layout.replicate, layout.shard, layout.tensor),
            mesh_dim_names=("pipeline", "replicate", "shard", "tensor"),
        )
    return _meshes[key]
