"""What a block computes in, what it keeps for its backward, and whether it is compiled."""

from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from everstep.contracts.training_spec import Train
from trainer.fp8 import to_fp8
from trainer.model import Block

_aten = torch.ops.aten
DEAR = [
    _aten.mm.default,
    _aten._scaled_mm.default,  # of FP8
    _aten._scaled_dot_product_flash_attention.default,
    _aten._scaled_dot_product_efficient_attention.default,
    _aten._scaled_dot_product_cudnn_attention.default,
    _aten._scaled_dot_product_flash_attention_for_cpu.default,
]
"""Kept by ``selective``: matrix products and attention. The rest is computed again."""


def prepare(block: Block, train: Train, emulate_fp8: bool = False) -> None:
    """Before the block is laid out, so that sharding's hooks stay outside of both.

    ``emulate_fp8``: for tests, see ``to_fp8``.
    """
    if train.dtype == "fp8":
        to_fp8(block, emulate_fp8)
    run: Any = block.compute
    if train.activation_checkpointing != "none":
        # reading the generators costs, and without dropout nothing draws from them
        options: dict[str, Any] = {"use_reentrant": False, "preserve_rng_state": block.dropout > 0}
        if train.activation_checkpointing == "selective":
            options["context_fn"] = partial(create_selective_checkpoint_contexts, DEAR)
        run = partial(checkpoint, run, **options)
    block.run = torch.compile(run) if train.compile else run
