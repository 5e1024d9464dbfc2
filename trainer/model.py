"""A decoder-only transformer of the Llama family (RMSNorm, RoPE, grouped-query, SwiGLU)."""

from hashlib import blake2b

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from everstep.contracts.models import ModelConfig

INIT_STD = 0.02


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
        self.heads, self.kv_heads, self.head_dim = config.heads, config.kv_heads, config.head_dim
        kv = config.kv_heads * config.head_dim
        self.wq = nn.Linear(config.dim, config.heads * config.head_dim, bias=False)
        self.wk = nn.Linear(config.dim, kv, bias=False)
        self.wv = nn.Linear(config.dim, kv, bias=False)
        self.wo = nn.Linear(config.heads * config.head_dim, config.dim, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """x: (batch, length, dim); cos, sin: (length, head_dim / 2) in fp32."""
        batch, length, _ = x.shape
        q = self.wq(x).view(batch, length, self.heads, self.head_dim).transpose(1, 2)
        k = self.wk(x).view(batch, length, self.kv_heads, self.head_dim).transpose(1, 2)
        v = self.wv(x).view(batch, length, self.kv_heads, self.head_dim).transpose(1, 2)
        q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
        out = F.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=self.heads != self.kv_heads
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

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self._drop(self.attention(self.attention_norm(x), cos, sin))
        return x + self._drop(self.ffn(self.ffn_norm(x)))

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training) if self.dropout else x


class Transformer(nn.Module):
    """Tokens (batch, length) → logits (batch, length, vocab_size)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.dim)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.dim, config.norm_eps)
        self.output = (
            None if config.tied_embeddings else nn.Linear(config.dim, config.vocab_size, bias=False)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        cos, sin = _angles(self.config, tokens.shape[1], tokens.device)
        x = self.embedding(tokens)
        if self.config.dropout:
            x = F.dropout(x, self.config.dropout, self.training)
        for block in self.blocks:
            x = block(x, cos, sin)
        x = self.norm(x)
        if self.output is None:
            return F.linear(x, self.embedding.weight)
        return self.output(x)


def initial_values(config: ModelConfig, name: str, shape: torch.Size, seed: int) -> Tensor:
    """The whole initial tensor of parameter ``name``, fp32 on the CPU.

    A generator a name, seeded by (seed, name): every mesh starts from the same weights, and
    adding a layer changes no other layer's.
    """
    if len(shape) == 1:
        return torch.ones(shape)
    digest = blake2b(f"{seed}/{name}".encode(), digest_size=7).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest, "little"))
    std = INIT_STD
    if name.endswith(("wo.weight", "w2.weight")):
        std /= (2 * config.layers) ** 0.5  # keeps the residual stream's variance with depth
    return torch.empty(shape).normal_(0.0, std, generator=generator)


def _angles(config: ModelConfig, length: int, device: torch.device) -> tuple[Tensor, Tensor]:
    # computed, not a buffer: buffers are lost between the meta device and the real one
    half = torch.arange(0, config.head_dim, 2, device=device, dtype=torch.float32)
    frequency = config.rope_theta ** (-half / config.head_dim)
    angle = torch.outer(torch.arange(length, device=device, dtype=torch.float32), frequency)
    return angle.cos(), angle.sin()


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding on halves (the layout of the published Hugging Face weights)."""
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)
