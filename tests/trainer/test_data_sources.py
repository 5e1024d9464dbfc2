"""From the data section to samples: roots, mixtures, validation; wrong ones are named."""

from pathlib import Path
from typing import Any

import pytest

from everstep.contracts.env import TrainerEnv
from everstep.contracts.hyperparameters import to_hyperparameters
from everstep.contracts.run_spec import RunSpec
from tests.trainer.harness import SMALL, VOCAB, Alone, losses, of_kind
from trainer.config import TrainerConfig
from trainer.errors import ConfigError, DataError
from trainer.host import MlRoot
from trainer.prepare import write_dataset
from trainer.sources import data_root, open_samples, open_validation


def _config(**data: Any) -> TrainerConfig:
    return TrainerConfig.from_flat(SMALL | {f"data.{k}": str(v) for k, v in data.items()})


def _root(env: TrainerEnv | None = None, **data: Any) -> str:
    return data_root(_config(**data).data, env or TrainerEnv(), MlRoot(root=Path("/opt/ml")))


def test_where_a_dataset_lies() -> None:
    streamed = TrainerEnv(data_uri="s3://team/corpus")
    assert _root() == "/opt/ml/input/data/training"
    assert _root(mode="fastfile", prefix="a/b") == "/opt/ml/input/data/training"
    assert _root(path="data/x") == "data/x"
    assert _root(streamed, mode="s3") == "s3://team/corpus"
    assert _root(streamed, mode="s3", path="s3://other/x") == "s3://other/x"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"path": "s3://b/x"}, "data.mode=file reads no S3.*set data.mode=s3"),
        ({"mode": "s3"}, "the dataset is at None.*data.path=s3://"),
        ({"mode": "s3", "path": "data/x"}, "the dataset is at data/x"),
    ],
)
def test_where_no_dataset_lies(data: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        _root(**data)


@pytest.fixture
def three(tmp_path: Path) -> Path:
    for number, name in enumerate(("web", "code", "held-out")):
        tokens = [number * 20 + i % 20 for i in range(3_000)]
        write_dataset(tmp_path / name, tokens, VOCAB, shard_tokens=1_000)
    return tmp_path


MIXTURE = '[{"prefix": "web", "weight": 3}, {"prefix": "code"}]'


def test_a_mixture_and_what_is_held_out(three: Path) -> None:
    config = _config(mixture=MIXTURE, validation="held-out", document_separator=19)
    samples = open_samples(config, str(three), verify=True)
    tokens = samples.batch(range(400)).tokens
    assert (tokens[:, 0] < 20).mean() == 0.75
    assert tokens.max() < 40
    held_out = open_validation(config, f"{three}/", verify=True)
    assert held_out is not None
    batch = held_out.batch(range(held_out.count))
    assert batch.tokens.min() == 40
    assert batch.documents is not None
    assert open_validation(_config(), str(three), verify=True) is None


def test_a_missing_part_of_a_mixture_is_named(three: Path) -> None:
    config = _config(mixture='[{"prefix": "web"}, {"prefix": "books"}]')
    with pytest.raises(DataError, match=r"no dataset at .*/books: index.json is missing"):
        open_samples(config, str(three), verify=True)


def test_a_spec_says_all_of_it_to_the_trainer() -> None:
    data = {
        "prefix": "corpus",
        "mode": "s3",
        "mixture": [{"prefix": "web", "weight": 0.7}, {"prefix": "code", "weight": 0.3}],
        "validation": "held-out",
        "document_separator": 0,
    }
    spec = RunSpec.model_validate(
        {
            "model": "tiny",
            "data": data,
            "compute": [{"instance_type": "ml.m5.large"}],
            "stop": {"steps": 1},
        }
    )
    given = TrainerConfig.from_flat(to_hyperparameters(spec)).data
    assert given.model_dump(exclude={"path"}) == spec.data.model_dump(
        exclude={"preload", "scratch_gib"}  # the control plane's alone
    )


ANOTHER_ORDER: list[tuple[dict[str, Any], str]] = [
    ({"data__mixture": MIXTURE.replace("3", "2")}, "was trained with dataset="),
    ({"data__document_separator": 5}, "was trained with document_separator=19"),
    ({"train__sequence_length": 16}, "was trained with sequence_length=32"),
]


def test_a_run_on_a_mixture_resumes_exactly_and_refuses_another_order(
    alone: Alone, three: Path, tmp_path: Path
) -> None:
    given: dict[str, Any] = {
        "data__path": three,
        "data__mixture": MIXTURE,
        "data__document_separator": 19,
        "train__schedule": "constant",
    }
    whole = alone(str(tmp_path / "whole"), **given)
    uri = str(tmp_path / "broken")
    first = alone(uri, **given, stop__steps=6)
    for launch, (change, words) in enumerate(ANOTHER_ORDER, start=2):
        with pytest.raises(ConfigError, match=words):
            alone(uri, env={"launch": launch}, **(given | change))
    second = alone(uri, env={"launch": 5}, **given)
    assert of_kind(second, "resume")[0]["step"] == 6
    assert losses(first) | losses(second) == losses(whole)


def test_a_checkpoint_of_another_order_is_refused(
    alone: Alone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order before mixtures was another one, and its checkpoints do not name it."""
    import trainer.data as module

    uri = str(tmp_path / "old")
    honest = module.Samples.identity.fget
    assert honest is not None
    old = property(lambda self: {"dataset": honest(self)["dataset"]})
    with monkeypatch.context() as patch:
        patch.setattr(module.Samples, "identity", old)
        alone(uri, stop__steps=3)
    with pytest.raises(ConfigError, match="was trained with order=None, this start has 2"):
        alone(uri, env={"launch": 2})
