"""Batches are a pure function of (seed, position); datasets are checked when opened."""

import json
from pathlib import Path

import numpy as np
import pytest

from trainer import shards
from trainer.data import Dataset, Samples
from trainer.errors import DataError
from trainer.prepare import main as prepare_main
from trainer.prepare import write_dataset


def test_windows_across_shards_are_the_tokens(tmp_path: Path) -> None:
    tokens = list(range(100))
    write_dataset(tmp_path, tokens, 100, shard_tokens=7)
    samples = Samples([Dataset(tmp_path)], 10, seed=0, vocab_size=100, global_batch=3)
    assert samples.count == 9
    rows = samples.batch(range(9)).tokens
    assert rows.shape == (9, 11)
    assert sorted(rows[:, 0]) == list(range(0, 90, 10))
    assert all((np.diff(row) == 1).all() for row in rows)


def test_shards_may_be_spread_over_folders(tmp_path: Path) -> None:
    index = write_dataset(tmp_path, range(100), 100, shard_tokens=7, folders=4)
    assert {shard.file.split("/")[0] for shard in index.shards} == {"00", "01", "02", "03"}
    assert Dataset(tmp_path).window(0, 100).tolist() == list(range(100))


def test_a_large_dataset_is_asked_for_in_whole_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where pages come over a network: small shards, none of whose ends is that of a page."""
    write_dataset(tmp_path, np.arange(60_000), 60_000, shard_tokens=7_001)

    def batches() -> np.ndarray:
        samples = Samples([Dataset(tmp_path)], 8, seed=0, vocab_size=60_000, global_batch=4)
        assert samples.run > 8
        return np.stack([samples.batch(range(p, p + 4)).tokens for p in range(0, 15_000, 4)])

    small = batches()
    monkeypatch.setattr(shards, "HASHED_UP_TO", 0)
    asked: list[tuple[int, int]] = []
    honest = Dataset.expect

    def expect(self: Dataset, spans: np.ndarray) -> None:
        asked.extend((start, stop) for start, stop in spans.tolist())
        honest(self, spans)

    monkeypatch.setattr(Dataset, "expect", expect)
    assert (batches() == small).all()
    tokens = np.unique([t for start, stop in asked for t in range(start, stop)])
    assert set(small[..., 0].ravel().tolist()) <= set(tokens.tolist())
    assert len(asked) < 15_000 / 8


def _documents(tokens: list[int]) -> tuple[list[int], list[int]]:
    """Positions and documents of the inputs, token by token; 0 ends a document."""
    positions, documents, place, number = [], [], 0, 0
    for token in tokens[:-1]:
        positions.append(place)
        documents.append(number)
        place, number = (0, number + 1) if token == 0 else (place + 1, number)
    return positions, documents


def test_documents_of_a_window(tmp_path: Path) -> None:
    tokens = np.random.default_rng(0).integers(0, 4, 1000)
    tokens[500:600] = 3  # a window without an end of a document
    tokens[700:720] = 0  # and one of nothing else
    write_dataset(tmp_path, tokens, 4, shard_tokens=300)
    plain = Samples([Dataset(tmp_path)], 16, seed=1, vocab_size=4, global_batch=4)
    packed = Samples([Dataset(tmp_path)], 16, seed=1, vocab_size=4, global_batch=4, separator=0)
    batch, same = packed.batch(range(62)), plain.batch(range(62))
    assert same.positions is None
    assert same.documents is None
    assert (batch.tokens == same.tokens).all()
    assert batch.positions is not None
    assert batch.documents is not None
    assert batch.positions.shape == batch.documents.shape == (62, 16)
    for row, positions, documents in zip(
        batch.tokens, batch.positions, batch.documents, strict=True
    ):
        assert _documents(row.tolist()) == (positions.tolist(), documents.tolist())


def _open(folder: Path) -> Samples:
    return Samples([Dataset(folder)], 32, seed=0, vocab_size=64, global_batch=1)


def _edit_index(folder: Path, **changes: object) -> None:
    path = folder / "index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


CLIMBING = {"file": "../shard-00000.bin", "tokens": 200, "sha256": ""}
DAMAGE = {
    "no dataset": (lambda f: (f / "index.json").unlink(), "no dataset at"),
    "missing": (lambda f: (f / "shard-00001.bin").unlink(), "shard is missing"),
    "truncated": (lambda f: _truncate(f / "shard-00001.bin"), "shard is truncated"),
    "foreign": (lambda f: (f / "shard-00000.bin").write_bytes(bytes(200)), "foreign shard"),
    "wrong total": (lambda f: _edit_index(f, total_tokens=99), "its shards hold 200"),
    "newer schema": (
        lambda f: _edit_index(f, schema=2),
        "schema 2 is not 1 .hint: a newer trainer",
    ),
    "other schema": (lambda f: _edit_index(f, schema="1"), "schema '1' is not 1 .hint: prepare"),
    "edited": (lambda f: _edit_index(f, vocab_size=63), "fingerprint .* is not that of its shards"),
    "climbs": (lambda f: _edit_index(f, shards=[CLIMBING]), "leads out of the dataset's folder"),
    "no index": (lambda f: (f / "index.json").write_text("{"), "is not a dataset index"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_dataset_is_refused_with_a_hint(tmp_path: Path, damage: str) -> None:
    write_dataset(tmp_path, [1, 2] * 100, 64, shard_tokens=100)
    _open(tmp_path)
    break_it, words = DAMAGE[damage]
    break_it(tmp_path)
    with pytest.raises(DataError, match=words) as caught:
        _open(tmp_path)
    assert "hint: " in str(caught.value)
    assert "http" not in str(caught.value)


def test_too_few_tokens_and_too_small_a_vocabulary(tmp_path: Path) -> None:
    write_dataset(tmp_path, [1] * 20, 64, shard_tokens=100)
    with pytest.raises(DataError, match=r"20 tokens are too few.*32"):
        _open(tmp_path)
    with pytest.raises(DataError, match=r"vocabulary of 64.*model has 32.*vocab_size to 64"):
        Samples([Dataset(tmp_path)], 8, seed=0, vocab_size=32, global_batch=1)
    write_dataset(tmp_path, [70] * 40, 64, shard_tokens=100)
    with pytest.raises(DataError, match="token 70"):
        Samples([Dataset(tmp_path)], 8, seed=0, vocab_size=64, global_batch=1).batch([0])


def test_prepare_is_deterministic_and_reads_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tokenizers import Tokenizer

    source = tmp_path / "source"
    source.mkdir()
    texts = [f"def f{i}(x):\n    return x + {i}\n" for i in range(30)]
    for i, text in enumerate(texts):
        (source / f"{i:03d}.py").write_text(text)
    (source / "tests").mkdir()
    (source / "tests" / "skipped.py").write_text("never")
    summaries = []
    for out in ("a", "b"):
        arguments = [
            "--source",
            str(source),
            "--out",
            str(tmp_path / out),
            "--vocab-size",
            "300",
            "--json",
        ]
        assert prepare_main(arguments) == 0
        summaries.append(json.loads(capsys.readouterr().out))
    assert summaries[0]["fingerprint"] == summaries[1]["fingerprint"]
    assert summaries[0]["files"] == 30
    dataset = Dataset(tmp_path / "a")
    tokens = dataset.window(0, dataset.index.total_tokens).tolist()
    tokenizer = Tokenizer.from_file(str(tmp_path / "a" / "tokenizer.json"))
    assert tokenizer.decode(tokens) == "".join(texts)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--vocab-size", "-5"], "from 257"),
        (["--vocab-size", "0"], "from 257"),
        (["--limit-mb", "nan"], "no number above 0"),
        (["--shard-tokens", "0"], "from 1"),
        (["--folders", "0"], "from 1 to 256"),
        (["--out", "s3://bucket/data"], "aws s3 cp"),
    ],
)
def test_prepare_refuses_what_makes_no_dataset(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        prepare_main(["--out", str(tmp_path / "o"), *arguments])
    assert said in capsys.readouterr().err


def test_prepare_says_where_it_cannot_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.py").write_text("pass\n" * 99)
    taken = tmp_path / "a.py"
    arguments = ["--source", str(tmp_path), "--vocab-size", "257", "--out"]
    for out in (taken, taken / "below"):
        assert prepare_main([*arguments, str(out)]) == 1
        assert f"cannot write {out}" in capsys.readouterr().err


def test_prepare_without_text_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prepare_main(["--source", str(tmp_path), "--out", str(tmp_path / "o")]) == 1
    assert "hint: " in capsys.readouterr().err
