"""A LoRA run's adapters merged into the weights that they were trained beside."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from everstep.contracts.models import ModelConfig
from trainer.errors import ConfigError
from trainer.import_weights import check_config, files_of
from trainer.llama_names import theirs
from trainer.lora import adapter_names, digests, fingerprint, merged, weight_files
from trainer.model import Transformer


class Merged:
    """Reads one whole parameter at a time, fp32, by our names.

    ``saved(name, size)`` reads a tensor of the checkpoint. Raises ``ConfigError`` where ``base``
    is not what ``lora`` (of the checkpoint's identity) says.
    """

    def __init__(
        self,
        base: Path | None,
        shape: ModelConfig,
        lora: dict[str, Any],
        saved: Callable[[str, torch.Size], Tensor],
    ) -> None:
        if base is None:
            raise ConfigError(
                "the checkpoint holds adapters (LoRA) alone",
                "--weights FOLDER: what the run's model.weights named",
            )
        check_config(base, shape)
        if fingerprint(digests(base, weight_files(base))) != lora["base"]:
            raise ConfigError(
                f"{base} does not hold the weights that the adapters were trained beside",
                "--weights: the very files that the run started from",
            )
        self._base, self._files = base, files_of(base)
        self._lora, self._saved = lora, saved
        with torch.device("meta"):
            model = Transformer(shape)
        self._sizes = {name: parameter.shape for name, parameter in model.named_parameters()}

    def sizes(self) -> list[tuple[str, torch.Size]]:
        return sorted(self._sizes.items())

    def read(self, name: str) -> Tensor:
        key = theirs(name)
        with safe_open(self._base / self._files[key], framework="pt") as file:
            base: Tensor = file.get_tensor(key).float()
        layer = name.split(".")[-2] if "." in name else ""
        if layer not in self._lora["targets"]:
            return base
        rows, columns = self._sizes[name]
        rank = self._lora["rank"]
        a, b = adapter_names(name)
        return merged(
            base,
            self._saved(f"model.{a}", torch.Size((rank, columns))),
            self._saved(f"model.{b}", torch.Size((rows, rank))),
            self._lora["alpha"],
        )
