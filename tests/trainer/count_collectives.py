"""Run under torchrun with two ranks: collectives and local sizes of each sharding, as JSON."""

import json
import os

import torch
import torch.distributed as dist
from torch.distributed.tensor.debug import CommDebugMode

from everstep.contracts.models import ModelConfig
from everstep.contracts.training_spec import Sharding, Train
from trainer.parallel import Layout, build_model, set_gradient_sync

dist.init_process_group("gloo")
config = ModelConfig(dim=32, layers=4, heads=4, kv_heads=2, ffn_dim=64, vocab_size=64)
for sharding, replicate, shard in (
    (Sharding.FULL_SHARD, 1, 2),
    (Sharding.SHARD_GRAD_OP, 1, 2),
    (Sharding.NO_SHARD, 2, 1),
    (Sharding.HYBRID_SHARD, 1, 2),
    (Sharding.HYBRID_SHARD, 2, 1),
):
    layout = Layout(sharding, replicate, shard)
    model = build_model(config, layout, Train(), torch.device("cpu"))
    set_gradient_sync(model, layout, True)
    with CommDebugMode() as seen:
        model(torch.zeros(2, 16, dtype=torch.int64)).float().sum().backward()
    counts = {str(op).rsplit(".", 1)[-1].strip("_"): n for op, n in seen.get_comm_counts().items()}
    whole = sum(p.numel() for p in model.parameters())
    local = sum(p.to_local().numel() for p in model.parameters())
    if dist.get_rank() == 0:
        print(
            json.dumps(
                {
                    "layout": f"{sharding} {replicate}x{shard}",
                    "counts": counts,
                    "share": local / whole,
                }
            ),
            flush=True,
        )
dist.barrier()  # as the trainer ends: no rank leaves while another still hears from it,
os._exit(0)  # and no thread of gloo's meets the interpreter's end
