"""Hugging Face checkpoints: read, the logits are those of transformers; written, read again."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from everstep.contracts.models import ModelConfig, RopeScaling
from everstep.contracts.training_spec import Sharding, Train
from tests.trainer.harness import Launch, of_kind, weights
from trainer.errors import ConfigError
from trainer.export import main as export_main
from trainer.import_weights import import_weights
from trainer.llama_names import llama_config
from trainer.parallel import Layout, build_model

GOLDEN = Path(__file__).with_name("golden")
BASE = ModelConfig(dim=32, layers=2, heads=4, kv_heads=2, ffn_dim=48, vocab_size=64)
STRETCHED = RopeScaling(factor=8, low_freq_factor=1, high_freq_factor=4, original_length=16)
SHAPES = {
    "llama31": BASE.model_copy(update={"rope_theta": 500_000.0, "rope_scaling": STRETCHED}),
    "llama2": BASE.model_copy(update={"kv_heads": 4}),
    "tied": BASE.model_copy(update={"tied_embeddings": True}),
}


def built(shape: ModelConfig) -> torch.nn.Module:
    train = Train(dtype="fp32", sequence_length=48, global_batch=2, micro_batch=2)
    return build_model(shape, Layout(Sharding.FULL_SHARD, 1, 1), train, torch.device("cpu"))


@pytest.mark.parametrize("case", SHAPES)
def test_logits_are_those_of_transformers(one_rank: None, case: str) -> None:
    """48 tokens: llama31's go far beyond the 16 of its original context."""
    model = built(SHAPES[case])
    import_weights(model, SHAPES[case], GOLDEN / case)
    answers = load_file(GOLDEN / case / "answers.safetensors")
    with torch.no_grad():
        logits = model(answers["tokens"])
    assert answers["logits"].std() > 0.3
    assert (logits - answers["logits"]).abs().max() <= 1e-5


def test_the_stretch_of_the_rotation_matters(one_rank: None, tmp_path: Path) -> None:
    folder = altered(tmp_path, "llama31", rope_parameters={"rope_theta": 500_000.0})
    plain = SHAPES["llama31"].model_copy(update={"rope_scaling": None})
    model = built(plain)
    import_weights(model, plain, folder)
    answers = load_file(GOLDEN / "llama31" / "answers.safetensors")
    with torch.no_grad():
        assert (model(answers["tokens"]) - answers["logits"]).abs().max() > 1e-3


def altered(tmp_path: Path, case: str, **changes: Any) -> Path:
    folder = tmp_path / "altered"
    shutil.copytree(GOLDEN / case, folder)
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden_size": 64}, r"config.json says hidden_size=64, the run's model has 32"),
        ({"attention_bias": True}, r"attention_bias=True"),
        ({"rope_theta": 1e4}, r"rope_theta=10000.0.*has 500000.0"),
        ({"rope_parameters": {"rope_theta": 5e5}}, r"rope_scaling=None.*has \{"),
        (
            {"rope_parameters": {"rope_theta": 5e5, "rope_type": "linear", "factor": 2.0}},
            r"rope_scaling=\{.*linear.*hint",
        ),
        ({"model_type": "mistral"}, r"model_type='mistral'"),
    ],
)
def test_another_model_is_refused(
    one_rank: None, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    folder = altered(tmp_path, "llama31", **changes)
    with pytest.raises(ConfigError, match=words):
        import_weights(built(SHAPES["llama31"]), SHAPES["llama31"], folder)


def test_a_missing_or_torn_file_is_named(one_rank: None, tmp_path: Path) -> None:
    folder = altered(tmp_path, "llama31")
    model = built(SHAPES["llama31"])
    file = folder / "model-00002-of-00005.safetensors"
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ConfigError, match=r"model-00002-of-00005.safetensors: .*hint"):
        import_weights(model, SHAPES["llama31"], folder)
    file.unlink()
    with pytest.raises(ConfigError, match=r"model-00002-of-00005.safetensors: .*hint"):
        import_weights(model, SHAPES["llama31"], folder)
    with pytest.raises(ConfigError, match=r"config.json: .*hint"):
        import_weights(model, SHAPES["llama31"], tmp_path)


def test_a_run_starts_from_them_and_exports_them_again(launch: Launch, tmp_path: Path) -> None:
    """On four ranks, each matrix cut twice; a step that changes nothing; out again, bit for bit."""
    job = launch(
        "imported",
        ranks=4,
        **shape_words("llama31"),
        model__weights=GOLDEN / "llama31",
        model__dropout=0,
        parallelism__tensor=2,
        train__lr=1e-30,
        train__weight_decay=0,
        stop__steps=1,
    )
    assert job.wait() == 0, job.text
    assert len(of_kind(job.lines, "step")) == 1
    checkpoints, out = tmp_path / "imported" / "checkpoints", tmp_path / "out"
    assert export_main([str(checkpoints), str(out), "--dtype", "fp32"]) == 0
    wanted: dict[str, torch.Tensor] = {}
    for file in (GOLDEN / "llama31").glob("model-*.safetensors"):
        wanted |= load_file(file)
    found = load_file(out / "model.safetensors")
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    config = json.loads((out / "config.json").read_text())
    assert config["rope_scaling"]["original_max_position_embeddings"] == 16
    import_weights(built_like(config), SHAPES["llama31"], out)


def shape_words(case: str) -> dict[str, Any]:
    shape = SHAPES[case].model_dump(exclude={"dropout", "tied_embeddings"}, exclude_none=True)
    rope = shape.pop("rope_scaling", {})
    changes = {f"model__{key}": value for key, value in shape.items()}
    return changes | {f"model__rope_scaling__{key}": value for key, value in rope.items()}


def test_a_resumed_run_does_not_start_from_them_again(launch: Launch, tmp_path: Path) -> None:
    """From a channel; gone when the run goes on, as its own checkpoint is what counts."""
    words = shape_words("llama31") | {
        "ranks": 1,
        "model__weights": "weights",
        "train__schedule": "constant",
    }
    for name, steps in (("whole", 6), ("parts", 3)):
        channel = tmp_path / name / "ml" / "input" / "data" / "weights"
        shutil.copytree(GOLDEN / "llama31", channel)
        job = launch(name, **words, stop__steps=steps)
        assert job.wait() == 0, job.text
    shutil.rmtree(channel)
    on = launch("parts", number=2, **words, stop__steps=6)
    assert on.wait() == 0, on.text
    assert of_kind(on.lines, "resume")[0]["step"] == 3
    whole, parts = (weights(tmp_path / name / "checkpoints") for name in ("whole", "parts"))
    assert whole["weights_sha256"] == parts["weights_sha256"]
    assert whole["optimizer_sha256"] == parts["optimizer_sha256"]
    nothing = launch("nothing", **words, stop__steps=3)
    assert nothing.wait() != 0
    assert "config.json" in nothing.text


def built_like(config: dict[str, Any]) -> torch.nn.Module:
    assert llama_config(SHAPES["llama31"], 32, "float32", None).items() <= config.items()
    from trainer.model import Transformer

    return Transformer(SHAPES["llama31"])
