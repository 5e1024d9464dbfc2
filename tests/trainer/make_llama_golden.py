"""Makes tests/trainer/golden: small random Llamas and their logits, by transformers itself.

Run by hand, in an environment that has transformers (never ours):
``python tests/trainer/make_llama_golden.py``. Made with transformers 5.24.
"""

from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

OUT = Path(__file__).parent / "golden"
STRETCHED = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
CASES = {
    # grouped-query, Llama 3's base; 48 tokens are three times the original context
    "llama31": {"rope_theta": 500_000.0, "rope_scaling": STRETCHED},
    "llama2": {"rope_theta": 10_000.0, "num_key_value_heads": 4},
    "tied": {"rope_theta": 10_000.0, "tie_word_embeddings": True},
}

for name, changes in CASES.items():
    torch.manual_seed(0)
    base = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 64,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5,
        "initializer_range": 0.2,
    }
    model = LlamaForCausalLM(LlamaConfig(**(base | changes))).float().eval()
    folder = OUT / name
    model.save_pretrained(folder, max_shard_size="20KB")
    tokens = torch.randint(0, 64, (2, 48))
    with torch.no_grad():
        logits = model(tokens).logits
    save_file({"tokens": tokens, "logits": logits.contiguous()}, folder / "answers.safetensors")
