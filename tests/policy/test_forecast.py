"""Pace, checkpoints and host memory before a run: arithmetic that a person can do again."""

from typing import Any

import pytest

from everstep.contracts.instances import INSTANCE_TYPES
from everstep.contracts.run_spec import RunSpec
from everstep.policy.checkpoint_interval import optimum
from everstep.policy.forecast import (
    GIB,
    checkpoint_bytes,
    host_copy,
    host_problems,
    pace,
    saving,
)
from everstep.policy.prices import PRICES, on_demand_source


def spec_of(**changes: Any) -> RunSpec:
    raw: dict[str, Any] = {
        "model": "llama2-70b",
        "data": "datasets/any",
        "compute": [{"instance_type": "ml.p5.48xlarge", "nodes": 16}],
        "train": {"sequence_length": 4096, "global_batch": 1024},
        "stop": {"steps": 1000},
        **changes,
    }
    return RunSpec.model_validate(raw)


def test_pace_is_peak_times_mfu_by_flops() -> None:
    spec = spec_of()
    found = pace(spec, spec.compute[0], 0.5)
    assert found is not None
    # 6 × (parameters − lookup) + 12 × layers × dim × sequence, by hand
    parameters = 68_976_648_192
    each = 6 * (parameters - 32000 * 8192) + 12 * 80 * 8192 * 4096
    assert found.flops_per_token == pytest.approx(each)
    assert found.tokens_per_s == pytest.approx(128 * 989e12 * 0.5 / each)
    assert found.tokens == 1000 * 1024 * 4096
    assert found.step_seconds == pytest.approx(1024 * 4096 / found.tokens_per_s)
    assert found.train_seconds == pytest.approx(1000 * found.step_seconds)


def test_frozen_weights_have_no_gradients_to_reckon() -> None:
    model = {
        "preset": "llama2-70b",
        "weights": "weights/llama2-70b",
        "lora": {"rank": 8, "alpha": 16},
    }
    whole, adapters = spec_of(), spec_of(model=model)
    found = [pace(x, x.compute[0], 0.5) for x in (whole, adapters)]
    assert found[0] is not None
    assert found[1] is not None
    saved = 2 * (68_976_648_192 - 32000 * 8192)
    assert found[0].flops_per_token - found[1].flops_per_token == pytest.approx(saved)


def test_a_rate_that_is_given_needs_no_peak() -> None:
    own = spec_of(
        compute=[{"instance_type": "ml.m5.large"}], trainer={"command": ["python", "mine.py"]}
    )
    assert pace(own, own.compute[0], 0.4) is None
    found = pace(own, own.compute[0], 0.4, tokens_per_s=1000.0)
    assert found is not None
    assert found.train_seconds == pytest.approx(1000 * 1024 * 4096 / 1000)
    assert found.peak_flops is None


def test_a_checkpoint_is_twelve_bytes_a_weight_and_one_copy_over_all_hosts() -> None:
    spec = spec_of()
    assert checkpoint_bytes(spec) == 12 * 68_976_648_192
    assert host_copy(spec, spec.compute[0]) * 16 >= checkpoint_bytes(spec)
    assert host_copy(spec, spec.compute[0]) * 16 - checkpoint_bytes(spec) < 16
    plain = spec_of(train={"optimizer": "sgd"})
    assert checkpoint_bytes(plain) == 4 * 68_976_648_192


def test_adapters_alone_are_in_a_checkpoint_of_lora() -> None:
    spec = spec_of(
        model={"preset": "llama2-7b", "lora": {"rank": 16, "alpha": 32, "targets": ["wq", "wv"]}}
    )
    # A is rank × in, B is out × rank; two of them in each of 32 blocks
    assert checkpoint_bytes(spec) == 12 * 32 * 2 * (16 * 4096 + 4096 * 16)


@pytest.mark.parametrize(
    ("checkpoint", "seconds", "says"),
    [
        ({"every_steps": 20}, 200.0, "checkpoint.every_steps 20"),
        ({"every_minutes": 15}, 900.0, "checkpoint.every_minutes 15"),
        ({"failures_per_node_day": 0.05}, None, "Daly's optimum"),
    ],
)
def test_the_interval_is_the_specs_or_dalys(
    checkpoint: dict[str, Any], seconds: float | None, says: str
) -> None:
    spec = spec_of(checkpoint=checkpoint)
    found = saving(spec, spec.compute[0], stall=6.0, durable=100.0, step_seconds=10.0)
    mtbf = 86_400 / (16 * 0.05)
    assert found.interval_seconds == pytest.approx(seconds or optimum(6.0, mtbf) + 6.0)
    assert found.reason.startswith(says)


def test_a_copy_that_no_host_can_hold_is_refused() -> None:
    one = spec_of(model="llama3.1-405b", compute=[{"instance_type": "ml.p5.48xlarge", "nodes": 2}])
    (problem,) = host_problems(one)
    assert problem.path == "compute.0"
    assert f"{12 * 405_853_388_800 / 2 / GIB:,.0f} GiB" in problem.message
    assert not list(host_problems(spec_of()))
    own = one.model_copy(update={"trainer": one.trainer.model_copy(update={"command": ["x"]})})
    assert not list(host_problems(own))


def test_prices_name_types_that_exist_and_are_in_order() -> None:
    unknown = {"ml.p5e.48xlarge", "ml.trn1n.32xlarge", "ml.trn2.48xlarge"}
    assert set(INSTANCE_TYPES) - set(PRICES) == unknown
    assert set(PRICES) <= set(INSTANCE_TYPES)
    for name, price in PRICES.items():
        assert price.on_demand > 0
        assert price.plan is None or 0 < price.plan < price.on_demand
        if price.spot:
            low, high = price.spot
            assert 0 < low <= high <= price.on_demand
        assert ("not confirmed" in on_demand_source(name)) == (not price.confirmed)
