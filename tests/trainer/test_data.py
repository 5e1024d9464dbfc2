"""Batches are a pure function of (seed, position); datasets are checked when opened."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.data import Dataset, Samples, rank_positions
from trainer.errors import DataError
from trainer.order import Order
from trainer.prepare import main as prepare_main
from trainer.prepare import write_dataset


@settings(max_examples=60, deadline=None)
@given(count=st.integers(1, 700), seed=st.integers(0, 2**40), epoch=st.integers(0, 50))
def test_an_epoch_is_a_permutation(count: int, seed: int, epoch: int) -> None:
    order = Order(count, seed, epoch)
    assert sorted(order[i] for i in range(count)) == list(range(count))


def test_epochs_and_seeds_differ_and_do_not_run_in_order() -> None:
    def places(seed: int, epoch: int) -> list[int]:
        return [Order(1000, seed, epoch)[i] for i in range(1000)]

    one = places(0, 0)
    assert one != places(0, 1)
    assert one != places(1, 0)
    assert one == places(0, 0)
    steps = np.diff(one)
    assert abs(np.corrcoef(one[:-1], one[1:])[0, 1]) < 0.1
    assert (np.abs(steps) < 5).mean() < 0.05


def test_a_far_position_costs_no_more() -> None:
    order = Order(10**12, 3, 0)
    assert len({order[i] for i in (0, 1, 10**12 - 1, 5 * 10**11)}) == 4


@settings(max_examples=50, deadline=None)
@given(ranks=st.sampled_from([1, 2, 3, 4, 6, 12]), step=st.integers(0, 1000))
def test_every_number_of_ranks_sees_the_same_global_batch(ranks: int, step: int) -> None:
    taken = [p for rank in range(ranks) for p in rank_positions(step * 12, 12, rank, ranks)]
    assert taken == list(range(step * 12, step * 12 + 12))


def test_no_window_twice_and_none_lost(dataset: Path) -> None:
    samples = Samples(Dataset(dataset), 32, seed=5, vocab_size=64)
    for epoch in range(2):
        taken = [samples.sample(epoch * samples.count + i) for i in range(samples.count)]
        assert sorted(taken) == list(range(samples.count))


def test_windows_across_shards_are_the_tokens(tmp_path: Path) -> None:
    tokens = list(range(100))
    write_dataset(tmp_path, tokens, 100, shard_tokens=7)
    samples = Samples(Dataset(tmp_path), 10, seed=0, vocab_size=100)
    assert samples.count == 9
    rows = samples.batch(range(9)).tokens
    assert rows.shape == (9, 11)
    assert sorted(rows[:, 0]) == list(range(0, 90, 10))
    assert all((np.diff(row) == 1).all() for row in rows)


def _open(folder: Path) -> None:
    Samples(Dataset(folder), 32, seed=0, vocab_size=64)


def _edit_index(folder: Path, **changes: object) -> None:
    path = folder / "index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


DAMAGE = {
    "no dataset": (lambda f: (f / "index.json").unlink(), "no dataset at"),
    "missing": (lambda f: (f / "shard-00001.bin").unlink(), "shard is missing"),
    "truncated": (lambda f: _truncate(f / "shard-00001.bin"), "shard is truncated"),
    "foreign": (lambda f: (f / "shard-00000.bin").write_bytes(bytes(200)), "foreign shard"),
    "wrong total": (lambda f: _edit_index(f, total_tokens=99), "its shards hold 200"),
    "other schema": (lambda f: _edit_index(f, schema=2), "schema 2 is not 1"),
    "no index": (lambda f: (f / "index.json").write_text("{"), "is not a dataset index"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_dataset_is_refused_with_a_hint(tmp_path: Path, damage: str) -> None:
    write_dataset(tmp_path, [1, 2] * 100, 64, shard_tokens=100)
    _open(tmp_path)
    break_it, words = DAMAGE[damage]
    break_it(tmp_path)
    with pytest.raises(DataError, match=f"{words}.*hint: "):
        _open(tmp_path)


def test_too_few_tokens_and_too_small_a_vocabulary(tmp_path: Path) -> None:
    write_dataset(tmp_path, [1] * 20, 64, shard_tokens=100)
    with pytest.raises(DataError, match=r"20 tokens are too few.*32"):
        _open(tmp_path)
    with pytest.raises(DataError, match=r"vocabulary of 64.*model has 32.*vocab_size to 64"):
        Samples(Dataset(tmp_path), 8, seed=0, vocab_size=32)
    write_dataset(tmp_path, [70] * 40, 64, shard_tokens=100)
    with pytest.raises(DataError, match="token 70"):
        Samples(Dataset(tmp_path), 8, seed=0, vocab_size=64).batch([0])


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


def test_prepare_without_text_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prepare_main(["--source", str(tmp_path), "--out", str(tmp_path / "o")]) == 1
    assert "hint: " in capsys.readouterr().err
