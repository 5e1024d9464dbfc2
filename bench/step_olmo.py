"""OLMo-core's train module as a contestant of ``bench.step``: its model, FSDP, clip and AdamW."""

from typing import Any

import torch
from olmo_core.config import DType
from olmo_core.distributed.parallel import DataParallelType
from olmo_core.nn.transformer import TransformerConfig
from olmo_core.optim import AdamWConfig
from olmo_core.train.train_module import TransformerTrainModule
from olmo_core.train.train_module.transformer.config import TransformerDataParallelConfig
from torch import Tensor

from bench.step_worker import (
    CLIP,
    DECAY,
    DIM,
    HEADS,
    KV_HEADS,
    LAYERS,
    LENGTH,
    LR,
    ROWS,
    VOCAB,
    Step,
)


class Recorder:
    """What a train module needs of a trainer: a place for its metrics."""

    def __init__(self) -> None:
        self.loss: Any = 0.0

    def record_metric(self, *_: Any, **__: Any) -> None: ...

    def record_ce_loss(self, value: Any, *_: Any, **__: Any) -> None:
        self.loss = value


def olmo() -> tuple[Step, int]:
    config = TransformerConfig.llama_like(
        d_model=DIM,
        vocab_size=VOCAB,
        n_layers=LAYERS,
        n_heads=HEADS,
        n_kv_heads=KV_HEADS,
        hidden_size_multiple_of=16,  # 688, as ours
        rope_theta=10_000,
        dtype=DType.float32,
    )
    module = TransformerTrainModule(
        model=config.build(init_device="meta"),
        optim=AdamWConfig(lr=LR, weight_decay=DECAY, fused=True),
        rank_microbatch_size=ROWS * LENGTH,
        max_sequence_length=LENGTH,
        dp_config=TransformerDataParallelConfig(
            name=DataParallelType.fsdp, param_dtype=None, reduce_dtype=DType.float32
        ),
        max_grad_norm=CLIP,
        device=torch.device("cpu"),
    )
    recorder = Recorder()
    module._attach_trainer(recorder)

    def step(batch: Tensor) -> float:
        module.zero_grads()
        module.train_batch({"input_ids": batch[:, :-1], "labels": batch[:, 1:].contiguous()})
        module.optim_step()
        return float(recorder.loss)

    return step, config.num_params
