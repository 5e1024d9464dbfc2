"""One optimizer step over a global batch."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from everstep.contracts.run_spec import Train
from trainer.errors import DivergedError
from trainer.parallel import Layout, set_gradient_sync

IGNORED = -100
"""Targets that do not count."""


@dataclass(frozen=True)
class StepResult:
    loss: float
    """Mean over all valid tokens of the global batch, before the update."""
    grad_norm: float
    """Global, before clipping."""


def optimizer_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    layout: Layout,
    train: Train,
    batch: Tensor,
    tokens: int,
    lr: float,
    step: int,
) -> StepResult:
    """``batch``: this rank's tokens, (samples, length + 1); ``tokens``: valid ones of all ranks.

    Raises ``DivergedError`` before a loss or gradient that is not finite touches the weights.
    """
    total = torch.zeros((), dtype=torch.float64, device=batch.device)
    optimizer.zero_grad(set_to_none=True)
    for inputs, targets, last in _micro_batches(batch, train.micro_batch):
        set_gradient_sync(model, layout, last)
        logits = model(inputs).float()
        loss = F.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum"
        )
        (loss / tokens).backward()
        total += loss.detach().double()
    dist.all_reduce(total)
    norm = nn.utils.clip_grad_norm_(model.parameters(), train.grad_clip)
    result = StepResult(loss=total.item() / tokens, grad_norm=_whole(norm).item())
    if not (math.isfinite(result.loss) and math.isfinite(result.grad_norm)):
        raise DivergedError(
            f"step {step + 1}: loss {result.loss}, gradient norm {result.grad_norm}",
            "lower train.lr or raise train.warmup_steps; look at the data near this step",
        )
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.step()
    return result


def valid_targets(batch: Tensor) -> int:
    return int((batch[:, 1:] != IGNORED).sum())


def _micro_batches(batch: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor, bool]]:
    parts = batch.split(size)
    for number, part in enumerate(parts):
        yield part[:, :-1], part[:, 1:], number == len(parts) - 1


def _whole(value: Tensor) -> Tensor:
    return value.full_tensor() if isinstance(value, DTensor) else value
