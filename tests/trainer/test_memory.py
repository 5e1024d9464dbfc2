"""The memory plan against torch: local sizes on a fake group of true size, and FSDPMemTracker."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from everstep.contracts.mesh import mesh_of, sharded
from everstep.contracts.models import PRESETS
from everstep.contracts.training_spec import Parallelism, Train
from everstep.policy.memory_peak import MASTER, memory_plan
from tests.trainer.memory_cases import CASES, FULL, LARGE, MORE, NODE, SIZES, Case

ROOT = Path(__file__).resolve().parents[2]
Tracked = dict[str, list[dict[str, int]]]


def torchs(*names: str) -> Any:
    """In a process of its own: a fake process group of true size is the default group there."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.trainer.track_memory", *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def tracked() -> Tracked:
    return dict(torchs(*CASES))


@pytest.fixture(scope="module")
def tracked_more() -> Tracked:
    return dict(torchs(*MORE))


def hold(case: Case, ranks: list[dict[str, int]]) -> None:
    """States within a hundredth, gradients as the optimizer finds them; the peak of a step within a
    tenth; and the most activations that are there at any time, since two moments may hold alike."""
    plan = case.plan()
    fullest = max(ranks, key=lambda x: x["peak"])
    assert plan.parameters == pytest.approx(MASTER * fullest["elements"], rel=0.01)
    assert plan.optimizer == pytest.approx(2 * MASTER * fullest["trained"], rel=0.01)
    assert plan.optimizer / 2 == pytest.approx(fullest["gradients"], rel=0.01)
    assert plan.forward_backward_peak == pytest.approx(fullest["peak"], rel=0.1)
    most = max(activations for rank in case.positions() for _, activations, _ in rank.moments())
    found = max(x["activations"] for x in ranks)
    assert 0.9 * found <= most <= (1 + case.over) * found
    assert plan.activations <= most


@pytest.mark.parametrize("name", CASES)
def test_each_part_is_torchs(tracked: Tracked, name: str) -> None:
    hold(CASES[name], tracked[name])


@pytest.mark.slow  # a minute together, operation by operation
@pytest.mark.parametrize("name", MORE)
def test_each_part_is_torchs_on_more_meshes(tracked_more: Tracked, name: str) -> None:
    hold(MORE[name], tracked_more[name])


@pytest.mark.slow  # eighty layers, operation by operation: half a minute of CPU a microbatch
@pytest.mark.parametrize("name", LARGE)
def test_each_part_is_torchs_at_the_sizes_that_are_trained(name: str) -> None:
    hold(LARGE[name], torchs(name)[name])


def test_what_the_example_plans_is_among_them() -> None:
    spec = json.loads((ROOT / "examples" / "llama2-70b.json").read_text("utf-8"))
    case, (target,) = LARGE["70b, recomputed, several"], spec["compute"]
    found = Case(
        PRESETS[spec["model"]],
        NODE * target["nodes"],
        spec["parallelism"],
        {key: spec["train"][key] for key in ("sequence_length", "global_batch", *FULL)},
    )
    assert found.plan() == case.plan()


@pytest.fixture(scope="module")
def sizes() -> dict[str, list[int]]:
    return dict(torchs())


@pytest.mark.parametrize("name", SIZES)
def test_states_are_the_local_elements_within_a_hundredth(
    sizes: dict[str, list[int]], name: str
) -> None:
    preset, world, parallelism = SIZES[name]
    cut = Parallelism(**parallelism)
    mesh = mesh_of(cut, world)
    assert mesh is not None
    plan = memory_plan(PRESETS[preset], cut, sharded(mesh, cut, NODE), Train(global_batch=world))
    elements = max(sizes[name])  # of the ranks looked at: the first, the last
    assert plan.parameters == pytest.approx(MASTER * elements, rel=0.01)
    assert plan.optimizer == pytest.approx(2 * MASTER * elements, rel=0.01)
