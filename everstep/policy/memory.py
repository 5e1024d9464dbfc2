"""GPU memory of the fullest rank, by part, before anything is started.

What FSDP2 keeps, and when: parameters and optimizer in fp32 shards; a group's parameters gathered
in the compute type while it runs, the next group's while it waits; the rest of the model
(embedding, norm, output: the root group) through the whole backward pass; gradients whole in the
compute type, then in fp32 for the reduction. Activations are what ``trainer.model`` saves for
backward. Held to torch's own FSDPMemTracker by tests/trainer/test_memory.py. What no such count
knows comes on top (``RESERVED``): the CUDA context, NCCL's buffers, fragmentation.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import ceil

from everstep.contracts.check import check_spec, resolve_model
from everstep.contracts.instances import INSTANCE_TYPES
from everstep.contracts.mesh import Mesh, mesh_of, sharded
from everstep.contracts.models import ModelConfig
from everstep.contracts.problems import Problem
from everstep.contracts.run_spec import RunSpec, Trainer
from everstep.contracts.training_spec import Lora, Parallelism, Sharding, Train

MASTER = 4
"""Bytes of a parameter, a reduced gradient, a moment: fp32."""
RESERVED = 0.1
"""Share of a GPU's memory that the parts below may not have. Assumed, not measured here."""


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes on the rank that holds most, at the moment of a step when it holds most."""

    parameters: int
    optimizer: int
    gradients: int
    activations: int
    """Saved for backward, of all microbatches in flight."""
    working: int
    """Gathered parameters, gradients on their way, logits."""

    @property
    def total(self) -> int:
        return sum(asdict(self).values())

    def as_dict(self) -> dict[str, int]:
        return {**asdict(self), "total": self.total}


@dataclass(frozen=True)
class _Group:
    """One communication group: elements on a tensor rank, and on its fullest shard."""

    whole: int
    shard: int


def memory_plan(
    shape: ModelConfig,
    parallelism: Parallelism,
    mesh: Mesh,
    train: Train,
    lora: Lora | None = None,
) -> MemoryPlan:
    """``mesh`` as laid out: see ``everstep.contracts.mesh.sharded``.

    With ``lora`` only adapters have moments, and gradients between microbatches; what is in
    flight in a backward pass is counted as without, which is more than there is.
    """
    wide = 4 if train.dtype == "fp32" else 2
    stages = mesh.pipeline * parallelism.virtual_stages
    block = _group(_block(shape), mesh)
    # of several stages the last holds most: output and logits
    root = _group(_root(shape, first=stages == 1), mesh)
    layers = ceil(shape.layers / stages) * parallelism.virtual_stages
    whole, held = layers * block.whole + root.whole, layers * block.shard + root.shard

    learns = _Group(whole, held)
    if lora is not None:
        adapters = _adapters(shape, lora, mesh)
        learns = _Group(layers * adapters.whole, layers * adapters.shard)
        whole, held = whole + learns.whole, held + learns.shard

    tokens = train.micro_batch * train.sequence_length
    layer = tokens * _saved_in_block(shape, mesh.tensor, wide, train)
    in_flight = mesh.pipeline * parallelism.virtual_stages if mesh.pipeline > 1 else 1
    saved = layers * layer * min(in_flight, _micro_batches(train, mesh))
    saved += shape.dim * (8 + wide) * tokens // mesh.tensor

    kept, reduced = _gradients_between(parallelism, mesh, train, learns)
    stays = parallelism.sharding in (Sharding.SHARD_GRAD_OP, Sharding.NO_SHARD)
    gathered = wide * (whole if stays else root.whole + 2 * block.whole)
    of_output = wide * shape.vocab_size * shape.dim // mesh.tensor
    if train.activation_checkpointing != "none":  # one block at a time is computed again
        again = tokens * _computed_in_block(shape, mesh.tensor, wide)
    else:
        again = 0
    temporary = again + wide * (4 * shape.ffn_dim + shape.dim) * tokens // mesh.tensor
    between = kept + reduced
    # a block that has gone back is let go, unless the next microbatch wants it
    released = wide * block.whole if stays and not between else 0
    logits = 12 * shape.vocab_size * tokens // mesh.tensor
    moments = (
        # the loss: log-softmax, and two gradients of its size, in fp32
        (between, saved, logits + (gathered if stays else 0)),
        # the first block that goes back
        (between, saved, gathered + of_output + temporary),
        # the second one, while the first one's gradients are reduced
        (
            between or MASTER * block.shard,
            saved - layer,
            gathered - released + of_output + temporary + (MASTER + wide) * block.whole,
        ),
        # the root group's gradients, last of all
        (
            kept or MASTER * learns.shard,
            0,
            (2 * wide + MASTER) * root.whole + MASTER * root.shard,
        ),
    )
    gradients, activations, working = max(moments, key=sum)
    return MemoryPlan(
        parameters=MASTER * held,
        optimizer=(2 * MASTER if train.optimizer == "adamw" else 0) * learns.shard,
        gradients=gradients,
        activations=activations,
        working=working,
    )


def forward_backward_peak(plan: MemoryPlan) -> int:
    """Bytes at the peak before the optimizer has any state."""
    return plan.total - plan.optimizer


def memory_of(spec: RunSpec, target: int) -> MemoryPlan | None:
    """Of the spec's ``compute[target]``. None on a CPU type, where the mesh does not fill it, and
    for a program that is not the reference trainer."""
    if spec.trainer.command != Trainer().command:
        return None
    kind = INSTANCE_TYPES[spec.compute[target].instance_type]
    mesh = mesh_of(spec.parallelism, spec.compute[target].nodes * kind.processes)
    if not kind.gpus or mesh is None:
        return None
    mesh = sharded(mesh, spec.parallelism, kind.processes)
    shape = resolve_model(spec.model)
    return memory_plan(shape, spec.parallelism, mesh, spec.train, spec.model.lora)


def fitting(spec: RunSpec, target: int) -> str | None:
    """The first of a few changes, from cheap to dear, by which ``compute[target]`` would fit."""
    kind = INSTANCE_TYPES[spec.compute[target].instance_type]
    for words, changed in _changes(spec, target):
        if check_spec(changed.model_dump(mode="json"))[0] is None:
            continue  # a mesh that the model or the batch cannot be cut to
        plan = memory_of(changed, target)
        if plan is not None and plan.total <= usable(kind.gpu_gb):
            return words
    return None


def _changes(spec: RunSpec, target: int) -> Iterator[tuple[str, RunSpec]]:
    """From cheap to dear. The first three add up; more nodes and tensor ranks come on top."""
    train, cut = spec.train, spec.parallelism
    words = []

    def changed(nodes: int = spec.compute[target].nodes) -> RunSpec:
        places = list(spec.compute)
        places[target] = places[target].model_copy(update={"nodes": nodes})
        return spec.model_copy(update={"train": train, "parallelism": cut, "compute": places})

    if train.activation_checkpointing != "full":
        train = train.model_copy(update={"activation_checkpointing": "full"})
        words.append("train.activation_checkpointing full")
        yield ", ".join(words), changed()
    if train.micro_batch > 1:
        train = train.model_copy(update={"micro_batch": 1})
        words.append("train.micro_batch 1")
        yield ", ".join(words), changed()
    if cut.sharding is not Sharding.FULL_SHARD:
        cut = Parallelism(tensor=cut.tensor, pipeline=cut.pipeline)
        words.append("FULL_SHARD")
        yield ", ".join(words), changed()
    for times in (2, 4, 8, 16):
        nodes = times * spec.compute[target].nodes
        yield ", ".join([*words, f"{nodes} nodes"]), changed(nodes)
    for tensor in (2, 4, 8):
        if tensor > spec.parallelism.tensor:
            cut = Parallelism(tensor=tensor, pipeline=cut.pipeline)
            yield ", ".join([*words, f"parallelism.tensor {tensor}"]), changed()


def trained_elements(spec: RunSpec) -> int:
    """Weights that learn, of the whole model: what a checkpoint holds."""
    shape, lora = resolve_model(spec.model), spec.model.lora
    if lora is None:
        return shape.parameters()
    return shape.layers * _adapters(shape, lora, Mesh(1, 1, 1, 1)).whole


def usable(gpu_gb: int) -> int:
    """Bytes of a GPU that a plan may fill."""
    return int(gpu_gb * 1e9 * (1 - RESERVED))


def memory_problems(spec: RunSpec) -> Iterator[Problem]:
    """Refuses what cannot fit whatever the batch is: the weights and their moments alone."""
    for number, target in enumerate(spec.compute):
        plan, gpu_gb = memory_of(spec, number), INSTANCE_TYPES[target.instance_type].gpu_gb
        if plan is None or plan.parameters + plan.optimizer <= gpu_gb * 1e9:
            continue
        states = (plan.parameters + plan.optimizer) / 1e9
        copies = spec.parallelism.sharding is Sharding.NO_SHARD
        yield Problem(
            path=f"compute.{number}",
            value=f"{target.nodes} × {target.instance_type}",
            message=f"parameters and optimizer need {states:.1f} GB a GPU, it has {gpu_gb}",
            hint=("FULL_SHARD" if copies else "more nodes, FULL_SHARD")
            + ", or parallelism.tensor; `everstep plan` shows the parts",
        )


def _gradients_between(
    parallelism: Parallelism, mesh: Mesh, train: Train, learns: _Group
) -> tuple[int, int]:
    """Bytes from one microbatch to the next: whole gradients, or shards of them."""
    if _micro_batches(train, mesh) == 1:
        return 0, 0
    if parallelism.sharding is Sharding.NO_SHARD or mesh.pipeline > 1:
        return MASTER * learns.whole, 0
    return 0, MASTER * learns.shard


def _micro_batches(train: Train, mesh: Mesh) -> int:
    return max(1, train.global_batch // (mesh.data_ranks * train.micro_batch))


def _saved_in_block(shape: ModelConfig, tensor: int, wide: int, train: Train) -> int:
    """Bytes a token that one block saves for its backward pass."""
    if train.activation_checkpointing == "none":
        return _computed_in_block(shape, tensor, wide)
    saved = shape.dim * wide // tensor  # the block's input
    if train.activation_checkpointing == "selective":  # and matrix products, and attention
        heads, key_values = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        products = 2 * heads + 2 * key_values + 2 * shape.ffn_dim
        saved += 2 * shape.dim * wide + (products * wide + 4 * shape.heads) // tensor
    return saved


def _computed_in_block(shape: ModelConfig, tensor: int, wide: int) -> int:
    """Bytes a token that a block's backward pass needs.

    Norms: their input and normalised input in fp32, on this rank's part of the sequence; their
    output whole. Attention: rotated queries and keys, values, and the output twice (in SDPA's
    layout and in the projection's). Feed-forward: four hidden vectors. Dropout: two masks.
    """
    norms = 2 * shape.dim * (8 // tensor + wide) + 8
    heads = shape.head_dim * wide * (3 * shape.heads + 2 * shape.kv_heads) + 4 * shape.heads
    masks = 2 * shape.dim * wide // tensor if shape.dropout else 0
    return norms + (heads + 4 * shape.ffn_dim * wide) // tensor + masks


def _block(shape: ModelConfig) -> list[tuple[int, int, str]]:
    """Rows, columns and what the tensor dimension cuts, of each parameter of a block."""
    query, key = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    by_rows = (query, key, key, shape.ffn_dim, shape.ffn_dim)
    by_columns = ((shape.dim, query), (shape.dim, shape.ffn_dim))
    return [
        *((rows, shape.dim, "rows") for rows in by_rows),
        *((rows, columns, "columns") for rows, columns in by_columns),
        *[(shape.dim, 1, "nothing")] * 2,
    ]


def _adapters(shape: ModelConfig, lora: Lora, mesh: Mesh) -> _Group:
    """Of one block."""
    key, dim, ffn = shape.kv_heads * shape.head_dim, shape.dim, shape.ffn_dim
    sizes = {"wq": (dim, dim), "wk": (key, dim), "wv": (key, dim), "wo": (dim, dim)}
    sizes |= {"w1": (ffn, dim), "w2": (dim, ffn), "w3": (ffn, dim)}
    cuts = [sizes[target] for target in set(lora.targets)]
    return _group(
        [
            part
            for rows, columns in cuts
            for part in ((lora.rank, columns, "nothing"), (rows, lora.rank, "nothing"))
        ],
        mesh,
    )


def _root(shape: ModelConfig, *, first: bool) -> list[tuple[int, int, str]]:
    """What is in no block: the output and its norm, and the embedding on the first stage."""
    tables = 2 if first and not shape.tied_embeddings else 1
    return [(shape.dim, 1, "nothing"), *[(shape.vocab_size, shape.dim, "rows")] * tables]


def _group(parameters: list[tuple[int, int, str]], mesh: Mesh) -> _Group:
    whole = shard = 0
    for rows, columns, cut in parameters:
        rows = rows // mesh.tensor if cut == "rows" else rows
        columns = columns // mesh.tensor if cut == "columns" else columns
        whole += rows * columns
        shard += ceil(rows / mesh.shard) * columns
    return _Group(whole, shard)
