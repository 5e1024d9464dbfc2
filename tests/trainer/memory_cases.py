"""The table of shapes, meshes and recipes that the memory plan is held to torch on."""

from typing import Any, NamedTuple

from everstep.contracts.mesh import Mesh, mesh_of, sharded
from everstep.contracts.models import PRESETS, ModelConfig
from everstep.contracts.training_spec import Lora, Parallelism, Train
from everstep.policy.memory_peak import MemoryPlan, Rank, memory_plan

NODE = 8
SMALL = ModelConfig(dim=1024, layers=8, heads=16, kv_heads=4, ffn_dim=2816, vocab_size=32000)
WIDE = ModelConfig(dim=2048, layers=6, heads=16, kv_heads=16, ffn_dim=5632, vocab_size=8000)
SMALLER = SMALL.model_copy(update={"layers": 4})
DROPOUT = SMALL.model_copy(update={"dropout": 0.1})
FULL, PARTLY = ({"activation_checkpointing": x} for x in ("full", "selective"))
FP32 = {"dtype": "fp32", "sequence_length": 1024}
TINY_BATCH = {"sequence_length": 128}
ATTENTION = {"rank": 16, "alpha": 32}
EVERYWHERE = {**ATTENTION, "targets": ["wq", "wk", "wv", "wo", "w1", "w2", "w3"]}
AWAY = {"pipeline": 2, "virtual_stages": 2}


class Case(NamedTuple):
    shape: ModelConfig
    world: int
    cut: dict[str, Any] = {}  # noqa: RUF012 - never changed
    recipe: dict[str, Any] = {}  # noqa: RUF012
    lora: dict[str, Any] | None = None
    over: float = 0.1
    """The share by which the plan's most activations may be above torch's; below: a tenth."""

    @property
    def parallelism(self) -> Parallelism:
        return Parallelism(**self.cut)

    @property
    def train(self) -> Train:
        return Train(**{"sequence_length": 2048, "global_batch": 16, **self.recipe})

    @property
    def adapters(self) -> Lora | None:
        return None if self.lora is None else Lora(**self.lora)

    @property
    def mesh(self) -> Mesh:
        mesh = mesh_of(self.parallelism, self.world)
        assert mesh is not None
        return sharded(mesh, self.parallelism, NODE)

    @property
    def ranks(self) -> list[int]:
        """One of each pipeline position: data and tensor ranks hold alike, but for the last
        shard."""
        each = self.world // self.mesh.pipeline
        return [each * x for x in range(self.mesh.pipeline)]

    def plan(self) -> MemoryPlan:
        return memory_plan(self.shape, self.parallelism, self.mesh, self.train, self.adapters)

    def positions(self) -> list[Rank]:
        given = (self.shape, self.parallelism, self.mesh, self.train, self.adapters)
        return [Rank(*given, number) for number in range(self.mesh.pipeline)]


CASES = {
    "full": Case(SMALL, 16, {}, {"micro_batch": 2, "global_batch": 32}),
    "full, fp32": Case(SMALL, 16, {}, FP32),
    "z-loss": Case(SMALL, 16, {}, {"z_loss": 1e-4}),
    "dropout": Case(DROPOUT, 16),
    "recomputed": Case(SMALL, 16, {}, FULL),
    "partly recomputed": Case(SMALL, 16, {}, PARTLY),
    "weights outweigh": Case(WIDE, 16, {}, TINY_BATCH),
    "gradients only, several": Case(
        WIDE, 16, {"sharding": "SHARD_GRAD_OP"}, {"sequence_length": 256, "global_batch": 32}
    ),
    "hybrid, several": Case(
        WIDE, 16, {"sharding": "HYBRID_SHARD"}, {"sequence_length": 512, "global_batch": 32}
    ),
    "copies, several": Case(
        WIDE, 16, {"sharding": "NO_SHARD"}, {"sequence_length": 256, "global_batch": 32}
    ),
    "tensor 2": Case(SMALL, 16, {"tensor": 2}),
    "tensor 2, weights outweigh": Case(WIDE, 16, {"tensor": 2}, TINY_BATCH | {"global_batch": 8}),
    "tensor 4, recomputed": Case(SMALL, 16, {"tensor": 4}, FULL | {"global_batch": 4}),
    "tensor 4, partly recomputed": Case(SMALL, 16, {"tensor": 4}, PARTLY | {"global_batch": 4}),
    "pipeline 2, as few as go": Case(SMALL, 16, {"pipeline": 2}),
    "pipeline 4, recomputed": Case(SMALL, 16, {"pipeline": 4}, FULL | {"global_batch": 32}),
    "interleaved, recomputed": Case(SMALL, 16, AWAY, FULL | {"global_batch": 64}),
    "pipeline 2, tensor 2, recomputed": Case(SMALLER, 16, {"pipeline": 2, "tensor": 2}, FULL),
    "adapters everywhere": Case(SMALL, 16, {}, {}, EVERYWHERE),
    "adapters, recomputed": Case(
        SMALL, 16, {}, FULL | {"micro_batch": 2, "global_batch": 64}, EVERYWHERE
    ),
    "adapters, weights outweigh": Case(WIDE, 16, {}, TINY_BATCH | {"global_batch": 32}, EVERYWHERE),
}
"""One of each kind, in seconds."""

