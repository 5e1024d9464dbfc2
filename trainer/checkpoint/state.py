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

from trainer.optim import local, slots

LOOP_NAME = "loop.json"
_RNG_BYTES = 1 << 14


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


def copy_to_host(
    tensors: dict[str, Tensor], buffers: dict[str, Tensor] | None = None
) -> dict[str, Tensor]:
    """Real copies in host memory: training may overwrite the originals at once.

    ``buffers``: each rank's parts as an earlier call left them, written again where they fit: fresh
    memory costs several times the copy. Pinned where the originals are on a GPU.
    """
    buffers = {} if buffers is None else buffers
    copies = {name: _copy(name, tensor.detach(), buffers) for name, tensor in tensors.items()}
    if any(tensor.is_cuda for tensor in tensors.values()):
        torch.cuda.current_stream().synchronize()
    return copies


def _copy(name: str, tensor: Tensor, buffers: dict[str, Tensor]) -> Tensor:
    part = local(tensor)
    buffer = buffers.get(name)
    if buffer is None or buffer.shape != part.shape or buffer.dtype != part.dtype:
        buffer = torch.empty_like(part, device="cpu", pin_memory=part.is_cuda)
        buffers[name] = buffer
    buffer.copy_(part, non_blocking=part.is_cuda)
    if isinstance(tensor, DTensor):
        # the constructor, unlike from_local, leaves a host copy of a device tensor on the host
        return DTensor(buffer, tensor._spec, requires_grad=False)
    return buffer


def rng_name(rank: int) -> str:
    return f"rng.{rank:05d}"


def capture_rng() -> Tensor:
    """Python's, numpy's and torch's generators of this process as bytes (a uint8 tensor).

    JSON, with spaces up to a size that stays the same, as the plan of a save then does.
    """
    version, words, gauss = random.getstate()
    kind, keys, position, has_gauss, cached = np.random.get_state()
    state = {
        "python": [version, list(words), gauss],
        "numpy": [kind, _pack(np.asarray(keys).tobytes()), position, has_gauss, cached],
        "torch": _pack(torch.get_rng_state().numpy().tobytes()),
    }
    if torch.cuda.is_available():
        state["cuda"] = _pack(torch.cuda.get_rng_state().numpy().tobytes())
    text = json.dumps(state).encode()
    padded = text.ljust(-(-len(text) // _RNG_BYTES) * _RNG_BYTES)
    return torch.frombuffer(bytearray(padded), dtype=torch.uint8)


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
