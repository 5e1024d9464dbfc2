"""FP8 matrix products in the blocks, by torchao: scaled a tensor, at every product anew.

Weights, optimizer and checkpoints stay fp32, everything outside the blocks' matrices bf16.
"""

from typing import Any

import torch
from torch import nn

from everstep.contracts.training_spec import Train
from trainer.errors import ConfigError

CAPABILITY = (8, 9)
"""CUDA compute capability from which on GPUs have FP8 units: Ada (L4, L40S), Hopper, Blackwell."""
_HINT = "train.dtype bf16"


def check_hardware(train: Train, device: torch.device) -> None:
    """Raises ``ConfigError`` where ``train`` asks for FP8 and ``device`` has none.

    Asked for, not tried: other devices would not refuse by themselves.
    """
    if train.dtype != "fp8":
        return
    if device.type != "cuda":
        raise ConfigError(f"train.dtype=fp8: a {device.type} device has no FP8 hardware", _HINT)
    capability = torch.cuda.get_device_capability(device)
    if capability < CAPABILITY:
        name, has = torch.cuda.get_device_name(device), ".".join(map(str, capability))
        raise ConfigError(
            f"train.dtype=fp8: {name} has no FP8 hardware (compute capability {has}, FP8 needs "
            f"{'.'.join(map(str, CAPABILITY))})",
            _HINT,
        )


def to_fp8(block: nn.Module, emulate: bool = False) -> None:
    """Replaces every linear layer of ``block``, names and weights kept; before it is laid out.

    ``emulate``: round as FP8 does and multiply in the wider type, for tests without the hardware.
    """
    try:
        from torchao.float8 import Float8LinearConfig, convert_to_float8_training
    except ImportError as error:
        raise ConfigError(
            f"train.dtype=fp8 needs torchao: {error}", "pip install torchao, or train.dtype bf16"
        ) from error
    config: Any = Float8LinearConfig(emulate=emulate)
    convert_to_float8_training(block, config=config)
