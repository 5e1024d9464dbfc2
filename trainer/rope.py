"""Rotary position embedding, Llama 3.1's scaling of it, and the mask of packed documents."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from everstep.contracts.models import ModelConfig, RopeScaling


class Context(NamedTuple):
    """What every block needs to know of the tokens' places."""

    cos: Tensor
    """fp32, (length, head_dim / 2), or with a batch and a head dimension before."""
    sin: Tensor
    mask: Tensor | None
    """True where a token (row) sees another (column): (batch, 1, length, length). None: causal."""


def angles(
    config: ModelConfig,
    length: int,
    device: torch.device,
    positions: Tensor | None = None,
    documents: Tensor | None = None,
) -> Context:
    """The context of ``length`` tokens that follow each other, or of packed documents.

    ``positions``: place of each token in its document; ``documents``: a number a document, equal
    for the tokens that may see each other; both (batch, length).
    """
    # computed, not a buffer: buffers are lost between the meta device and the real one
    half = torch.arange(0, config.head_dim, 2, device=device, dtype=torch.float32)
    frequency = config.rope_theta ** (-half / config.head_dim)
    if config.rope_scaling is not None:
        frequency = _stretched(frequency, config.rope_scaling)
    if positions is None:
        angle = torch.outer(torch.arange(length, device=device, dtype=torch.float32), frequency)
    else:
        angle = (positions.float().unsqueeze(-1) * frequency).unsqueeze(1)
    return Context(angle.cos(), angle.sin(), None if documents is None else _mask(documents))


def rotate(x: Tensor, context: Context) -> Tensor:
    """Rotates (batch, heads, length, head_dim) on halves, as published Hugging Face weights do."""
    first, second = x.float().chunk(2, dim=-1)
    cos, sin = context.cos, context.sin
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


def _stretched(frequency: Tensor, scaling: RopeScaling) -> Tensor:
    """Llama 3.1: slow frequencies divided by the factor, fast ones kept, a line between."""
    turns = scaling.original_length * frequency / (2 * math.pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    kept = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    return frequency * (kept + (1.0 - kept) / scaling.factor)


def _mask(documents: Tensor) -> Tensor:
    same = documents.unsqueeze(2) == documents.unsqueeze(1)
    return same.tril().unsqueeze(1)
