"""The loss of one optimizer step, microbatch by microbatch, whole or cut by vocabulary."""

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

IGNORED = -100
"""Targets that do not count."""


class Loss:
    """Called with each microbatch's logits; ``total`` is what they come to."""

    def __init__(
        self, tokens: int, z_loss: float, device: torch.device, group: dist.ProcessGroup | None
    ) -> None:
        """``tokens``: valid targets of the global batch. ``group``: ranks among which the logits
        are cut by vocabulary, None where they are whole."""
        self.total = torch.zeros((), dtype=torch.float64, device=device)
        """Cross-entropy summed over this rank's valid targets so far, without the z-loss."""
        self._tokens, self._z_loss, self._group = tokens, z_loss, group

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """What to differentiate: this microbatch's share of the global mean, plus the z-loss.

        ``logits``: (batch, length, vocabulary or a part of it); ``targets``: (batch, length).
        """
        wide, flat = logits.float().flatten(0, 1), targets.flatten()
        if self._group is None:
            entropy = F.cross_entropy(wide, flat, ignore_index=IGNORED, reduction="sum")
            logsumexp = wide.logsumexp(-1) if self._z_loss else None
        else:
            entropies, logsumexp = _CutEntropy.apply(wide, flat, self._group)
            entropy = entropies.sum()
        self.total += entropy.detach()
        if logsumexp is not None and self._z_loss:
            # PaLM's: keeps the normaliser near 1, so that bf16 logits do not drift
            entropy = entropy + self._z_loss * (logsumexp.square() * (flat != IGNORED)).sum()
        return entropy / self._tokens


class _CutEntropy(torch.autograd.Function):
    """Cross-entropy and log-sum-exp a row, over logits whose columns are spread over ranks.

    Three small all-reduces (a number a row each) stand for gathering the logits.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, targets: Tensor, group: dist.ProcessGroup
    ) -> tuple[Tensor, Tensor]:
        columns = logits.shape[1]
        top = logits.max(-1).values
        dist.all_reduce(top, op=dist.ReduceOp.MAX, group=group)
        shares = (logits - top.unsqueeze(1)).exp_()
        whole = shares.sum(-1)
        dist.all_reduce(whole, group=group)
        local = targets - dist.get_rank(group) * columns
        mine = (local >= 0) & (local < columns) & (targets != IGNORED)
        column = torch.where(mine, local, 0).unsqueeze(1)
        wanted = logits.gather(1, column).squeeze(1) * mine
        dist.all_reduce(wanted, group=group)
        logsumexp = whole.log() + top
        valid = targets != IGNORED
        ctx.save_for_backward(shares.div_(whole.unsqueeze(1)), column, mine, valid)
        return (logsumexp - wanted) * valid, logsumexp

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        entropy, logsumexp = gradients
        shares, column, mine, valid = ctx.saved_tensors
        of_entropy = entropy * valid
        gradient = shares * (of_entropy + logsumexp).unsqueeze(1)
        gradient.scatter_add_(1, column, -(of_entropy * mine).unsqueeze(1))
        return gradient, None, None
