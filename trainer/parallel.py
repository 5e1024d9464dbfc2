"""The device mesh, and a model laid out on it."""

from dataclasses import dataclass
from typing import cast

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from everstep.contracts.check import mesh_of
from everstep.contracts.models import ModelConfig
from everstep.contracts.run_spec import Parallelism, Sharding
from trainer.errors import ConfigError
from trainer.model import Transformer, initial_values

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


@dataclass(frozen=True)
class Layout:
    """How many ranks hold a copy of the parameters together, and how many copies there are."""

    sharding: Sharding
    replicate: int
    shard: int

    @property
    def data_ranks(self) -> int:
        return self.replicate * self.shard


def layout_of(parallelism: Parallelism, world_size: int, local_world_size: int) -> Layout:
    """Raises ``ConfigError`` where the mesh does not fill the world."""
    mesh = mesh_of(parallelism, world_size)
    if mesh is None:
        raise ConfigError(
            f"parallelism: replicate {parallelism.replicate} × shard {parallelism.shard or 'auto'}"
            f" is not the world size {world_size}",
            "leave parallelism.shard out and it takes what replicate leaves",
        )
    _, replicate, shard, _ = mesh
    sharding = parallelism.sharding
    if sharding is Sharding.NO_SHARD:
        return Layout(sharding, world_size, 1)
    whole = parallelism.shard is None and parallelism.replicate == 1
    if sharding is Sharding.HYBRID_SHARD and whole:
        # what the word means where the user says no more: shard in the node, copies across
        return Layout(sharding, world_size // local_world_size, local_world_size)
    return Layout(sharding, replicate, shard)


def build_model(
    config: ModelConfig, layout: Layout, dtype: str, seed: int, device: torch.device
) -> nn.Module:
    """The model, laid out and initialised: the same weights on every layout.

    One communication group a block and one for the rest. Gradients are summed over ranks, not
    averaged: the loss is already divided by the global number of tokens.
    """
    with torch.device("meta"):
        model = Transformer(config)
    policy = MixedPrecisionPolicy(
        param_dtype=DTYPES[dtype] if dtype != "fp32" else None,
        reduce_dtype=torch.float32,
        cast_forward_inputs=False,  # rotary angles stay fp32
    )
    for module in [*model.blocks, model]:
        _lay_out(module, layout, policy, device.type)
    model.to_empty(device=device)
    for name, parameter in model.named_parameters():
        whole = initial_values(config, name, parameter.shape, seed)
        sharded = cast(DTensor, parameter.data)
        part = distribute_tensor(
            whole.to(device), sharded.device_mesh, sharded.placements, src_data_rank=None
        )
        sharded.to_local().copy_(part.to_local())
    return model


def set_gradient_sync(model: nn.Module, layout: Layout, last: bool) -> None:
    """Before each microbatch: ``last`` of its step or not.

    FULL_SHARD reduces every microbatch, so that whole gradients are never kept; the others
    keep them and reduce once.
    """
    if layout.sharding is not Sharding.FULL_SHARD:
        cast(FSDPModule, model).set_requires_gradient_sync(last)


def _lay_out(module: nn.Module, layout: Layout, policy: MixedPrecisionPolicy, kind: str) -> None:
    if layout.sharding is Sharding.NO_SHARD:
        from torch.distributed._composable.replicate_with_fsdp import replicate

        replicate(module, mesh=_mesh(layout, kind), mp_policy=policy)
    else:
        fully_shard(
            module,
            mesh=_mesh(layout, kind),
            mp_policy=policy,
            reshard_after_forward=layout.sharding is not Sharding.SHARD_GRAD_OP,
        )
    grouped = cast(FSDPModule, module)
    grouped.set_gradient_divide_factor(1.0)
    grouped.set_force_sum_reduction_for_comms(True)  # gloo has no pre-multiplied sum


_meshes: dict[tuple[Layout, str], DeviceMesh] = {}


def _mesh(layout: Layout, kind: str) -> DeviceMesh:
    """One mesh a process: a second one would make its process groups again."""
    key = (layout, kind)
    sizes: tuple[int, ...]
    names: tuple[str, ...]
    if key not in _meshes:
        if layout.sharding is Sharding.NO_SHARD:
            sizes, names = (layout.replicate,), ("replicate",)
        elif layout.replicate == 1 and layout.sharding is not Sharding.HYBRID_SHARD:
            sizes, names = (layout.shard,), ("shard",)
        else:
            sizes, names = (layout.replicate, layout.shard), ("replicate", "shard")
        _meshes[key] = init_device_mesh(kind, sizes, mesh_dim_names=names)
    return _meshes[key]
