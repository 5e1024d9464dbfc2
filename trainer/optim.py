"""AdamW, and the learning rate of each step."""

import math

import torch
from torch import nn

from everstep.contracts.run_spec import Train

BETAS = (0.9, 0.95)
EPS = 1e-8


def build_optimizer(model: nn.Module, train: Train) -> torch.optim.Optimizer:
    """AdamW; norms (one-dimensional parameters) are not decayed."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": train.weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=train.lr, betas=BETAS, eps=EPS, fused=True)


def learning_rate(train: Train, step: int, steps: int) -> float:
    """The rate of optimizer step ``step`` (0-based) of ``steps``. Pure, so never saved."""
    if step < train.warmup_steps:
        return train.lr * (step + 1) / train.warmup_steps
    if train.schedule == "constant":
        return train.lr
    done = min(1.0, (step - train.warmup_steps) / max(1, steps - train.warmup_steps))
    left = 1.0 - done if train.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
    return train.lr * (train.min_lr_ratio + (1.0 - train.min_lr_ratio) * left)
