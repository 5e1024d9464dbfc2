"""What ``everstep.policy.memory`` adds up: communication groups, and bytes a token of a block.

Each figure is read off ``trainer.model``; tests/trainer/test_memory.py turns red where the model
begins to save more.
"""

from dataclasses import dataclass
from math import ceil

from everstep.contracts.mesh import Mesh
from everstep.contracts.models import ModelConfig
from everstep.contracts.training_spec import Lora, Train


@dataclass(frozen=True)
class Group:
    """One communication group: elements on a tensor rank, and on its fullest shard."""

    whole: int
    shard: int


def block_group(shape: ModelConfig, mesh: Mesh) -> Group:
    """The parameters of one block."""
    query, key = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    by_rows = (query, key, key, shape.ffn_dim, shape.ffn_dim)
    by_columns = ((shape.dim, query), (shape.dim, shape.ffn_dim))
    parameters = [
        *((rows, shape.dim, "rows") for rows in by_rows),
        *((rows, columns, "columns") for rows, columns in by_columns),
        *[(shape.dim, 1, "nothing")] * 2,
    ]
    return _group(parameters, mesh)


def adapter_group(shape: ModelConfig, lora: Lora, mesh: Mesh) -> Group:
    """The adapters of one block: whole on every tensor rank."""
    parameters = [
        part
        for rows, columns in _targets(shape, lora).values()
        for part in ((lora.rank, columns, "nothing"), (rows, lora.rank, "nothing"))
    ]
    return _group(parameters, mesh)


def root_group(shape: ModelConfig, mesh: Mesh, *, first: bool, last: bool) -> Group:
    """What is in no block: the embedding on the first stage, the output and its norm on the
    last."""
    tables = int(first) + int(last and not (first and shape.tied_embeddings))
    norm = [(shape.dim, 1, "nothing")] if last else []
    return _group([*norm, *[(shape.vocab_size, shape.dim, "rows")] * tables], mesh)


def computed_in_block(shape: ModelConfig, tensor: int, wide: int, lora: Lora | None) -> int:
    """Bytes a token that a block's backward pass needs.

    Norms: their input and, where their weight learns, normalised input in fp32, on this rank's part
    of the sequence; their output whole, where a matrix that reads it learns. Attention: rotated
    queries and keys, values, and the output in SDPA's layout and, where its projection learns, in
    the projection's. Feed-forward: four hidden vectors; the last where ``w2`` learns. Dropout: two
    masks.
    """
    heads, hidden = shape.heads * shape.head_dim, shape.ffn_dim
    norms = 2 * shape.dim * (8 if lora is None else 4) // tensor + 8
    norms += shape.dim * wide * (_learns(lora, "wq", "wk", "wv") + _learns(lora, "w1", "w3"))
    attention = 2 * heads + 2 * shape.kv_heads * shape.head_dim + heads * _learns(lora, "wo")
    feed_forward = hidden * (3 + _learns(lora, "w2"))
    masks = 2 * shape.dim * wide // tensor if shape.dropout else 0
    cut = (attention + feed_forward) * wide + 4 * shape.heads
    return norms + cut // tensor + masks + _adapters_save(shape, lora, wide)


def saved_in_block(
    shape: ModelConfig, tensor: int, wide: int, train: Train, lora: Lora | None
) -> int:
    """Bytes a token that one block saves for its backward pass."""
    if train.activation_checkpointing == "none":
        return computed_in_block(shape, tensor, wide, lora)
    saved = shape.dim * wide // tensor  # the block's input
    if train.activation_checkpointing == "selective":
        saved += _kept_by_selective(shape, tensor, wide, lora)
    return saved


def computed_again(
    shape: ModelConfig, tensor: int, wide: int, train: Train, lora: Lora | None
) -> int:
    """Bytes a token that the one block that goes back holds beside what it saved."""
    if train.activation_checkpointing == "none":
        return 0
    again = computed_in_block(shape, tensor, wide, lora)
    if train.activation_checkpointing == "selective":  # values, SDPA's output, w1's and w3's
        key, heads = shape.kv_heads * shape.head_dim, shape.heads * shape.head_dim
        again -= (key + heads + 2 * shape.ffn_dim) * wide // tensor
    return again


def _kept_by_selective(shape: ModelConfig, tensor: int, wide: int, lora: Lora | None) -> int:
    """Of each matrix product its result, and attention's."""
    heads, key = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    products = 2 * heads + 2 * key + 2 * shape.ffn_dim
    kept = 2 * shape.dim * wide + (products * wide + 4 * shape.heads) // tensor
    if lora is not None:
        kept += wide * sum(lora.rank + rows for rows, _ in _targets(shape, lora).values())
    return kept


def _adapters_save(shape: ModelConfig, lora: Lora | None, wide: int) -> int:
    """Between A and B; with dropout each adapter's own input, and its mask."""
    if lora is None:
        return 0
    columns = sum(columns for _, columns in _targets(shape, lora).values())
    return wide * (lora.rank * len(set(lora.targets)) + (2 * columns if lora.dropout else 0))


def _learns(lora: Lora | None, *matrices: str) -> bool:
    """Whether one of them needs what comes in for a gradient. An adapter with dropout needs what is
    left of it: see ``_adapters_save``."""
    return lora is None or not (lora.dropout or set(matrices).isdisjoint(lora.targets))


def _targets(shape: ModelConfig, lora: Lora) -> dict[str, tuple[int, int]]:
    """Rows and columns of the matrices with an adapter."""
    key, dim, ffn = shape.kv_heads * shape.head_dim, shape.dim, shape.ffn_dim
    sizes = {"wq": (dim, dim), "wk": (key, dim), "wv": (key, dim), "wo": (dim, dim)}
    sizes |= {"w1": (ffn, dim), "w2": (dim, ffn), "w3": (ffn, dim)}
    return {target: sizes[target] for target in sorted(set(lora.targets))}


def _group(parameters: list[tuple[int, int, str]], mesh: Mesh) -> Group:
    """Rows, columns and what the tensor dimension cuts, of each parameter."""
    whole = shard = 0
    for rows, columns, cut in parameters:
        rows = rows // mesh.tensor if cut == "rows" else rows
        columns = columns // mesh.tensor if cut == "columns" else columns
        whole += rows * columns
        shard += ceil(rows / mesh.shard) * columns
    return Group(whole, shard)
