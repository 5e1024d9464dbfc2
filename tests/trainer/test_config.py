"""Hyperparameters: a run spec's sections, flat and back; the trainer's configuration from them."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everstep.contracts.hyperparameters import from_hyperparameters, to_hyperparameters
from everstep.contracts.models import PRESETS, ModelConfig
from everstep.contracts.run_spec import RunSpec
from everstep.contracts.training_spec import Parallelism, Train
from trainer.config import TrainerConfig
from trainer.errors import ConfigError
from trainer.optim import learning_rate
from trainer.parallel import layout_of

LEAST: dict[str, Any] = {
    "model": "tiny",
    "data": "datasets/stdlib",
    "compute": [{"instance_type": "ml.m5.large"}],
    "stop": {"steps": 100},
}


def _sections(spec: RunSpec) -> dict[str, Any]:
    return {
        name: getattr(spec, name)
        for name in ("model", "parallelism", "train", "checkpoint", "stop")
    }


@settings(max_examples=60, deadline=None)
@given(
    train=st.fixed_dictionaries(
        {},
        optional={
            "lr": st.floats(1e-12, 10),
            "global_batch": st.integers(1, 10**6),
            "schedule": st.sampled_from(["cosine", "linear", "wsd", "constant"]),
            "dtype": st.sampled_from(["bf16", "fp32"]),
            "seed": st.integers(0, 2**62),
        },
    ),
    sharding=st.sampled_from(["FULL_SHARD", "HYBRID_SHARD", "SHARD_GRAD_OP", "NO_SHARD"]),
    model=st.sampled_from(
        [
            "llama2-7b",
            {"preset": "small", "dropout": 0.1, "vocab_size": 999},
            {"config": PRESETS["tiny"].model_dump()},
        ]
    ),
    every=st.none() | st.integers(1, 10**6),
    prefix=st.sampled_from(["2024", "a/b", "true", "x"]),
)
def test_round_trip(train: Any, sharding: str, model: Any, every: Any, prefix: str) -> None:
    raw = LEAST | {
        "train": train,
        "parallelism": {"sharding": sharding},
        "model": model,
        "checkpoint": {"every_steps": every},
        "data": prefix,
    }
    if prefix == "x":
        raw["trainer"] = {"hyperparameters": {"epochs": "3"}}
    spec = RunSpec.model_validate(raw)
    flat = to_hyperparameters(spec)
    assert all(isinstance(value, str) for value in flat.values())
    config = TrainerConfig.from_flat(flat)
    assert _sections(spec) == {name: getattr(config, name) for name in _sections(spec)}
    assert config.data.prefix == prefix


def test_defaults_are_not_sent() -> None:
    assert to_hyperparameters(RunSpec.model_validate(LEAST)) == {
        "model.preset": "tiny",
        "data.prefix": "datasets/stdlib",
        "stop.steps": "100",
    }


def test_what_sagemaker_would_refuse_is_refused() -> None:
    many = LEAST | {"trainer": {"hyperparameters": {f"k{i}": "v" for i in range(101)}}}
    with pytest.raises(ValueError, match=r"104 hyperparameters: SageMaker takes 100.*hint"):
        to_hyperparameters(RunSpec.model_validate(many))
    long = LEAST | {"trainer": {"hyperparameters": {"text": "x" * 2501}}}
    with pytest.raises(ValueError, match="text is longer than 2500"):
        to_hyperparameters(RunSpec.model_validate(long))


def test_shape_fields_may_stand_below_model() -> None:
    base = {"model.preset": "tiny", "stop.steps": "1"}
    assert TrainerConfig.from_flat(base | {"model.layers": "5"}).shape == (
        PRESETS["tiny"].model_copy(update={"layers": 5})
    )
    shape = {
        f"model.{k}": str(v)
        for k, v in PRESETS["tiny"].model_dump().items()
        if k not in ("tied_embeddings", "rope_scaling")
    }
    assert TrainerConfig.from_flat(shape | {"stop.steps": "1"}).shape == PRESETS["tiny"]
    assert isinstance(TrainerConfig.from_flat(base).shape, ModelConfig)


def test_others_keys_are_left_alone_and_typos_are_not() -> None:
    assert from_hyperparameters({"sagemaker_program": "x", "stop.steps": "1"})["stop"] == {
        "steps": 1
    }
    with pytest.raises(ConfigError, match=r"no such section 'trian'.*hint"):
        TrainerConfig.from_flat({"trian.lr": "1", "model.preset": "tiny", "stop.steps": "1"})


def test_everything_that_is_wrong_is_named_at_once() -> None:
    given = {"model.preset": "tiny", "stop.steps": "1", "train.lr": "abc", "train.nope": "2"}
    with pytest.raises(ConfigError) as raised:
        TrainerConfig.from_flat(given | {"foo.bar": "1", "baz.x": "1"})
    for said in ("'foo.bar': no such section", "'baz.x'", "train.lr: ", "train.nope: "):
        assert said in str(raised.value)


def test_a_field_below_a_value_is_refused() -> None:
    given = {"model.preset": "tiny", "stop.steps": "1", "train.lr": "1", "train.lr.x": "1"}
    with pytest.raises(ConfigError, match=r"'train.lr.x': 'lr' has a value of its own"):
        TrainerConfig.from_flat(given)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model.preset": "tyni"}, "no such preset 'tyni'"),
        ({"data.document_separator": "1024"}, "document_separator=1024: .* vocabulary has 1024"),
        ({"data.mixture": '[{"prefix": "a"}, {"prefix": "a"}]'}, r"mixture.1.prefix=.a.: is there"),
        ({"model.heads": "3"}, "do not divide"),
        ({"stop.steps": "0"}, "stop.steps"),
    ],
)
def test_refusals(change: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        TrainerConfig.from_flat({"model.preset": "tiny", "stop.steps": "1"} | change)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tensor": 4}, r"tensor=4: model.kv_heads 2 is not a multiple.*hint: tensor 2 divides"),
        ({"pipeline": 4}, r"4 stages .*the model has 2 layers.*hint: at most 2"),
        ({"shard": 3}, r"is not the world size 4.*hint: leave parallelism.shard out"),
        ({"replicate": 2, "shard": 2}, r"global_batch=6: not a multiple.*hint: a multiple of 8"),
    ],
)
def test_a_mesh_that_does_not_fit_is_refused(change: dict[str, int], words: str) -> None:
    train = Train(global_batch=6, micro_batch=2)
    with pytest.raises(ConfigError, match=words):
        layout_of(PRESETS["tiny"], Parallelism(**change), train, 4, 4)


@pytest.mark.parametrize(
    ("parallelism", "layout"),
    [
        ({}, "FULL_SHARD 1×16"),
        ({"sharding": "NO_SHARD"}, "NO_SHARD 16×1"),
        ({"sharding": "HYBRID_SHARD"}, "HYBRID_SHARD 2×8"),
        ({"sharding": "HYBRID_SHARD", "tensor": 2}, "HYBRID_SHARD 2×4 tensor 2"),
        ({"sharding": "HYBRID_SHARD", "pipeline": 2}, "HYBRID_SHARD 1×8 pipeline 2×1"),
        ({"replicate": 2, "tensor": 2, "pipeline": 2}, "FULL_SHARD 2×2 tensor 2 pipeline 2×1"),
    ],
)
def test_a_layout_on_two_nodes_of_eight(parallelism: dict[str, Any], layout: str) -> None:
    train = Train(global_batch=64)
    found = layout_of(PRESETS["tiny"], Parallelism.model_validate(parallelism), train, 16, 8)
    assert str(found) == layout
    samples = {found.data_rank(rank) for rank in range(16) if found.counts(rank)}
    assert len(samples) == sum(map(found.counts, range(16))) == found.data_ranks


def test_learning_rate() -> None:
    train = Train(lr=1.0, warmup_steps=10, min_lr_ratio=0.1)
    rates = [learning_rate(train, step, 110) for step in range(111)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == rates[10] == 1.0
    assert rates[60] == pytest.approx(0.55)
    assert rates[110] == pytest.approx(0.1)
    linear = train.model_copy(update={"schedule": "linear"})
    assert learning_rate(linear, 35, 110) == pytest.approx(0.775)
    assert learning_rate(train.model_copy(update={"schedule": "constant"}), 99, 110) == 1.0
    wsd = train.model_copy(update={"schedule": "wsd", "decay_share": 0.5})
    rates = [learning_rate(wsd, step, 110) for step in (9, 60, 85, 110)]
    assert rates == pytest.approx([1.0, 1.0, 0.55, 0.1])
