"""Run alone: torch's own figures for the cases of test_memory, as JSON."""

import json
import warnings

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.testing._internal.distributed.fake_pg import FakeStore

from everstep.contracts.models import PRESETS, ModelConfig
from everstep.contracts.training_spec import Parallelism, Train
from tests.trainer.test_memory import CASES, NODE, SIZES
from trainer import parallel
from trainer.loss import Loss
from trainer.optim import local
from trainer.parallel import Layout, laid_out, layout_of, mesh_for, set_gradient_sync

CPU = torch.device("cpu")


def begin(rank: int, world: int) -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
        parallel._meshes.clear()
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)


def peak(shape: ModelConfig, world: int, parallelism: Parallelism, train: Train) -> int:
    """Bytes at the peak of forward and backward, over the microbatches of one step."""
    begin(0, world)
    layout = layout_of(shape, parallelism, train, world, NODE)
    mesh = mesh_for(layout, "cpu")
    tokens = (train.micro_batch, train.sequence_length)
    micro_batches = train.global_batch // (layout.data_ranks * train.micro_batch)
    with FakeTensorMode(allow_non_fake_inputs=True):
        (model,) = laid_out(shape, layout, train, mesh)
        model.to_empty(device=CPU)
        tracker = FSDPMemTracker(model)
        inputs = torch.zeros(tokens, dtype=torch.int64)
        highest = 0
        with tracker:
            for number in range(micro_batches):
                set_gradient_sync(model, layout, number == micro_batches - 1)
                Loss(1000, 0.0, CPU, None)(model(inputs), inputs).backward()
                snapshot = tracker.get_tracker_snapshot("peak")[CPU]
                highest = max(highest, snapshot["Total"])
                tracker.reset_mod_stats()
    return highest


def elements(shape: ModelConfig, world: int, parallelism: Parallelism) -> list[int]:
    """Parameters that lie on the first and on the last rank."""
    found = []
    for rank in (0, world - 1):
        begin(rank, world)
        train = Train(global_batch=world)
        layout: Layout = layout_of(shape, parallelism, train, world, NODE)
        parts = laid_out(shape, layout, train, mesh_for(layout, "cpu"))
        found.append(sum(local(p).numel() for part in parts for p in part.parameters()))
    return found


def main() -> None:
    warnings.filterwarnings("ignore")
    peaks = {
        name: peak(shape, world, Parallelism(**cut), Train(**{"global_batch": 16, **train}))
        for name, (shape, world, cut, train) in CASES.items()
    }
    sizes = {
        name: elements(PRESETS[preset], world, Parallelism(**cut))
        for name, (preset, world, cut) in SIZES.items()
    }
    print(json.dumps({"peaks": peaks, "elements": sizes}))


if __name__ == "__main__":
    main()
