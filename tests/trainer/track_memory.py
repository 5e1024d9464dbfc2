"""Run alone: torch's own figures for named cases of ``memory_cases``, as JSON.

The trainer's model, sharding, schedule and loss run under FakeTensorMode on a fake process group
of true size: nothing is computed, everything that would be held is counted.
"""

import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker, _FSDPState
from torch.distributed.pipelining._utils import InferenceMode
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.distributed.tensor.debug import _clear_sharding_prop_cache
from torch.testing._internal.distributed.fake_pg import FakeStore

from everstep.contracts.models import PRESETS
from everstep.contracts.training_spec import Parallelism, Train
from tests.trainer.memory_cases import CASES, LARGE, MORE, NODE, SIZES, Case
from trainer import parallel
from trainer.loss import Loss
from trainer.optim import local
from trainer.parallel import COMPUTE, Layout, laid_out, layout_of, mesh_for, set_gradient_sync
from trainer.pipeline import Pipeline

CPU = torch.device("cpu")
COMPUTING = {_FSDPState.FW, _FSDPState.POST_FW, _FSDPState.BW}


class Tracker(FSDPMemTracker):
    """Also remembers the most activations at any time, and knows several roots.

    DTensor asks with whole tensors what shape a result will have. The tracker means to leave those
    out and tells them by their fake mode, which here is that of everything.
    """

    asking = 0

    def __init__(self, parts: list[nn.Module], whole: nn.Module) -> None:
        super().__init__(parts[0])
        self._root_mod = whole  # type: ignore[assignment]  # a pipeline's is not sharded itself
        self.most_activations = 0
        self._parts = parts

    def __enter__(self) -> "Tracker":
        super().__enter__()
        for part in self._parts:  # before the hooks that have just been registered
            part.register_forward_pre_hook(self._forget, prepend=True)
        return self

    def _forget(self, module: nn.Module, _: Any) -> None:
        """A root that begins again is refused unless it is."""
        self.memory_tracking.pop(module, None)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if Tracker.asking:
            return func(*args, **(kwargs or {}))
        found = super().__torch_dispatch__(func, types, args, kwargs)
        if self._fsdp_state in COMPUTING:  # elsewhere new buffers have no name yet
            self.most_activations = max(self.most_activations, self._now("Activation"))
        return found

    def _now(self, kind: str) -> int:
        now = self._curr_mem_snap.get(CPU, {})
        return next((size for key, size in now.items() if getattr(key, "value", "") == kind), 0)


def outside_the_count(ask: Callable[..., Any]) -> Callable[..., Any]:
    def asked(*args: Any, **kwargs: Any) -> Any:
        Tracker.asking += 1
        try:
            return ask(*args, **kwargs)
        finally:
            Tracker.asking -= 1

    return asked


def begin(rank: int, world: int) -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
        parallel._meshes.clear()
        _clear_sharding_prop_cache()  # it knows the former groups by name
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)


def track(case: Case, rank: int) -> dict[str, int]:
    """Bytes at the peak of a step's forward and backward, and what is held after it."""
    begin(rank, case.world)
    train = case.train
    layout = layout_of(case.shape, case.parallelism, train, case.world, NODE)
    mesh = mesh_for(layout, "cpu")
    micro_batches = train.global_batch // (layout.data_ranks * train.micro_batch)
    parts = laid_out(case.shape, layout, train, mesh, case.adapters)
    with FakeTensorMode(allow_non_fake_inputs=True):
        for part in parts:
            part.to_empty(device=CPU)
        group = mesh.get_group("tensor") if layout.tensor > 1 else None
        loss = Loss(1000, train.z_loss, CPU, group)
        shape = (train.micro_batch, train.sequence_length)
        if layout.pipeline == 1:
            (model,) = parts
            with (tracker := Tracker([model], model)):
                for number in range(micro_batches):
                    inputs = torch.zeros(shape, dtype=torch.int64)
                    set_gradient_sync(model, layout, number == micro_batches - 1)
                    loss(model(inputs), inputs).backward()
        else:
            pipeline = Pipeline(parts)
            with (tracker := Tracker([*parts], pipeline)):
                compute = COMPUTE[train.dtype]
                pipeline.schedule(mesh.get_group("pipeline"), train, micro_batches, compute, CPU)
                pipeline._schedule._warmup_p2p = shapes_are_given  # type: ignore[union-attr]
                inputs = torch.zeros((micro_batches * shape[0], shape[1]), dtype=torch.int64)
                pipeline.forward_backward(inputs, inputs, loss, {})
    return {
        "peak": tracker.get_tracker_snapshot("peak")[CPU]["Total"],
        "activations": tracker.most_activations,
        "gradients": tracker._now("Sharded Grad"),
        **elements(parts),
    }


def shapes_are_given(stages: list[Any], *_: Any) -> None:
    """What the ranks of a pipeline agree on: by messages, which a fake group does not carry."""
    for stage in stages:
        stage._inference_mode = InferenceMode.STATIC


def elements(parts: list[Any]) -> dict[str, int]:
    """Parameters that lie on this rank, and those of them that learn."""
    parameters = [p for part in parts for p in part.parameters()]
    return {
        "elements": sum(local(p).numel() for p in parameters),
        "trained": sum(local(p).numel() for p in parameters if p.requires_grad),
    }


def sizes(name: str) -> list[int]:
    """On the first and on the last rank."""
    preset, world, cut = SIZES[name]
    shape, parallelism, found = PRESETS[preset], Parallelism(**cut), []
    for rank in (0, world - 1):
        begin(rank, world)
        train = Train(global_batch=world)
        layout: Layout = layout_of(shape, parallelism, train, world, NODE)
        found.append(elements(laid_out(shape, layout, train, mesh_for(layout, "cpu")))["elements"])
    return found


def main() -> None:
    """Names of cases as arguments; the sizes where there are none."""
    warnings.filterwarnings("ignore")
    ask = ShardingPropagator._propagate_tensor_meta_non_cached
    ShardingPropagator._propagate_tensor_meta_non_cached = outside_the_count(ask)  # type: ignore[method-assign]
    every = {**CASES, **MORE, **LARGE}
    if names := sys.argv[1:]:
        found: dict[str, Any] = {
            name: [track(every[name], rank) for rank in every[name].ranks] for name in names
        }
    else:
        found = {name: sizes(name) for name in SIZES}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