MORE = {
    "full, several": Case(SMALL, 16, {}, {"global_batch": 32}),
    "partly recomputed, fp32": Case(SMALL, 16, {}, PARTLY | FP32),
    "weights outweigh, several": Case(WIDE, 16, {}, TINY_BATCH | {"global_batch": 32}),
    "gradients only": Case(WIDE, 16, {"sharding": "SHARD_GRAD_OP"}, {"sequence_length": 256}),
    "hybrid": Case(WIDE, 16, {"sharding": "HYBRID_SHARD"}, {"sequence_length": 512}),
    "copies": Case(WIDE, 16, {"sharding": "NO_SHARD"}, {"sequence_length": 256}),
    "tensor 2, fp32": Case(SMALL, 16, {"tensor": 2}, FP32),
    "tensor 2, gradients only": Case(
        WIDE, 16, {"tensor": 2, "sharding": "SHARD_GRAD_OP"}, {"sequence_length": 256}
    ),
    "tensor 2, hybrid": Case(
        WIDE,
        32,
        {"tensor": 2, "sharding": "HYBRID_SHARD"},
        {"sequence_length": 512, "global_batch": 32},
    ),
    "tensor 4": Case(SMALL, 16, {"tensor": 4}, {"global_batch": 4}),
    "tensor 8": Case(WIDE, 16, {"tensor": 8}, {"micro_batch": 2, "global_batch": 4}),
    "pipeline 2": Case(SMALL, 16, {"pipeline": 2}, {"global_batch": 64}),
    "pipeline 2, fp32": Case(SMALL, 16, {"pipeline": 2}, FP32 | {"global_batch": 32}),
    "pipeline 2, weights outweigh": Case(
        WIDE, 16, {"pipeline": 2}, TINY_BATCH | {"global_batch": 32}
    ),
    "pipeline 4, uneven, partly recomputed": Case(
        WIDE,
        16,
        {"pipeline": 4},
        PARTLY | {"sequence_length": 512, "global_batch": 32},
        over=0.2,  # of a middle stage; the fullest rank's peak agrees
    ),
    "interleaved": Case(SMALL, 16, AWAY, {"global_batch": 64}),
    "pipeline 2, tensor 2": Case(SMALLER, 16, {"pipeline": 2, "tensor": 2}),
    "adapters": Case(SMALL, 16, {}, {}, ATTENTION),
    "adapters, dropout": Case(SMALL, 16, {}, {}, EVERYWHERE | {"dropout": 0.1}),
    "adapters, partly recomputed": Case(SMALL, 16, {}, PARTLY, ATTENTION),
    "adapters, gradients only": Case(
        WIDE,
        16,
        {"sharding": "SHARD_GRAD_OP"},
        {"sequence_length": 256, "global_batch": 32},
        ATTENTION,
    ),
}

_70B, _P5S = PRESETS["llama2-70b"], 128
AT_4096 = {"sequence_length": 4096, "global_batch": 128}
LARGE = {
    "70b": Case(_70B, _P5S, {}, AT_4096),
    "70b, partly recomputed": Case(_70B, _P5S, {}, PARTLY | AT_4096),
    "70b, recomputed": Case(_70B, _P5S, {}, FULL | AT_4096),
    "70b, recomputed, several": Case(_70B, _P5S, {}, FULL | AT_4096 | {"global_batch": 1024}),
    "70b, tensor 8": Case(_70B, _P5S, {"tensor": 8}, AT_4096 | {"global_batch": 16}),
    "70b, hybrid, recomputed": Case(_70B, _P5S, {"sharding": "HYBRID_SHARD"}, FULL | AT_4096),
}
"""16 hosts of 8 H100. "recomputed, several" is what ``everstep plan examples/llama2-70b.json``
plans: test_memory.py holds the two together."""

SIZES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "7b on 16": ("llama2-7b", 16, {}),
    "13b, hybrid on 64": ("llama2-13b", 64, {"sharding": "HYBRID_SHARD"}),
    "70b on 128": ("llama2-70b", 128, {}),
    "70b, tensor 8": ("llama2-70b", 128, {"tensor": 8}),
    "70b, tensor 8, pipeline 4": ("llama2-70b", 128, {"tensor": 8, "pipeline": 4}),
    "8b, pipeline 2, interleaved": ("llama3-8b", 16, {"pipeline": 2, "virtual_stages": 2}),
    "8b on 24": ("llama3-8b", 24, {}),
}
