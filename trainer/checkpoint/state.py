"""What a checkpoint holds: tensors by name, random number generators, and ``loop.json``.

Names do not depend on the mesh: ``model.<parameter>``, ``optimizer.<parameter>.<slot>`` and
``rng.<rank>``. Any mesh can read the first two; the third is for the same mesh.
"""

import json
import random
from base64 import b64decode, b64encode
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from trainer.optim import slots

LOOP_NAME = "loop.json"


class LoopState(BaseModel):
    """The part of a checkpoint that is not tensors."""

    model_config = ConfigDict(frozen=True)

    schema_version: int = 1
    step: int = 0
    """Optimizer steps done."""
    samples: int = 0
    """Position in the seeded order: samples taken by all ranks together."""
    tokens: int = 0
    losses: list[float] = []
    """The last ones, which the guard compares with."""
    lr: float = 0.0
    """Rate of the last step, for the record: the schedule is a function of ``step``."""
    mesh: str = ""
    """Sharding and sizes. Generators are restored only onto the same."""
    identity: dict[str, Any] = {}
    """What must not change within a run: shape, sequence length, batch, seed, dataset."""


def live_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The training's own tensors by checkpoint name: loading into them restores it.

    Optimizer slots that no step has made yet are made here (zeros).
    """
    tensors: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue  # frozen: read from where it came from, see trainer.lora
        tensors[f"model.{name}"] = parameter.detach()
        for slot, value in slots(optimizer, parameter).items():
            tensors[f"optimizer.{name}.{slot}"] = value
    return tensors


def copy_to_host(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Real copies in host memory: training may overwrite the originals at once."""
    return {name: _copy(tensor) for name, tensor in tensors.items()}


def _copy(tensor: Tensor) -> Tensor:
    if isinstance(tensor, DTensor):
        # the constructor, unlike from_local, leaves a host copy of a device tensor on the host
        local = tensor.to_local().detach().to("cpu", copy=True)
        return DTensor(local, tensor._spec, requires_grad=False)
    return tensor.detach().to("cpu", copy=True)


def rng_name(rank: int) -> str:
    return f"rng.{rank:05d}"


def capture_rng() -> Tensor:
    """Python's, numpy's and torch's generators of this process as bytes (a uint8 tensor)."""
    version, words, gauss = random.getstate()
    kind, keys, position, has_gauss, cached = np.random.get_state()
    state = {
        "python": [version, list(words), gauss],
        "numpy": [kind, _pack(np.asarray(keys).tobytes()), position, has_gauss, cached],
        "torch": _pack(torch.get_rng_state().numpy().tobytes()),
    }
    if torch.cuda.is_available():
        state["cuda"] = _pack(torch.cuda.get_rng_state().numpy().tobytes())
    return torch.frombuffer(bytearray(json.dumps(state).encode()), dtype=torch.uint8)


def restore_rng(saved: Tensor) -> None:
    """The inverse of ``capture_rng``."""
    state = json.loads(saved.numpy().tobytes())
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    kind, keys, position, has_gauss, cached = state["numpy"]
    words32 = np.frombuffer(b64decode(keys), dtype=np.uint32)
    np.random.set_state((kind, words32, position, has_gauss, cached))
    torch.set_rng_state(_bytes_tensor(state["torch"]))
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(_bytes_tensor(state["cuda"]))


def seed_rng(seed: int, step: int, rank: int) -> None:
    """Fresh generators: at the start of a run, and after a change of mesh."""
    mixed = np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0]
    value = int(mixed) & 0x7FFFFFFFFFFFFFFF
    random.seed(value)
    np.random.seed(value & 0xFFFFFFFF)
    torch.manual_seed(value)


def _pack(data: bytes) -> str:
    return b64encode(data).decode()


def _bytes_tensor(packed: str) -> Tensor:
    return torch.frombuffer(bytearray(b64decode(packed)), dtype=torch.uint8)
