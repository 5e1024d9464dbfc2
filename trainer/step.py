"""One optimizer step over a global batch."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from everstep.contracts.run_spec import Train
from trainer.parallel import Layout, set_gradient_sync

IGNORED = -100
"""Targets that do not count."""


@dataclass(frozen=True)
class StepResult:
    """Scalars on the training device, the same on every rank. Reading one waits for the step."""

    loss: Tensor
    """Mean over all valid tokens of the global batch, before the update."""
    grad_norm: Tensor
    """Global, before clipping."""
    bad: Tensor
    """1.0 where loss or norm is not finite: weights and optimizer stayed as they were. Else 0.0."""


def optimizer_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    layout: Layout,
    train: Train,
    batch: Tensor,
    tokens: int,
    lr: float,
) -> StepResult:
    """``batch``: this rank's tokens, (samples, length + 1); ``tokens``: valid ones of all ranks.

    Nothing here waits for the device: a loss or gradient that is not finite is kept from the
    weights on the device itself, by the fused optimizer.
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
    mean = total / tokens
    norm = _whole(nn.utils.clip_grad_norm_(model.parameters(), train.grad_clip))
    bad = 1.0 - (mean.isfinite() & norm.isfinite()).float()
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.found_inf = bad  # type: ignore[attr-defined]  # read by fused optimizers alone
    optimizer.step()
    return StepResult(loss=mean, grad_norm=norm, bad=bad)


def valid_targets(batch: Tensor) -> int:
    return int((batch[:, 1:] != IGNORED).sum())


def _micro_batches(batch: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor, bool]]:
    parts = batch.split(size)
    for number, part in enumerate(parts):
        yield part[:, :-1], part[:, 1:], number == len(parts) - 1


def _whole(value: Tensor) -> Tensor:
    return value.full_tensor() if isinstance(value, DTensor) else value
