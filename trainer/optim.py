"""The optimizer, and the learning rate of each step."""

import math

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from everstep.contracts.training_spec import Train

BETAS = (0.9, 0.95)
EPS = 1e-8


def build_optimizer(model: nn.Module, train: Train) -> torch.optim.Optimizer:
    """AdamW or plain SGD; norms (one-dimensional parameters) are not decayed.

    Fused: the step's ``found_inf`` keeps what is not finite from the weights, on the device.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]  # of LoRA: the adapters
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": train.weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]  # a stage may hold no norm
    if train.optimizer == "sgd":
        return ShardedSGD(groups, {"lr": train.lr})
    return torch.optim.AdamW(groups, lr=train.lr, betas=BETAS, eps=EPS, fused=True)


class ShardedSGD(torch.optim.Optimizer):
    """SGD without momentum on each rank's part: torch's own fused one takes no DTensor."""

    found_inf: Tensor | None = None

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            pairs = [(p, p.grad) for p in group["params"] if p.grad is not None]
            torch._fused_sgd_(
                [local(parameter) for parameter, _ in pairs],
                [local(gradient) for _, gradient in pairs],
                [],
                weight_decay=group["weight_decay"],
                momentum=0.0,
                lr=group["lr"],
                dampening=0.0,
                nesterov=False,
                maximize=False,
                is_first_step=False,
                found_inf=self.found_inf,
            )


def local(tensor: Tensor) -> Tensor:
    """This rank's part."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def slots(optimizer: torch.optim.Optimizer, parameter: nn.Parameter) -> dict[str, Tensor]:
    """What the optimizer keeps of ``parameter``, made here (zeros) where no step has yet."""
    state: dict[str, Tensor] = optimizer.state[parameter]
    if not state and isinstance(optimizer, torch.optim.AdamW):
        state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
        state["exp_avg"] = torch.zeros_like(parameter, requires_grad=False)
        state["exp_avg_sq"] = torch.zeros_like(parameter, requires_grad=False)
    return state


def learning_rate(train: Train, step: int, steps: int) -> float:
    """The rate of optimizer step ``step`` (0-based) of ``steps``. Pure, so never saved."""
    if step < train.warmup_steps:
        return train.lr * (step + 1) / train.warmup_steps
    if train.schedule == "constant":
        return train.lr
    done = min(1.0, (step - train.warmup_steps) / max(1, steps - train.warmup_steps))
    if train.schedule == "wsd":
        # warm-up, stable, decay: the last part of the run falls in a line
        done = max(0.0, 1.0 - (1.0 - done) / train.decay_share)
    left = 0.5 * (1.0 + math.cos(math.pi * done)) if train.schedule == "cosine" else 1.0 - done
    return train.lr * (train.min_lr_ratio + (1.0 - train.min_lr_ratio) * left)
