"""A checkpoint becomes Hugging Face's files; read back, they are the same weights."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict_loader import load

from everstep.contracts.exports import EXPORT_MANIFEST, ExportManifest
from everstep.contracts.models import ModelConfig
from everstep.contracts.training_spec import Model
from tests.trainer.harness import SMALL, Alone
from trainer import export as module
from trainer.export import main as export_main
from trainer.llama_names import ours, theirs
from trainer.model import Transformer
from trainer.store import hash_file
from trainer.verify import main as verify_main


@pytest.fixture
def checkpoints(alone: Alone, tmp_path: Path) -> Path:
    alone(stop__steps=4)
    return tmp_path / "checkpoints"


def shape(**changes: Any) -> ModelConfig:
    given = {k.removeprefix("model."): v for k, v in SMALL.items() if k.startswith("model.")}
    return Model(config=ModelConfig.model_validate({**given, **changes})).config  # type: ignore[return-value]


def newest(checkpoints: Path) -> Path:
    return max(checkpoints.iterdir())


def trained(checkpoints: Path) -> dict[str, Tensor]:
    """The weights as the trainer itself would load them."""
    with torch.device("meta"):
        empty = Transformer(shape()).state_dict()
    tensors = {f"model.{name}": torch.empty(value.shape) for name, value in empty.items()}
    load(tensors, storage_reader=FileSystemReader(newest(checkpoints)), no_dist=True)
    return {name.removeprefix("model."): value for name, value in tensors.items()}


def exported(out: Path) -> dict[str, Tensor]:
    """Read back by their names into ours: the inverse way, from the files alone."""
    files = sorted(out.glob("*.safetensors"))
    return {ours(name): value for file in files for name, value in load_file(file).items()}


def run(checkpoints: Path, out: Path, *more: str) -> ExportManifest:
    assert export_main([str(checkpoints), str(out), *more]) == 0
    return ExportManifest.model_validate_json((out / EXPORT_MANIFEST).read_text())


def test_every_weight_is_there_bit_for_bit(checkpoints: Path, tmp_path: Path) -> None:
    done = run(checkpoints, tmp_path / "out", "--dtype", "fp32")
    want, got = trained(checkpoints), exported(tmp_path / "out")
    assert want.keys() == got.keys()
    assert all(torch.equal(want[name], got[name]) for name in want)
    assert (done.checkpoint, done.step) == (newest(checkpoints).name, 4)
    assert done.parameters == shape().parameters()
    for entry in done.entries:
        assert hash_file(tmp_path / "out" / entry.path) == (entry.size, entry.sha256)
    Transformer(shape()).load_state_dict(got)


def test_bf16_is_the_default_and_is_rounded_once(checkpoints: Path, tmp_path: Path) -> None:
    assert run(checkpoints, tmp_path / "out").dtype == "bf16"
    want, got = trained(checkpoints), exported(tmp_path / "out")
    assert all(torch.equal(want[name].bfloat16(), got[name]) for name in want)


def test_shards_hold_at_most_what_was_asked_and_the_index_finds_all(
    checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int] = []
    save = module.save_file

    def watched(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
        held.append(sum(t.numel() * t.itemsize for t in tensors.values()))
        save(tensors, path, metadata)

    monkeypatch.setattr(module, "save_file", watched)
    run(checkpoints, tmp_path / "out", "--dtype", "fp32", "--max-shard-bytes", "20000")
    assert len(held) > 2
    assert max(held) <= 20_000
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
    assert set(index["weight_map"]) == {theirs(name) for name in trained(checkpoints)}
    assert index["metadata"]["total_size"] == sum(held)
    for name, file in index["weight_map"].items():
        assert name in load_file(tmp_path / "out" / file)
    assert sorted(set(index["weight_map"].values())) == [
        f"model-{n:05d}-of-{len(held):05d}.safetensors" for n in range(1, len(held) + 1)
    ]


def test_the_config_is_the_models_shape(checkpoints: Path, tmp_path: Path) -> None:
    run(checkpoints, tmp_path / "out")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    wanted = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 64,
        "vocab_size": 64,
        "max_position_embeddings": 32,
        "torch_dtype": "bfloat16",
        "tie_word_embeddings": False,
    }
    assert wanted.items() <= config.items()


def test_a_dataset_that_is_not_there_is_refused_before_anything_is_written(
    checkpoints: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = str(tmp_path / "nowhere")
    assert export_main([str(checkpoints), str(tmp_path / "out"), "--dataset", nowhere]) == 1
    assert f"--dataset {nowhere}: there is no such folder" in capsys.readouterr().err
    assert not list((tmp_path / "out").glob("*"))


def test_a_tokenizer_goes_along_if_the_dataset_has_one(
    checkpoints: Path, dataset: Path, tmp_path: Path
) -> None:
    run(checkpoints, tmp_path / "none", "--dataset", str(dataset))
    assert not (tmp_path / "none" / "tokenizer.json").exists()
    other = tmp_path / "other"
    other.mkdir()
    tokens = {"added_tokens": [{"id": 7, "content": "<|end|>"}]}
    (other / "tokenizer.json").write_text(json.dumps(tokens))
    done = run(checkpoints, tmp_path / "out", "--dataset", str(other))
    assert json.loads((tmp_path / "out" / "tokenizer.json").read_text()) == tokens
    assert json.loads((tmp_path / "out" / "config.json").read_text())["eos_token_id"] == 7
    assert {"tokenizer.json", "tokenizer_config.json"} <= {e.path for e in done.entries}


def test_a_second_export_replaces_the_first_and_nothing_else(
    checkpoints: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run(checkpoints, out, "--max-shard-bytes", "20000")
    (out / "notes.txt").write_text("mine")
    done = run(checkpoints, out)
    assert {p.name for p in out.iterdir()} == {
        *(entry.path for entry in done.entries),
        EXPORT_MANIFEST,
        "notes.txt",
    }


def test_a_flipped_bit_is_refused_before_anything_is_written(
    checkpoints: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = newest(checkpoints) / "__0_0.distcp"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    assert verify_main([str(newest(checkpoints))]) == 1
    assert export_main([str(newest(checkpoints)), str(tmp_path / "out")]) == 1
    assert "BrokenCheckpoint: __0_0.distcp has sha256" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_failure_file_of_a_job_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVERSTEP_RUN_ID", "my-run")
    monkeypatch.setenv("EVERSTEP_LAUNCH", "2")
    monkeypatch.setenv("EVERSTEP_OUTPUT_URI", str(tmp_path / "said"))
    assert export_main([str(tmp_path / "nothing"), str(tmp_path / "out")]) == 1
    said = json.loads((tmp_path / "said" / "00002" / "failure.json").read_text())
    assert (said["kind"], said["message"]) == ("BrokenCheckpoint", "no committed checkpoint")


def test_names_go_there_and_back() -> None:
    with torch.device("meta"):
        names = list(Transformer(shape()).state_dict())
    assert [ours(theirs(name)) for name in names] == names
    for unknown in ("blocks.0.attention.wz.weight", "rotary"):
        with pytest.raises(KeyError):
            theirs(unknown)
        with pytest.raises(KeyError):
            ours(unknown)
