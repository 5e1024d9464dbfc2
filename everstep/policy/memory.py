"""Does a run fit its GPUs, and what would? Arithmetic of ``memory_peak``, for specs.

What no such count knows comes on top (``RESERVED``): the CUDA context, NCCL's buffers,
fragmentation.
"""

from collections.abc import Iterator

from everstep.contracts.check import check_spec, resolve_model
from everstep.contracts.instances import INSTANCE_TYPES
from everstep.contracts.mesh import Mesh, mesh_of, sharded
from everstep.contracts.problems import Problem
from everstep.contracts.run_spec import RunSpec, Trainer
from everstep.contracts.training_spec import Parallelism, Sharding
from everstep.policy.memory_peak import MemoryPlan, memory_plan
from everstep.policy.memory_shapes import adapter_group

RESERVED = 0.1
"""Share of a GPU's memory that a plan may not have. Assumed, not measured here."""


def memory_of(spec: RunSpec, target: int) -> MemoryPlan | None:
    """Of the spec's ``compute[target]``. None on a CPU type, where the mesh does not fill it, and
    for a program that is not the reference trainer."""
    if spec.trainer.command != Trainer().command:
        return None
    kind = INSTANCE_TYPES[spec.compute[target].instance_type]
    mesh = mesh_of(spec.parallelism, spec.compute[target].nodes * kind.processes)
    if not kind.gpus or mesh is None:
        return None
    mesh = sharded(mesh, spec.parallelism, kind.processes)
    shape = resolve_model(spec.model)
    return memory_plan(shape, spec.parallelism, mesh, spec.train, spec.model.lora)


def fitting(spec: RunSpec, target: int) -> str | None:
    """The first of a few changes, from cheap to dear, by which ``compute[target]`` would fit."""
    kind = INSTANCE_TYPES[spec.compute[target].instance_type]
    for words, changed in _changes(spec, target):
        if check_spec(changed.model_dump(mode="json"))[0] is None:
            continue  # a mesh that the model or the batch cannot be cut to
        plan = memory_of(changed, target)
        if plan is not None and plan.total <= usable(kind.gpu_gb):
            return words
    return None


def _changes(spec: RunSpec, target: int) -> Iterator[tuple[str, RunSpec]]:
    """From cheap to dear. The first three add up; more nodes and tensor ranks come on top."""
    train, cut = spec.train, spec.parallelism
    words = []

    def changed(nodes: int = spec.compute[target].nodes) -> RunSpec:
        places = list(spec.compute)
        places[target] = places[target].model_copy(update={"nodes": nodes})
        return spec.model_copy(update={"train": train, "parallelism": cut, "compute": places})

    if train.activation_checkpointing != "full":
        train = train.model_copy(update={"activation_checkpointing": "full"})
        words.append("train.activation_checkpointing full")
        yield ", ".join(words), changed()
    if train.micro_batch > 1:
        train = train.model_copy(update={"micro_batch": 1})
        words.append("train.micro_batch 1")
        yield ", ".join(words), changed()
    if cut.sharding is not Sharding.FULL_SHARD:
        cut = Parallelism(tensor=cut.tensor, pipeline=cut.pipeline)
        words.append("FULL_SHARD")
        yield ", ".join(words), changed()
    for times in (2, 4, 8, 16):
        nodes = times * spec.compute[target].nodes
        yield ", ".join([*words, f"{nodes} nodes"]), changed(nodes)
    for tensor in (2, 4, 8):
        if tensor > spec.parallelism.tensor:
            cut = Parallelism(tensor=tensor, pipeline=cut.pipeline)
            yield ", ".join([*words, f"parallelism.tensor {tensor}"]), changed()


def trained_elements(spec: RunSpec) -> int:
    """Weights that learn, of the whole model: what a checkpoint holds."""
    shape, lora = resolve_model(spec.model), spec.model.lora
    if lora is None:
        return shape.parameters()
    return shape.layers * adapter_group(shape, lora, Mesh(1, 1, 1, 1)).whole


def usable(gpu_gb: int) -> int:
    """Bytes of a GPU that a plan may fill."""
    return int(gpu_gb * 1e9 * (1 - RESERVED))


def memory_problems(spec: RunSpec) -> Iterator[Problem]:
    """Refuses what cannot fit whatever the batch is: the weights and their moments alone."""
    for number, target in enumerate(spec.compute):
        plan, gpu_gb = memory_of(spec, number), INSTANCE_TYPES[target.instance_type].gpu_gb
        if plan is None or plan.parameters + plan.optimizer <= gpu_gb * 1e9:
            continue
        states = (plan.parameters + plan.optimizer) / 1e9
        copies = spec.parallelism.sharding is Sharding.NO_SHARD
        yield Problem(
            path=f"compute.{number}",
            value=f"{target.nodes} × {target.instance_type}",
            message=f"parameters and optimizer need {states:.1f} GB a GPU, it has {gpu_gb}",
            hint=("FULL_SHARD" if copies else "more nodes, FULL_SHARD")
            + ", or parallelism.tensor; `everstep plan` shows the parts",
        )
