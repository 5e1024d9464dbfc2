"""How a model is cut over the tensor dimension of the mesh, with sequence parallelism.

Between attention and feed-forward each rank holds ``length / tensor`` tokens of every sequence
(norms and residuals are not computed twice); inside them, a part of the heads and of the hidden
features of all tokens. Embedding and output are cut by vocabulary, and logits stay cut: see
``trainer.loss``.
"""

from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from trainer.model import Transformer


def cut(model: Transformer, mesh: DeviceMesh) -> None:
    """Makes every parameter a DTensor on ``mesh`` (one dimension), and adds the collectives."""
    plan: dict[str, ParallelStyle] = {}
    if model.embedding is not None:
        plan["embedding"] = RowwiseParallel(
            input_layouts=Replicate(), output_layouts=Shard(1), use_local_output=True
        )
    if model.norm is not None:
        plan["norm"] = SequenceParallel(use_local_output=True)
    if model.output is not None:
        plan["output"] = ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1))
    for number in model.blocks:
        plan |= {f"blocks.{number}.{name}": style for name, style in _block().items()}
    parallelize_module(model, mesh, plan)


def _block() -> dict[str, ParallelStyle]:
    return {
        "attention_norm": SequenceParallel(use_local_output=True),
        "attention": PrepareModuleInput(
            input_layouts=(Shard(1), None), desired_input_layouts=(Replicate(), None)
        ),
        "attention.wq": ColwiseParallel(),
        "attention.wk": ColwiseParallel(),
        "attention.wv": ColwiseParallel(),
        "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
        "ffn_norm": SequenceParallel(use_local_output=True),
        "ffn": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
        "ffn.w1": ColwiseParallel(),
        "ffn.w2": RowwiseParallel(output_layouts=Shard(1)),
        "ffn.w3": ColwiseParallel(),
    }
