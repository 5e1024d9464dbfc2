"""Arithmetic of a training step, and what a GPU could do: model FLOPs utilisation (MFU).

Counted as in the PaLM paper, appendix B: 6 FLOPs a parameter and token, and 12 × layers × dim ×
sequence length for attention, causal masking not subtracted. Recomputed activations do not count.
Frozen weights (LoRA) have no gradients of their own: 4 FLOPs a parameter and token; adapters are
left out.
"""

from everstep.contracts.models import ModelConfig

PEAK_TFLOPS = {
    "A10G": 70.0,
    "L4": 121.0,
    "L40S": 362.0,
    "A100": 312.0,
    "H100": 989.0,
    "H200": 989.0,
    "B200": 2250.0,
    "B300": 2250.0,
}
"""Dense bf16 TFLOP/s by the word in the device's name. Source: NVIDIA's data sheets (SXM forms of
A100 to B300; half of the figure where only the one with sparsity is printed), read 2026-11."""


def flops_per_token(model: ModelConfig, sequence_length: int, *, frozen: bool = False) -> float:
    """FLOPs of forward and backward for one token of a window of ``sequence_length``."""
    lookup = 0 if model.tied_embeddings else model.vocab_size * model.dim
    attention = 12 * model.layers * model.dim * sequence_length
    return (4.0 if frozen else 6.0) * (model.parameters() - lookup) + attention


def peak_flops(device_name: str) -> float | None:
    """FLOP/s of one GPU by its name (``NVIDIA H100 80GB HBM3``); None for one not in the table."""
    words = device_name.replace("-", " ").split()
    return next((1e12 * PEAK_TFLOPS[w] for w in words if w in PEAK_TFLOPS), None)
