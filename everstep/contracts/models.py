"""Shapes of the Llama family, by preset name.

Sources: the ``config.json`` of the published Llama 2, 3 and 3.1 checkpoints.
Only numbers live here: both the trainer and the planner read them.
"""

from pydantic import BaseModel, ConfigDict, Field


class RopeScaling(BaseModel):
    """Llama 3.1's stretched rotary frequencies: long wavelengths are slowed, short ones kept.

    Field by field what ``config.json`` says of ``"rope_type": "llama3"``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    factor: float = Field(ge=1)
    """Wavelengths longer than the original context / ``low_freq_factor`` grow by this."""
    low_freq_factor: float = Field(gt=0)
    high_freq_factor: float = Field(gt=0)
    """Wavelengths shorter than the original context / this stay; between the two: a blend."""
    original_length: int = Field(gt=0)
    """Context length, in tokens, of the training before the stretch."""


class ModelConfig(BaseModel):
    """A decoder-only transformer of the Llama family."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dim: int = Field(gt=0)
    layers: int = Field(gt=0)
    heads: int = Field(gt=0)
    kv_heads: int = Field(gt=0)
    ffn_dim: int = Field(gt=0)
    vocab_size: int = Field(gt=0)
    rope_theta: float = 10_000.0
    rope_scaling: RopeScaling | None = None
    norm_eps: float = 1e-5
    tied_embeddings: bool = False
    dropout: float = Field(default=0.0, ge=0, lt=1)

    @property
    def head_dim(self) -> int:
        return self.dim // self.heads

    def parameters(self) -> int:
        """Number of trainable parameters."""
        attention = self.dim * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        layer = attention + 3 * self.dim * self.ffn_dim + 2 * self.dim
        embeddings = self.vocab_size * self.dim * (1 if self.tied_embeddings else 2)
        return self.layers * layer + embeddings + self.dim


LLAMA31 = RopeScaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_length=8192)

PRESETS: dict[str, ModelConfig] = {
    "tiny": ModelConfig(dim=64, layers=2, heads=4, kv_heads=2, ffn_dim=176, vocab_size=1024),
    "small": ModelConfig(dim=256, layers=4, heads=8, kv_heads=4, ffn_dim=688, vocab_size=8192),
    "llama2-7b": ModelConfig(
        dim=4096, layers=32, heads=32, kv_heads=32, ffn_dim=11008, vocab_size=32000
    ),
    "llama2-13b": ModelConfig(
        dim=5120, layers=40, heads=40, kv_heads=40, ffn_dim=13824, vocab_size=32000
    ),
    "llama2-70b": ModelConfig(
        dim=8192, layers=80, heads=64, kv_heads=8, ffn_dim=28672, vocab_size=32000
    ),
    "llama3-8b": ModelConfig(
        dim=4096,
        layers=32,
        heads=32,
        kv_heads=8,
        ffn_dim=14336,
        vocab_size=128256,
        rope_theta=500_000.0,
    ),
    "llama3-70b": ModelConfig(
        dim=8192,
        layers=80,
        heads=64,
        kv_heads=8,
        ffn_dim=28672,
        vocab_size=128256,
        rope_theta=500_000.0,
    ),
    "llama3.1-8b": ModelConfig(
        dim=4096,
        layers=32,
        heads=32,
        kv_heads=8,
        ffn_dim=14336,
        vocab_size=128256,
        rope_theta=500_000.0,
        rope_scaling=LLAMA31,
    ),
    "llama3.1-70b": ModelConfig(
        dim=8192,
        layers=80,
        heads=64,
        kv_heads=8,
        ffn_dim=28672,
        vocab_size=128256,
        rope_theta=500_000.0,
        rope_scaling=LLAMA31,
    ),
    "llama3.1-405b": ModelConfig(
        dim=16384,
        layers=126,
        heads=128,
        kv_heads=8,
        ffn_dim=53248,
        vocab_size=128256,
        rope_theta=500_000.0,
        rope_scaling=LLAMA31,
    ),
}
