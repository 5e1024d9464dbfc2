"""The stages of a pipelined model that this rank holds, and the schedule that runs them."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B

from everstep.contracts.models import ModelConfig
from everstep.contracts.training_spec import Train
from trainer.loss import Loss
from trainer.model import Transformer


class Pipeline(nn.Module):
    """Parts of one model. Parameters keep the names that they have in the whole model."""

    def __init__(self, parts: list[Transformer]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self._by_number = {part.part.number: part for part in parts}
        self._count = parts[0].part.count
        self._loss: Loss | None = None
        self._schedule: Schedule1F1B | ScheduleInterleaved1F1B | None = None

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Parameter]]:
        """Without the number of the part, which depends on the mesh."""
        for part in self.parts:
            yield from part.named_parameters(prefix, recurse, remove_duplicate)

    def schedule(
        self,
        group: dist.ProcessGroup,
        train: Train,
        micro_batches: int,
        hidden: torch.dtype,
        device: torch.device,
    ) -> None:
        """1F1B, or interleaved 1F1B where the rank holds several parts.

        ``hidden``: type of what goes from stage to stage. Shapes are given, not tried out: a
        trial run would start collectives of its own.
        """
        self._group, self._hidden = group, hidden
        stages = [_stage(part, group, train, hidden, device) for part in self._by_number.values()]
        # gradients are not divided: the loss is, by the global number of tokens
        if len(stages) == 1:
            self._schedule = Schedule1F1B(
                stages[0], micro_batches, loss_fn=self._compute_loss, scale_grads=False
            )
        else:
            self._schedule = ScheduleInterleaved1F1B(
                [*stages], micro_batches, loss_fn=self._compute_loss, scale_grads=False
            )

    def forward_backward(
        self, inputs: Tensor, targets: Tensor, loss: Loss, places: dict[str, Any]
    ) -> None:
        """All microbatches of a step: gradients are reduced, and ``loss.total`` is set on ranks
        of the last stage. Every rank of a pipeline gives the same whole batch;
        ``places`` (positions and documents of packed samples) reach each stage from its own rank.
        """
        assert self._schedule is not None, "schedule() comes first"
        self._loss = loss
        first = any(part.part.first for part in self._by_number.values())
        last = any(part.part.last for part in self._by_number.values())
        self._schedule.step(
            *([inputs] if first else []),
            target=targets if last else None,
            return_outputs=False,  # logits of a whole batch would be kept
            **places,
        )
        self._loss = None

    @torch.no_grad()
    def forward_only(
        self, inputs: Tensor, targets: Tensor, loss: Loss, places: dict[str, Tensor]
    ) -> None:
        """One microbatch through all stages, in order; every rank of the pipeline calls it.

        Not the schedule's own ``eval``: its buffers belong to the training step.
        """
        for number in range(self._count):
            part = self._by_number.get(number)
            if part is None:
                continue
            hidden = inputs if part.part.first else self._receive(inputs, part, number - 1)
            out = part(hidden, **places)
            if part.part.last:
                loss(out, targets)
            else:
                dist.send(out.contiguous(), group=self._group, group_dst=self._rank_of(number + 1))

    def _receive(self, inputs: Tensor, part: Transformer, source: int) -> Tensor:
        rows, length = inputs.shape
        shape = (rows, length // part.tensor, part.config.dim)
        hidden = torch.empty(shape, dtype=self._hidden, device=inputs.device)
        dist.recv(hidden, group=self._group, group_src=self._rank_of(source))
        return hidden

    def _rank_of(self, stage: int) -> int:
        return stage % dist.get_world_size(self._group)

    def _compute_loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        assert self._loss is not None
        return self._loss(logits, targets)


def _stage(
    model: Transformer,
    group: dist.ProcessGroup,
    train: Train,
    hidden: torch.dtype,
    device: torch.device,
) -> PipelineStage:
    config: ModelConfig = model.config
    rows, length = train.micro_batch, train.sequence_length
    tokens = torch.empty(rows, length, dtype=torch.int64, device="meta")
    between = torch.empty(
        rows,
        length // model.tensor,
        config.dim,
        dtype=hidden,
        device="meta",
        requires_grad=True,
    )
    logits = torch.empty(
        rows, length, config.vocab_size // model.tensor, dtype=hidden, device="meta"
    )
    return PipelineStage(
        model,
        model.part.number,
        model.part.count,
        device,
        input_args=(tokens if model.part.first else between,),
        output_args=(logits if model.part.last else between,),
        group=group,
    )
