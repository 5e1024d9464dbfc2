"""What the plan says of the published sizes, and what is refused before anything starts."""

from typing import Any

import pytest

from everstep.contracts.check import check_spec
from everstep.contracts.run_spec import RunSpec
from everstep.policy.memory import fitting, memory_of, memory_problems, usable


def spec(**changes: Any) -> RunSpec:
    raw = {
        "model": "llama2-70b",
        "data": "corpus",
        "stop": {"steps": 10},
        "train": {"global_batch": 256},
        "compute": [{"instance_type": "ml.p5.48xlarge", "nodes": 16}],
        **changes,
    }
    found, problems = check_spec(raw)
    assert problems == []
    assert found is not None
    return found


def test_states_of_70b_over_128_gpus() -> None:
    """12 bytes a parameter (fp32 weight and two moments), over 128 ranks, within padding."""
    plan = memory_of(spec(), 0)
    assert plan is not None
    assert plan.parameters + plan.optimizer == pytest.approx(12 * 68.98e9 / 128, rel=0.01)


def test_frozen_weights_have_no_moments() -> None:
    """70B with adapters of rank 16 at attention. The fullest of 128 ranks holds a whole row of each
    of the four A, (16, 8192), and 64, 8, 8 and 64 rows of the B, (…, 16)."""
    model = {"preset": "llama2-70b", "weights": "models/70b", "lora": {"rank": 16, "alpha": 32}}
    plan = memory_of(spec(model=model), 0)
    assert plan is not None
    adapters = 80 * (4 * 8192 + (64 + 8 + 8 + 64) * 16)
    assert plan.parameters == pytest.approx(4 * (68.98e9 / 128 + adapters), rel=0.01)
    assert plan.optimizer == 8 * adapters


def test_weights_that_no_gpu_holds_are_refused_with_the_arithmetic() -> None:
    one = spec(parallelism={"sharding": "NO_SHARD"})
    (problem,) = memory_problems(one)
    assert problem.path == "compute.0"
    assert "827.7 GB a GPU, it has 80" in problem.message
    assert list(memory_problems(spec())) == []


def test_a_program_of_your_own_is_not_judged() -> None:
    own = spec(parallelism={"sharding": "NO_SHARD"}, trainer={"command": ["python", "mine.py"]})
    assert memory_of(own, 0) is None
    assert list(memory_problems(own)) == []


def test_what_would_fit_fits() -> None:
    large = spec(
        model="llama2-7b",
        train={"global_batch": 1024, "micro_batch": 4},
        compute=[{"instance_type": "ml.p5.48xlarge", "nodes": 4}],
    )
    plan = memory_of(large, 0)
    assert plan is not None
    assert plan.total > usable(80)
    assert fitting(large, 0) == "train.activation_checkpointing full"


@pytest.mark.parametrize(("field", "small"), [("sequence_length", 2048), ("micro_batch", 1)])
def test_twice_the_tokens_save_twice_the_activations(field: str, small: int) -> None:
    def activations(size: int) -> int:
        plan = memory_of(spec(train={"global_batch": 1024, field: size}), 0)
        assert plan is not None
        return plan.activations

    assert activations(2 * small) == pytest.approx(2 * activations(small), rel=0.01)
