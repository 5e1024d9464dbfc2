"""One optimizer step over a global batch."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from everstep.contracts.training_spec import Train
from trainer.data import Batch
from trainer.loss import IGNORED, Loss
from trainer.optim import local
from trainer.parallel import Layout, set_gradient_sync, tensor_group
from trainer.pipeline import Pipeline

Places = dict[str, Tensor]


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
    places: Places | None = None,
) -> StepResult:
    """``batch``: this rank's tokens, (samples, length + 1); ``tokens``: valid ones of all ranks;
    ``places``: of packed documents, see ``places_of``.

    Nothing here waits for the device: a loss or gradient that is not finite is kept from the
    weights on the device itself, by the fused optimizer.
    """
    loss = Loss(tokens, train.z_loss, batch.device, tensor_group(layout, batch.device))
    optimizer.zero_grad(set_to_none=True)
    if isinstance(model, Pipeline):
        model.forward_backward(inputs_of(batch), batch[:, 1:], loss, places or {})
    else:
        left = len(batch)
        for inputs, targets, where in micro_batches(batch, places or {}, train.micro_batch):
            left -= len(inputs)
            set_gradient_sync(model, layout, last=left == 0)
            loss(model(inputs, **where), targets).backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    # one all-reduce over the world for both, whatever the mesh
    words = torch.stack([loss.total / layout.tensor, _squares(gradients, batch.device)])
    dist.all_reduce(words)
    mean, norm = words[0] / tokens, words[1].sqrt()
    bad = 1.0 - (mean.isfinite() & norm.isfinite()).float()
    _clip(gradients, norm, train.grad_clip)
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.found_inf = bad  # type: ignore[attr-defined]  # read by fused optimizers alone
    optimizer.step()
    return StepResult(loss=mean, grad_norm=norm, bad=bad)


def valid_targets(batch: Tensor) -> int:
    return int((batch[:, 1:] != IGNORED).sum())


def places_of(batch: Batch, device: torch.device) -> Places:
    """Positions and documents of the inputs, (samples, length); nothing where all is one."""
    if batch.positions is None or batch.documents is None:
        return {}
    return {
        "positions": torch.from_numpy(batch.positions).to(device),
        "documents": torch.from_numpy(batch.documents).to(device),
    }


def micro_batches(
    batch: Tensor, places: Places, size: int
) -> Iterator[tuple[Tensor, Tensor, Places]]:
    """Inputs, targets and places of ``size`` samples each."""
    for start in range(0, len(batch), size):
        rows = slice(start, start + size)
        part = batch[rows]
        yield inputs_of(part), part[:, 1:], {name: all_[rows] for name, all_ in places.items()}


def inputs_of(batch: Tensor) -> Tensor:
    """What is no target may still be read: as token 0."""
    return batch[:, :-1].clamp(min=0)


def _squares(gradients: Iterable[Tensor], device: torch.device) -> Tensor:
    """This rank's share of the squared global norm: summed over the world it is the whole.

    A gradient that lies on several ranks counts once. Float64, as a sum of many.
    """
    by_copies: dict[int, list[Tensor]] = {}
    for gradient in gradients:
        by_copies.setdefault(_copies(gradient), []).append(local(gradient))
    total = torch.zeros((), dtype=torch.float64, device=device)
    for copies, parts in by_copies.items():
        total += torch.stack(torch._foreach_norm(parts)).double().square().sum() / copies
    return total


def _clip(gradients: Iterable[Tensor], norm: Tensor, most: float) -> None:
    scale = (most / (norm + 1e-6)).clamp(max=1.0).float()
    torch._foreach_mul_([local(gradient) for gradient in gradients], scale)


def _copies(gradient: Tensor) -> int:
    """On how many ranks each element lies."""
    if not isinstance(gradient, DTensor):
        return 1
    sizes = gradient.device_mesh.shape
    return prod(
        size
        for size, placement in zip(sizes, gradient.placements, strict=True)
        if placement.is_replicate()
    )
