"""Our parameters in the words of Hugging Face's ``LlamaForCausalLM``; rotary halves are alike."""

import re
from typing import Any

from everstep.contracts.models import ModelConfig

_ENDS = {
    "embedding.weight": "model.embed_tokens.weight",
    "norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_IN_BLOCK = {
    "attention_norm": "input_layernorm",
    "attention.wq": "self_attn.q_proj",
    "attention.wk": "self_attn.k_proj",
    "attention.wv": "self_attn.v_proj",
    "attention.wo": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn.w1": "mlp.gate_proj",
    "ffn.w2": "mlp.down_proj",
    "ffn.w3": "mlp.up_proj",
}
_OURS = re.compile(r"blocks\.(\d+)\.(.+)\.weight")
_THEIRS = re.compile(r"model\.layers\.(\d+)\.(.+)\.weight")


def theirs(name: str) -> str:
    """``blocks.0.attention.wq.weight`` → ``model.layers.0.self_attn.q_proj.weight``."""
    if name in _ENDS:
        return _ENDS[name]
    match = _OURS.fullmatch(name)
    if match is None or match[2] not in _IN_BLOCK:
        raise KeyError(name)
    return f"model.layers.{match[1]}.{_IN_BLOCK[match[2]]}.weight"


def ours(name: str) -> str:
    """The inverse of ``theirs``."""
    for mine, other in _ENDS.items():
        if name == other:
            return mine
    match = _THEIRS.fullmatch(name)
    parts = {other: mine for mine, other in _IN_BLOCK.items()}
    if match is None or match[2] not in parts:
        raise KeyError(name)
    return f"blocks.{match[1]}.{parts[match[2]]}.weight"


def llama_config(
    shape: ModelConfig, sequence_length: int, torch_dtype: str, end_token: int | None
) -> dict[str, Any]:
    """``config.json``, in the words that every release of transformers reads."""
    scaling = shape.rope_scaling
    rotation = scaling and {
        "rope_type": "llama3",
        "factor": scaling.factor,
        "low_freq_factor": scaling.low_freq_factor,
        "high_freq_factor": scaling.high_freq_factor,
        "original_max_position_embeddings": scaling.original_length,
    }
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.dim,
        "intermediate_size": shape.ffn_dim,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocab_size,
        "max_position_embeddings": sequence_length,
        "rms_norm_eps": shape.norm_eps,
        "rope_theta": shape.rope_theta,
        **({"rope_scaling": rotation} if rotation else {}),
        "tie_word_embeddings": shape.tied_embeddings,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "bos_token_id": None,
        "eos_token_id": end_token,
        "pad_token_id": None,
        "torch_dtype": torch_dtype,
        "use_cache": True,
    }
