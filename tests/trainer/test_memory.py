"""The memory plan against torch: local sizes on a fake group of true size, and FSDPMemTracker."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from everstep.contracts.mesh import mesh_of, sharded
from everstep.contracts.models import PRESETS, ModelConfig
from everstep.contracts.training_spec import Parallelism, Train
from everstep.policy.memory import forward_backward_peak, memory_plan

ROOT = Path(__file__).resolve().parents[2]
NODE = 8
SMALL = ModelConfig(dim=1024, layers=8, heads=16, kv_heads=4, ffn_dim=2816, vocab_size=32000)
WIDE = ModelConfig(dim=2048, layers=6, heads=16, kv_heads=16, ffn_dim=5632, vocab_size=8000)

CASES: dict[str, tuple[ModelConfig, int, dict[str, Any], dict[str, Any]]] = {
    "full": (SMALL, 16, {}, {"sequence_length": 2048, "micro_batch": 2, "global_batch": 32}),
    "full fp32": (SMALL, 16, {}, {"sequence_length": 1024, "dtype": "fp32"}),
    "full, several": (SMALL, 16, {}, {"sequence_length": 2048, "global_batch": 32}),
    "dropout": (SMALL.model_copy(update={"dropout": 0.1}), 16, {}, {"sequence_length": 2048}),
    "recomputed": (SMALL, 16, {}, {"activation_checkpointing": "full", "sequence_length": 2048}),
    "partly recomputed": (
        SMALL,
        16,
        {},
        {"activation_checkpointing": "selective", "sequence_length": 2048},
    ),
    "weights outweigh": (WIDE, 16, {}, {"sequence_length": 128}),
    "weights outweigh, several": (WIDE, 16, {}, {"sequence_length": 128, "global_batch": 32}),
    "gradients only": (WIDE, 16, {"sharding": "SHARD_GRAD_OP"}, {"sequence_length": 256}),
    "gradients only, several": (
        WIDE,
        16,
        {"sharding": "SHARD_GRAD_OP"},
        {"sequence_length": 256, "global_batch": 32},
    ),
    "hybrid": (WIDE, 16, {"sharding": "HYBRID_SHARD"}, {"sequence_length": 512}),
    "hybrid, several": (
        WIDE,
        16,
        {"sharding": "HYBRID_SHARD"},
        {"sequence_length": 512, "global_batch": 32},
    ),
    "copies": (WIDE, 16, {"sharding": "NO_SHARD"}, {"sequence_length": 256}),
    "copies, several": (
        WIDE,
        16,
        {"sharding": "NO_SHARD"},
        {"sequence_length": 256, "global_batch": 32},
    ),
}
SIZES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "7b on 16": ("llama2-7b", 16, {}),
    "13b, hybrid on 64": ("llama2-13b", 64, {"sharding": "HYBRID_SHARD"}),
    "70b on 128": ("llama2-70b", 128, {}),
    "70b, tensor 8": ("llama2-70b", 128, {"tensor": 8}),
    "70b, tensor 8, pipeline 4": ("llama2-70b", 128, {"tensor": 8, "pipeline": 4}),
    "8b, pipeline 2, interleaved": ("llama3-8b", 16, {"pipeline": 2, "virtual_stages": 2}),
    "8b on 24": ("llama3-8b", 24, {}),
}


@pytest.fixture(scope="module")
def tracked() -> dict[str, Any]:
    """In a process of its own: a fake process group of true size is the default group there."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.trainer.track_memory"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("name", CASES)
def test_the_peak_is_the_trackers_within_a_tenth(tracked: dict[str, Any], name: str) -> None:
    shape, world, parallelism, train = CASES[name]
    cut, recipe = Parallelism(**parallelism), Train(**{"global_batch": 16, **train})
    mesh = mesh_of(cut, world)
    assert mesh is not None
    plan = memory_plan(shape, cut, sharded(mesh, cut, NODE), recipe)
    assert forward_backward_peak(plan) == pytest.approx(tracked["peaks"][name], rel=0.1)


@pytest.mark.parametrize("name", SIZES)
def test_states_are_the_local_elements_within_a_hundredth(
    tracked: dict[str, Any], name: str
) -> None:
    preset, world, parallelism = SIZES[name]
    cut = Parallelism(**parallelism)
    mesh = mesh_of(cut, world)
    assert mesh is not None
    plan = memory_plan(PRESETS[preset], cut, sharded(mesh, cut, NODE), Train(global_batch=world))
    elements = max(tracked["elements"][name])  # of the ranks looked at: the first, the last
    assert plan.parameters == pytest.approx(4 * elements, rel=0.01)
    assert plan.optimizer == pytest.approx(8 * elements, rel=0.01)
