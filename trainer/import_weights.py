"""Starting from a Hugging Face Llama checkpoint: each rank reads its own slices of the files.

``config.json`` must say the model that the run asks for. Tensors are read one at a time, through
a memory map: no rank ever holds more of the model than its part.
"""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from everstep.contracts.models import ModelConfig
from trainer.errors import ConfigError
from trainer.host import MlRoot
from trainer.llama_names import llama_config, theirs
from trainer.model import LORA_A, LORA_B
from trainer.optim import local

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
_NOT_THE_SHAPE = {
    "architectures",
    "attention_dropout",
    "bos_token_id",
    "eos_token_id",
    "initializer_range",
    "max_position_embeddings",
    "pad_token_id",
    "torch_dtype",
    "use_cache",
}
"""What may differ: it changes no logit."""
_DEFAULTS = {"attention_bias": False, "mlp_bias": False, "tie_word_embeddings": False}


def weights_folder(weights: str, ml: MlRoot) -> Path:
    """``model.weights``: a folder, or the name of a channel."""
    return Path(weights) if "/" in weights else ml.channel(weights)


def import_weights(model: nn.Module, shape: ModelConfig, folder: Path) -> None:
    """Fills ``model`` (of any mesh) from ``folder``. Raises ``ConfigError`` where it is not it."""
    check_config(folder, shape)
    files = files_of(folder)
    with ExitStack() as stack, torch.no_grad():
        opened: dict[str, Any] = {}
        for name, parameter in model.named_parameters():
            if name.endswith((LORA_A, LORA_B)):
                continue  # an adapter beside them is the run's own
            key = theirs(name)
            if key not in files:
                raise ConfigError(f"{folder}: no tensor {key}", "a whole LlamaForCausalLM")
            file = files[key]
            if file not in opened:
                opened[file] = stack.enter_context(_open(folder / file))
            _fill(parameter, opened[file].get_slice(key), f"{folder / file}: {key}")


def _fill(parameter: nn.Parameter, saved: Any, where: str) -> None:
    if list(saved.get_shape()) != list(parameter.shape):
        raise ConfigError(
            f"{where} is {saved.get_shape()}, the model's is {list(parameter.shape)}",
            "model.preset or model.config must describe the weights' own shape",
        )
    size, offset = tuple(parameter.shape), (0,) * parameter.dim()
    if isinstance(parameter, DTensor):
        size, offset = compute_local_shape_and_global_offset(
            parameter.shape, parameter.device_mesh, parameter.placements
        )
    mine = tuple(slice(start, start + length) for start, length in zip(offset, size, strict=True))
    if 0 not in size:  # a small tensor on many ranks: some have none of it
        local(parameter).copy_(saved[mine])


def files_of(folder: Path) -> dict[str, str]:
    """Tensor name → file."""
    if (folder / INDEX).exists():
        found: dict[str, str] = json.loads((folder / INDEX).read_text())["weight_map"]
        return found
    if not (folder / SINGLE).exists():
        raise ConfigError(
            f"model.weights: neither {INDEX} nor {SINGLE} in {folder}",
            "a folder as huggingface_hub downloads it, with safetensors (not .bin) files",
        )
    with _open(folder / SINGLE) as file:
        return dict.fromkeys(file.keys(), SINGLE)


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except (OSError, SafetensorError) as error:
        raise ConfigError(f"{path}: {error}", "copy it again") from error


def check_config(folder: Path, shape: ModelConfig) -> None:
    try:
        found = _DEFAULTS | json.loads((folder / "config.json").read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"model.weights: {folder}/config.json: {error}", "copy it too") from error
    # transformers 5 keeps what concerns rotation in a section of its own
    rotation = found.get("rope_parameters") or found.get("rope_scaling") or {}
    found.setdefault("rope_theta", rotation.get("rope_theta", 10_000.0))
    plain = rotation.get("rope_type", "default") == "default"
    scaling = {key: value for key, value in rotation.items() if key != "rope_theta"}
    found["rope_scaling"] = None if plain else scaling
    found.setdefault("num_key_value_heads", found.get("num_attention_heads"))
    if found.get("head_dim") is None:
        found["head_dim"] = shape.head_dim
    wanted = {"rope_scaling": None} | llama_config(shape, 0, "", None)
    for key, value in wanted.items():
        if key not in _NOT_THE_SHAPE and found.get(key) != value:
            raise ConfigError(
                f"model.weights: {folder}/config.json says {key}={found.get(key)!r}, the run's "
                f"model has {value!r}",
                "model.preset or model.config must describe the weights' own shape",
            )
