"""The device mesh of a run, and every reason why a model or batch does not fit on it.

Pure: the control plane asks before any process starts, the trainer asks the same again.
"""

from collections.abc import Iterator
from typing import NamedTuple

from everstep.contracts.models import ModelConfig
from everstep.contracts.problems import Problem
from everstep.contracts.training_spec import Parallelism, Sharding, Train


class Mesh(NamedTuple):
    """Sizes from the slowest to the fastest dimension: neighbours in rank share a tensor group."""

    pipeline: int
    replicate: int
    shard: int
    tensor: int

    @property
    def data_ranks(self) -> int:
        return self.replicate * self.shard


def mesh_of(parallelism: Parallelism, world_size: int) -> Mesh | None:
    """The mesh whose product is ``world_size``; None if there is none."""
    fixed = parallelism.replicate * parallelism.tensor * parallelism.pipeline
    shard = parallelism.shard or max(1, world_size // fixed)
    if fixed * shard != world_size:
        return None
    return Mesh(parallelism.pipeline, parallelism.replicate, shard, parallelism.tensor)


def sharded(mesh: Mesh, parallelism: Parallelism, ranks_per_node: int) -> Mesh:
    """What the sharding's name means where the user says no more.

    NO_SHARD: a copy a data rank. HYBRID_SHARD: shard in the node, copies across nodes.
    """
    node = ranks_per_node // mesh.tensor
    unsaid = parallelism.shard is None and parallelism.replicate == 1
    if parallelism.sharding is Sharding.NO_SHARD:
        return mesh._replace(replicate=mesh.data_ranks, shard=1)
    hybrid = parallelism.sharding is Sharding.HYBRID_SHARD and unsaid
    if hybrid and node and mesh.data_ranks % node == 0:
        return mesh._replace(replicate=mesh.data_ranks // node, shard=node)
    return mesh


def world_problem(parallelism: Parallelism, world_size: int, where: str) -> Problem:
    """What to say where ``mesh_of`` is None. ``where``: whose world it is."""
    shard = parallelism.shard or "auto"
    fixed = parallelism.replicate * parallelism.tensor * parallelism.pipeline
    hint = "leave parallelism.shard out and it takes what the others leave"
    if parallelism.shard is None or world_size % fixed:
        hint = f"a world size that is a multiple of replicate × tensor × pipeline = {fixed}"
    return Problem(
        path="parallelism",
        value=parallelism.model_dump(mode="json"),
        message=(
            f"replicate {parallelism.replicate} × shard {shard} × tensor {parallelism.tensor} × "
            f"pipeline {parallelism.pipeline} is not the world size {world_size}{where}"
        ),
        hint=hint,
    )


def shape_problems(shape: ModelConfig, parallelism: Parallelism, train: Train) -> Iterator[Problem]:
    """Whatever the world: is this a Llama's shape, and can it be cut so?"""
    yield from _head_problems(shape)
    tensor, pipeline = parallelism.tensor, parallelism.pipeline
    for name, size in (
        ("kv_heads", shape.kv_heads),
        ("heads", shape.heads),
        ("ffn_dim", shape.ffn_dim),
        ("vocab_size", shape.vocab_size),
    ):
        if size % tensor:
            yield Problem(
                path="parallelism.tensor",
                value=tensor,
                message=f"model.{name} {size} is not a multiple of it",
                hint=_tensor_hint(name, size, tensor),
            )
    if train.sequence_length % tensor:
        yield Problem(
            path="parallelism.tensor",
            value=tensor,
            message=f"train.sequence_length {train.sequence_length} is not a multiple of it: "
            "between the blocks each tensor rank holds a part of the sequence",
            hint=f"a sequence length that is a multiple of {tensor}",
        )
    stages = pipeline * parallelism.virtual_stages
    if stages > shape.layers:
        yield Problem(
            path="parallelism.pipeline",
            value=pipeline,
            message=f"{stages} stages (pipeline {pipeline} × virtual_stages "
            f"{parallelism.virtual_stages}), but the model has {shape.layers} layers",
            hint=f"at most {shape.layers} stages: a stage holds a layer or more",
        )
    if parallelism.virtual_stages > 1 and pipeline == 1:
        yield Problem(
            path="parallelism.virtual_stages",
            value=parallelism.virtual_stages,
            message="there is no pipeline to interleave",
            hint="raise parallelism.pipeline, or leave virtual_stages at 1",
        )
    if shape.tied_embeddings and (pipeline > 1 or tensor > 1):
        yield Problem(
            path="parallelism.pipeline" if pipeline > 1 else "parallelism.tensor",
            value=pipeline if pipeline > 1 else tensor,
            message="the model's embeddings are tied, and would lie on more than one rank",
            hint="use replicate and shard, or set model.tied_embeddings to false",
        )


def _head_problems(shape: ModelConfig) -> Iterator[Problem]:
    """What torch would say on hosts that are paid for, and without a name."""
    dim, heads, kv_heads = shape.dim, shape.heads, shape.kv_heads
    if dim % heads or shape.head_dim % 2:
        yield Problem(
            path="model.config.heads",
            value=heads,
            message=f"dim {dim} is not a multiple of 2 × heads: rotary positions turn pairs of "
            "a head's values",
            hint=f"dim {2 * heads * max(1, round(dim / (2 * heads)))}, or other heads",
        )
    if heads % kv_heads:
        yield Problem(
            path="model.config.kv_heads",
            value=kv_heads,
            message=f"does not divide heads {heads}: each is shared by as many query heads",
            hint=f"kv_heads {max(n for n in range(1, min(heads, kv_heads) + 1) if heads % n == 0)}",
        )


def batch_problems(
    parallelism: Parallelism, train: Train, mesh: Mesh, where: str
) -> Iterator[Problem]:
    """Can the global batch be cut so?"""
    share = mesh.data_ranks * train.micro_batch
    if train.global_batch % share:
        yield Problem(
            path="train.global_batch",
            value=train.global_batch,
            message=(
                f"not a multiple of data ranks × micro_batch = {mesh.data_ranks} × "
                f"{train.micro_batch}{where}"
            ),
            hint=f"a multiple of {share}",
        )
        return
    micro_batches = train.global_batch // share
    if micro_batches < mesh.pipeline:
        yield Problem(
            path="train.global_batch",
            value=train.global_batch,
            message=f"{micro_batches} microbatches a step{where} cannot fill a pipeline of "
            f"{mesh.pipeline}",
            hint=f"at least {mesh.pipeline * share}, or a smaller train.micro_batch",
        )
    elif parallelism.virtual_stages > 1 and micro_batches % mesh.pipeline:
        yield Problem(
            path="train.global_batch",
            value=train.global_batch,
            message=f"{micro_batches} microbatches a step{where} are not whole rounds of an "
            f"interleaved pipeline of {mesh.pipeline}",
            hint=f"a multiple of {mesh.pipeline * share}",
        )


def _tensor_hint(name: str, size: int, tensor: int) -> str:
    fitting = [n for n in range(1, tensor) if size % n == 0]
    if name == "vocab_size":
        return f"pad model.vocab_size to {-(-size // tensor) * tensor}, or use tensor {fitting[-1]}"
    return f"tensor {fitting[-1]} divides it; the rest of the ranks may shard or pipeline"
