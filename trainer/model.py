"""A decoder-only transformer of the Llama family (RMSNorm, RoPE, grouped-query, SwiGLU)."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from everstep.contracts.models import ModelConfig
from trainer.rope import Context, angles, rotate

INIT_STD = 0.02
LORA_A, LORA_B = "lora_a", "lora_b"
"""Last words of an adapter's parameters; see ``trainer.lora``."""


class RMSNorm(nn.Module):
    """Normalises the last dimension; computed in fp32, returned in the input's type."""

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(dim))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return (wide * self.weight.float()).to(x.dtype)


class Attention(nn.Module):
    """Causal self-attention with fewer key/value heads than query heads."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        self.grouped = config.heads != config.kv_heads
        kv = config.kv_heads * config.head_dim
        self.wq = nn.Linear(config.dim, config.heads * config.head_dim, bias=False)
        self.wk = nn.Linear(config.dim, kv, bias=False)
        self.wv = nn.Linear(config.dim, kv, bias=False)
        self.wo = nn.Linear(config.heads * config.head_dim, config.dim, bias=False)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """x: (batch, length, dim). Heads are counted from the weights: a tensor rank has a part."""
        batch, length, _ = x.shape
        q, k, v = (
            projection(x).view(batch, length, -1, self.head_dim).transpose(1, 2)
            for projection in (self.wq, self.wk, self.wv)
        )
        q, k = rotate(q, context), rotate(k, context)
        out = F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=context.mask,
            is_causal=context.mask is None,
            enable_gqa=self.grouped,
        )
        return self.wo(out.transpose(1, 2).reshape(batch, length, -1))


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.w1 = nn.Linear(config.dim, config.ffn_dim, bias=False)
        self.w2 = nn.Linear(config.ffn_dim, config.dim, bias=False)
        self.w3 = nn.Linear(config.dim, config.ffn_dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    """Pre-norm attention and feed-forward, each with residual dropout."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dropout = config.dropout
        self.attention_norm = RMSNorm(config.dim, config.norm_eps)
        self.attention = Attention(config)
        self.ffn_norm = RMSNorm(config.dim, config.norm_eps)
        self.ffn = FeedForward(config)
        self.run: Callable[[Tensor, Context], Tensor] = self.compute
        """What ``forward`` calls: ``compute``, or it with recomputation or compiled around it.
        Not the module itself: sharding's hooks stay outside, and names stay as they are."""

    def forward(self, x: Tensor, context: Context) -> Tensor:
        return self.run(x, context)

    def compute(self, x: Tensor, context: Context) -> Tensor:
        x = x + self._drop(self.attention(self.attention_norm(x), context))
        return x + self._drop(self.ffn(self.ffn_norm(x)))

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training) if self.dropout else x


@dataclass(frozen=True)
class Part:
    """The stage of a pipeline that a ``Transformer`` is; by default the whole model."""

    number: int = 0
    count: int = 1

    @property
    def first(self) -> bool:
        return self.number == 0

    @property
    def last(self) -> bool:
        return self.number == self.count - 1

    def layers(self, layers: int) -> range:
        """As even as it goes, in order."""
        start, end = (n * layers // self.count for n in (self.number, self.number + 1))
        return range(start, end)


class Transformer(nn.Module):
    """Tokens (batch, length) → logits (batch, length, vocab_size).

    A part that is not the first takes what the one before returns, (batch, length, dim). Names
    count layers over the whole model, so a parameter has one name on every mesh.
    """

    def __init__(self, config: ModelConfig, part: Part | None = None, tensor: int = 1) -> None:
        """``tensor``: ranks over which the length of a hidden tensor is split."""
        super().__init__()
        self.config, self.part, self.tensor = config, part or Part(), tensor
        self.embedding = nn.Embedding(config.vocab_size, config.dim) if self.part.first else None
        layers = self.part.layers(config.layers)
        self.blocks = nn.ModuleDict({str(number): Block(config) for number in layers})
        self.norm = RMSNorm(config.dim, config.norm_eps) if self.part.last else None
        self.output = (
            nn.Linear(config.dim, config.vocab_size, bias=False)
            if self.part.last and not config.tied_embeddings
            else None
        )

    def forward(
        self, x: Tensor, positions: Tensor | None = None, documents: Tensor | None = None
    ) -> Tensor:
        """``positions``, ``documents``: (batch, length), of packed documents; see ``angles``."""
        length = x.shape[1] if self.embedding is not None else x.shape[1] * self.tensor
        context = angles(self.config, length, x.device, positions, documents)
        if self.embedding is not None:
            x = self.embedding(x)
            if self.config.dropout:
                x = F.dropout(x, self.config.dropout, self.training)
        for block in self.blocks.values():
            x = block(x, context)
        if self.norm is None:
            return x
        x = self.norm(x)
        if self.output is not None:
            return self.output(x)
        assert self.embedding is not None  # tied: refused in a pipeline
        return F.linear(x, self.embedding.weight)


def initial_values(config: ModelConfig, name: str, shape: torch.Size, seed: int) -> Tensor:
    """The whole initial tensor of parameter ``name``, fp32 on the CPU.

    A generator a name, seeded by (seed, name): every mesh starts from the same weights, and
    adding a layer changes no other layer's.
    """
    if len(shape) == 1:
        return torch.ones(shape)
    if name.endswith(LORA_B):
        return torch.zeros(shape)  # so that an adapter starts as nothing
    digest = blake2b(f"{seed}/{name}".encode(), digest_size=7).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest, "little"))
    std = shape[1] ** -0.5 if name.endswith(LORA_A) else INIT_STD
    if name.endswith(("wo.weight", "w2.weight")):
        std /= (2 * config.layers) ** 0.5  # keeps the residual stream's variance with depth
    return torch.empty(shape).normal_(0.0, std, generator=generator)
