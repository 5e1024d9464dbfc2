"""What is measured in ``bench.checkpoint``: one rank that trains, and the ways to save and load."""

import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

RANKS = 2
SHAPE = {"dim": 256, "layers": 6, "heads": 8, "kv_heads": 8, "ffn_dim": 704, "vocab_size": 2048}
SEQUENCE, BATCH = 512, 2


class Bed:
    """One rank's model, optimizer and process groups; ``step`` trains once."""

    def __init__(self, rank: int, port: int, *, trained: bool = True) -> None:
        import torch
        import torch.distributed as dist
        from torch.distributed.fsdp import fully_shard

        from everstep.contracts.models import ModelConfig
        from trainer.checkpoint.state import LoopState, live_tensors
        from trainer.model import Transformer

        torch.set_num_threads(1)
        os.environ |= {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "RANK": str(rank),
            "WORLD_SIZE": str(RANKS),
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
        }
        dist.init_process_group("gloo", init_method="env://", rank=rank, world_size=RANKS)
        self.rank, self.dist = rank, dist
        torch.manual_seed(0)
        self.model = Transformer(ModelConfig.model_validate(SHAPE))
        for block in self.model.blocks.values():
            fully_shard(block)
        fully_shard(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.batch = torch.randint(0, SHAPE["vocab_size"], (BATCH, SEQUENCE + 1))
        self.tensors = live_tensors(self.model, self.optimizer)
        self.loop = LoopState()
        if trained:
            self.step()

    def group(self) -> Any:
        return self.dist.new_group(backend="gloo", timeout=timedelta(minutes=10))

    def step(self) -> None:
        import torch.nn.functional as F

        logits = self.model(self.batch[:, :-1])
        F.cross_entropy(logits.flatten(0, 1), self.batch[:, 1:].flatten()).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def worker(self, node_dir: Path) -> Any:
        from trainer.host import Worker

        return Worker(
            rank=self.rank,
            local_rank=self.rank,
            world_size=RANKS,
            local_world_size=RANKS,
            node_dir=node_dir,
            started_epoch=time.time(),
        )

    def saver(self, uri: str, node_dir: Path, group: Any) -> Any:
        from everstep.contracts.training_spec import Checkpoint
        from trainer.checkpoint.saver import Saver
        from trainer.report import Reporter
        from trainer.store import open_store

        return Saver(
            open_store(uri),
            group,
            self.worker(node_dir),
            Reporter(-1),
            launch=1,
            checkpoint=Checkpoint(keep_last=2),
            broken=set(),
            last_step=0,
        )

    def load(self, uri: str, node_dir: Path, group: Any) -> None:
        """Ours, verification included."""
        from trainer.checkpoint.restore import Finder, load
        from trainer.report import Reporter
        from trainer.store import open_store

        worker, quiet = self.worker(node_dir), Reporter(-1)
        finder = Finder(open_store(uri), group, worker, quiet)
        found = finder.find(self.tensors, self.loop.mesh)
        assert found is not None
        load(found, self.tensors, self.loop, group, worker, quiet, 0)


def ways(bed: Bed, scratch: Path) -> dict[str, Callable[[int], Callable[[], None]]]:
    """Each begins save number n, and returns what waits until it is durable."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

    saver = bed.saver(str(scratch / "ours"), scratch / "node", bed.group())
    groups = {kind: bed.group() for kind in AsyncCheckpointerType}

    def ours(number: int) -> Callable[[], None]:
        saver.save(bed.tensors, bed.loop.model_copy(update={"step": number + 1}))

        def wait() -> None:
            assert saver.settle()

        return wait

    def bare(number: int) -> Callable[[], None]:
        dcp.save(bed.tensors, checkpoint_id=scratch / f"dcp-save-{number}", process_group=sync)
        return lambda: None

    def asynchronous(kind: AsyncCheckpointerType) -> Callable[[int], Callable[[], None]]:
        def begin(number: int) -> Callable[[], None]:
            future = dcp.async_save(
                bed.tensors,
                checkpoint_id=scratch / f"dcp-{kind.value}-{number}",
                process_group=groups[kind],
                async_checkpointer_type=kind,
            )
            return lambda: future.result()

        return begin

    sync = bed.group()
    return {
        "everstep": ours,
        "dcp.save": bare,
        "dcp.async_save thread": asynchronous(AsyncCheckpointerType.THREAD),
        "dcp.async_save process": asynchronous(AsyncCheckpointerType.PROCESS),
    }


def loads(bed: Bed, scratch: Path) -> dict[str, Callable[[], None]]:
    import torch.distributed.checkpoint as dcp

    group = bed.group()
    return {
        "everstep": lambda: bed.load(str(scratch / "ours"), scratch / "node", group),
        "dcp.load": lambda: dcp.load(
            bed.tensors, checkpoint_id=scratch / "dcp", process_group=group
        ),
    }
