"""One rank of a contestant of ``bench.step``: a turn of steps for each line on standard input."""

import json
import os
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

DIM, LAYERS, HEADS, KV_HEADS, FFN, VOCAB = 256, 4, 8, 4, 688, 6144
LENGTH = 512
ROWS = 2
"""Sequences a rank and step, in one microbatch."""
LR, DECAY, CLIP = 3e-4, 0.1, 1.0
Step = Callable[[Tensor], float]
"""Tokens (ROWS, LENGTH + 1) → loss."""


def everstep() -> tuple[Step, int]:
    from everstep.contracts.models import ModelConfig
    from everstep.contracts.training_spec import Sharding, Train
    from trainer.optim import build_optimizer
    from trainer.parallel import Layout, build_model
    from trainer.step import optimizer_step, valid_targets

    shape = ModelConfig(
        dim=DIM, layers=LAYERS, heads=HEADS, kv_heads=KV_HEADS, ffn_dim=FFN, vocab_size=VOCAB
    )
    layout = Layout(Sharding.FULL_SHARD, 1, dist.get_world_size())
    train = Train(
        sequence_length=LENGTH,
        global_batch=ROWS * dist.get_world_size(),
        micro_batch=ROWS,
        dtype="fp32",
        lr=LR,
        weight_decay=DECAY,
        grad_clip=CLIP,
    )
    model = build_model(shape, layout, train, torch.device("cpu"))
    optimizer = build_optimizer(model, train)
    model.train()

    def step(batch: Tensor) -> float:
        # as the loop does it: count the valid targets, and agree on their number
        counted = torch.tensor([valid_targets(batch)])
        dist.all_reduce(counted)
        result = optimizer_step(model, optimizer, layout, train, batch, int(counted), LR)
        return result.loss.item()

    return step, shape.parameters()


def bare() -> tuple[Step, int]:
    """What one writes by hand: the same module, FSDP2's defaults, torch's own AdamW and clip."""
    from torch.distributed.fsdp import fully_shard

    from everstep.contracts.models import ModelConfig
    from trainer.model import Transformer

    shape = ModelConfig(
        dim=DIM, layers=LAYERS, heads=HEADS, kv_heads=KV_HEADS, ffn_dim=FFN, vocab_size=VOCAB
    )
    torch.manual_seed(0)
    model = Transformer(shape)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.02)
        else:
            torch.nn.init.ones_(parameter)
    for block in model.blocks.values():
        fully_shard(block)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=DECAY, fused=True)

    def step(batch: Tensor) -> float:
        optimizer.zero_grad()
        logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        return loss.item()

    return step, shape.parameters()


def main() -> None:
    kind, steps = sys.argv[1], int(sys.argv[2])
    dist.init_process_group("gloo")
    contestants: dict[str, Callable[[], tuple[Step, int]]] = {"everstep": everstep, "bare": bare}
    if kind == "olmo-core":
        from bench.step_olmo import olmo

        contestants[kind] = olmo
    step, parameters = contestants[kind]()
    random = torch.Generator().manual_seed(dist.get_rank())
    for _ in sys.stdin:
        batches = [
            torch.randint(0, VOCAB, (ROWS, LENGTH + 1), generator=random) for _ in range(steps)
        ]
        dist.barrier()
        began, busy = time.perf_counter(), time.process_time()
        losses = [step(batch) for batch in batches]
        seconds, busy = time.perf_counter() - began, time.process_time() - busy
        tokens = ROWS * LENGTH * dist.get_world_size()
        answer = {
            "seconds": seconds,
            "cpu_seconds": busy,
            "tokens": tokens,
            "parameters": parameters,
            "loss": losses[0],
        }
        print(json.dumps(answer), flush=True)
    dist.barrier()
    os._exit(0)  # no thread of gloo's meets the interpreter's end


if __name__ == "__main__":
    main()
