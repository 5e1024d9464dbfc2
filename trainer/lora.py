"""Low-rank adapters beside frozen matrices (LoRA, Hu et al. 2021): W x + alpha / rank · B A x.

A checkpoint holds the adapters alone. The frozen weights are read again at every start, and a
fingerprint of their files is part of the run's identity: other ones are refused.
"""

from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from everstep.contracts.training_spec import Lora
from trainer.errors import ConfigError
from trainer.import_weights import files_of
from trainer.model import LORA_A, LORA_B, Transformer
from trainer.store import hash_file


class LoraLinear(nn.Linear):
    """A linear layer whose ``weight`` is frozen; the base's name stays as it is."""

    def __init__(self, inputs: int, outputs: int, lora: Lora) -> None:
        super().__init__(inputs, outputs, bias=False)
        self.weight.requires_grad_(False)
        self.scale, self.dropout = lora.alpha / lora.rank, lora.dropout
        self.lora_a = nn.Parameter(torch.empty(lora.rank, inputs))
        self.lora_b = nn.Parameter(torch.empty(outputs, lora.rank))

    def forward(self, x: Tensor) -> Tensor:
        thin = F.dropout(x, self.dropout, self.training) if self.dropout else x
        low = F.linear(F.linear(thin, self.lora_a), self.lora_b)
        return F.linear(x, self.weight) + self.scale * low


def add_adapters(model: Transformer, lora: Lora) -> None:
    """Freezes ``model``, still on the meta device, and puts adapters beside the targets."""
    model.requires_grad_(False)
    for block in model.blocks.values():
        for part in (block.attention, block.ffn):
            for target in lora.targets:
                base = cast(nn.Linear | None, getattr(part, target, None))
                if base is not None:
                    with base.weight.device:
                        adapted = LoraLinear(base.in_features, base.out_features, lora)
                    setattr(part, target, adapted)


def lora_identity(
    lora: Lora | None, weights: Path | None, group: dist.ProcessGroup
) -> dict[str, Any] | None:
    """What of it must stay within a run. Dropout may change. Called by all ranks."""
    if lora is None or weights is None:
        return None
    files = weight_files(weights)
    mine = files[dist.get_rank(group) :: dist.get_world_size(group)]
    gathered: list[dict[str, str]] = [{}] * dist.get_world_size(group)
    dist.all_gather_object(gathered, digests(weights, mine), group=group)
    return {
        "rank": lora.rank,
        "alpha": lora.alpha,
        "targets": sorted(lora.targets),
        "base": fingerprint({file: digest for part in gathered for file, digest in part.items()}),
    }


def merged(base: Tensor, a: Tensor, b: Tensor, alpha: float) -> Tensor:
    """The matrix that computes what ``base`` and its adapter do, fp32."""
    return base.float() + alpha / len(a) * (b.float() @ a.float())


def adapter_names(name: str) -> tuple[str, str]:
    """Of A and B beside the parameter ``name``."""
    layer = name.removesuffix(".weight")
    return f"{layer}.{LORA_A}", f"{layer}.{LORA_B}"


def weight_files(weights: Path) -> list[str]:
    return sorted(set(files_of(weights).values()))


def digests(weights: Path, files: list[str]) -> dict[str, str]:
    """SHA-256 of each. Raises ``ConfigError`` where one cannot be read."""
    try:
        return {file: hash_file(weights / file)[1] for file in files}
    except OSError as error:
        raise ConfigError(f"model.weights: {error}", "copy the folder again") from error


def fingerprint(by_file: dict[str, str]) -> str:
    """SHA-256 over the files' own; each was hashed by one rank of all."""
    return sha256(repr(sorted(by_file.items())).encode()).hexdigest()
