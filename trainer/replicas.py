"""Copies of the weights must be the same: where they are not, a device computed or kept it wrong.

Each rank folds the bits of what it holds of each parameter into one number; ranks that hold the
same parts compare. One small gather every so many steps, and before each checkpoint, so that none
is saved that a later start would have to distrust.
"""

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from everstep.contracts.failures import FailureClass
from trainer.callbacks import StepDone
from trainer.errors import TrainerError

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_PIECE = 1 << 24


class ReplicaError(TrainerError):
    """Silent corruption. ``trainer.in_job`` knows its name."""

    failure_class = FailureClass.INFRASTRUCTURE


class Replicas:
    """Compares the copies. Called by all ranks in the same order."""

    def __init__(self, model: nn.Module, every: int) -> None:
        """``every``: steps between two comparisons; 0 for none at all."""
        self._parameters = dict(model.named_parameters())
        self._every = every
        self._peers: list[list[int]] = []
        if every:
            parts = _gather(torch.frombuffer(bytearray(_part(self._parameters)), dtype=torch.int64))
            self._peers = peers([tuple(part.tolist()) for part in parts])

    def after_step(self, done: StepDone) -> None:
        if self._every and done.step % self._every == 0:
            self.compare(done.step)

    def close(self) -> None: ...

    def compare(self, step: int) -> None:
        """Raises ``ReplicaError`` on every rank where any copies differ."""
        if not self._peers:
            return
        folded = torch.stack([_fold(parameter) for parameter in self._parameters.values()])
        hashes = [tuple(rank.tolist()) for rank in _gather(folded.cpu())]
        wrong = sorted(rank for group in self._peers for rank in odd_ones(group, hashes))
        if wrong:
            mine = dist.get_rank()
            group = next((g for g in self._peers if wrong[0] in g), [mine])
            raise ReplicaError(
                f"step {step}: the weights of rank{'s' if len(wrong) > 1 else ''} "
                f"{', '.join(map(str, wrong))} are not those of their copies on ranks "
                f"{', '.join(str(rank) for rank in group)}",
                "a GPU or its memory is not sound; the run goes back to its last checkpoint, and "
                "to other hosts if it happens again",
            )


def peers(parts: Sequence[object]) -> list[list[int]]:
    """Groups of ranks that hold the same parts, of two ranks or more."""
    groups: dict[object, list[int]] = {}
    for rank, part in enumerate(parts):
        groups.setdefault(part, []).append(rank)
    return [group for group in groups.values() if len(group) > 1]


def odd_ones(group: Sequence[int], hashes: Sequence[object]) -> list[int]:
    """The ranks of a group that differ from most of it; all of them where none are most."""
    counts = Counter(hashes[rank] for rank in group)
    (most, votes), *_ = counts.most_common()
    if len(counts) == 1:
        return []
    if 2 * votes <= len(group):
        return list(group)
    return [rank for rank in group if hashes[rank] != most]


def _fold(parameter: Tensor) -> Tensor:
    """The bits of this rank's part as numbers, summed: any single flip changes the sum."""
    local = parameter.to_local() if isinstance(parameter, DTensor) else parameter
    bits = local.detach().reshape(-1).view(_BITS[local.element_size()])
    total = bits.new_zeros((), dtype=torch.int64)
    for piece in bits.split(_PIECE):  # never a 64-bit copy of the whole
        total += piece.sum(dtype=torch.int64)
    return total


def _part(parameters: dict[str, nn.Parameter]) -> bytes:
    """What this rank holds: names, and where its shards lie."""
    said = []
    for name, parameter in parameters.items():
        place: object = tuple(parameter.shape)
        if isinstance(parameter, DTensor):
            place = compute_local_shape_and_global_offset(
                parameter.shape, parameter.device_mesh, parameter.placements
            )
        said.append(f"{name} {place}")
    return sha256("\n".join(said).encode()).digest()


def _gather(mine: Tensor) -> list[Tensor]:
    """Parameters may differ in number between pipeline stages: padded to the most."""
    size = torch.tensor([mine.numel()])
    dist.all_reduce(size, op=dist.ReduceOp.MAX)
    padded = torch.zeros(int(size), dtype=torch.int64)
    padded[: mine.numel()] = mine
    ranks = [torch.empty_like(padded) for _ in range(dist.get_world_size())]
    dist.all_gather(ranks, padded)
    return ranks
