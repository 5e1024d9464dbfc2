"""The loss on held-out samples, now and then."""

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from everstep.contracts.progress import Phase
from everstep.contracts.training_spec import Train
from trainer.data import Samples
from trainer.loss import IGNORED, Loss
from trainer.parallel import Layout, tensor_group
from trainer.pipeline import Pipeline
from trainer.report import Reporter
from trainer.step import micro_batches, places_of


class Validation:
    """Always the first samples of the held-out data, the same on every mesh."""

    def __init__(
        self,
        samples: Samples | None,
        model: nn.Module,
        layout: Layout,
        train: Train,
        device: torch.device,
        report: Reporter,
    ) -> None:
        """``samples`` None: nothing is held out, and nothing done."""
        self._samples, self._model, self._layout = samples, model, layout
        self._train, self._device, self._report = train, device, report

    def after_step(self, step: int, last: bool) -> None:
        """A ``validation`` line where it is due. Called by all ranks."""
        if self._samples is None or (step % self._train.validation_every_steps and not last):
            return
        self._report.phase(Phase.VALIDATION, step)
        loss, tokens = self.loss(self._samples)
        self._report.line("validation", step=step, loss=loss, tokens=tokens)

    def loss(self, samples: Samples) -> tuple[float, int]:
        """Mean over the valid tokens, and their number. Changes nothing of the training."""
        train, layout = self._train, self._layout
        count = min(samples.count, train.validation_batches * train.global_batch)
        total = Loss(1, 0.0, self._device, tensor_group(layout, self._device))
        tokens = 0
        self._model.eval()
        for first in range(0, count, layout.data_ranks * train.micro_batch):
            tokens += self._micro_batch(samples, first, count, total)
        self._model.train()
        counted = tokens if layout.counts(dist.get_rank()) else 0
        words = torch.stack([total.total / layout.tensor, torch.full_like(total.total, counted)])
        dist.all_reduce(words)
        return (words[0] / words[1]).item(), int(words[1].item())

    @torch.no_grad()
    def _micro_batch(self, samples: Samples, first: int, count: int, total: Loss) -> int:
        """This rank's part of the samples from ``first`` on; its valid tokens."""
        size = self._train.micro_batch
        first += self._layout.data_rank(dist.get_rank()) * size
        positions = np.arange(first, first + size)
        # every rank runs whole microbatches: past the end there is something, and it is ignored
        batch = samples.batch(positions.clip(max=count - 1))  # type: ignore[arg-type]
        tokens = torch.from_numpy(batch.tokens).clone()
        tokens[torch.from_numpy(positions >= count), 1:] = IGNORED
        places = places_of(batch, self._device)
        for inputs, targets, where in micro_batches(tokens.to(self._device), places, size):
            if isinstance(self._model, Pipeline):
                self._model.forward_only(inputs, targets, total, where)
            else:
                total(self._model(inputs, **where), targets)
        return int((tokens[:, 1:] != IGNORED).sum())
