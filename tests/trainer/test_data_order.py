"""The order of the samples: each once an epoch, the same for any ranks, far positions for free."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.data import Dataset, Samples, rank_positions
from trainer.order import SHARES, Interleave, Order, Source, longest_run
from trainer.prepare import write_dataset


def _all(count: int, key: str) -> list[int]:
    return Order(count, key)(np.arange(count)).tolist()


@settings(max_examples=60, deadline=None)
@given(count=st.integers(1, 700), key=st.text(max_size=9))
def test_an_epoch_is_a_permutation(count: int, key: str) -> None:
    assert sorted(_all(count, key)) == list(range(count))


def test_keys_differ_and_do_not_run_in_order() -> None:
    one = _all(1000, "0/0/0")
    assert one != _all(1000, "0/0/1")
    assert one != _all(1000, "1/0/0")
    assert one == _all(1000, "0/0/0")
    assert abs(np.corrcoef(one[:-1], one[1:])[0, 1]) < 0.1
    assert (np.abs(np.diff(one)) < 5).mean() < 0.05


def test_one_place_at_a_time_is_the_same_as_all_at_once() -> None:
    order = Order(10**12, "3")
    places = np.array([0, 1, 5 * 10**11, 10**12 - 1])
    whole = order(places).tolist()
    assert len(set(whole)) == 4
    assert [int(order(places[i : i + 1])[0]) for i in range(4)] == whole


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(1, 400),
    lanes=st.integers(1, 4),
    run=st.integers(1, 40),
    seed=st.integers(0, 9),
)
def test_a_source_gives_each_window_once_an_epoch(
    count: int, lanes: int, run: int, seed: int
) -> None:
    source = Source(count, seed, 0, lanes, run)
    for epoch in (0, 1, 7):
        found = source.windows(np.arange(epoch * count, (epoch + 1) * count))
        assert sorted(found.window.tolist()) == list(range(count))
        # what is read in one go holds the window, and is of the corpus
        assert (found.first <= found.window).all()
        assert (found.window < found.first + found.size).all()
        assert (found.first >= 0).all()
        assert (found.first + found.size <= count).all()


def test_what_is_read_in_one_go_is_each_window_once() -> None:
    source = Source(10_007, seed=0, number=0, lanes=4, run=16)
    places = np.arange(3 * 10_007, 4 * 10_007)
    found = source.windows(places)
    pieces = set(zip(found.first.tolist(), found.size.tolist(), strict=True))
    covered = [window for first, size in pieces for window in range(first, first + size)]
    assert sorted(covered) == list(range(10_007))
    assert len(pieces) < 2 * 10_007 / 16 + 4


@settings(max_examples=60, deadline=None)
@given(
    weights=st.lists(st.floats(0.01, 10), min_size=1, max_size=6),
    lanes=st.integers(1, 9),
    run=st.integers(1, 9),
)
def test_each_place_of_each_source_once_and_by_weight(
    weights: list[float], lanes: int, run: int
) -> None:
    order = Interleave(weights, lanes, run)
    blocks = 50
    source, place = order(np.arange(blocks * lanes * run))
    for number, weight in enumerate(weights):
        taken = place[source == number]
        assert sorted(taken.tolist()) == list(range(len(taken)))
        ideal = blocks * lanes * weight / sum(weights)
        assert abs(len(taken) / run - ideal) <= len(weights)


def test_weights_are_kept_exactly_over_a_cycle() -> None:
    source, _ = Interleave([7, 2, 1], 4, 1)(np.arange(3 * SHARES))
    assert np.bincount(source).tolist() == [3 * 7000, 3 * 2000, 3 * 1000]
    # and evenly: ten in a row are never far from 7, 2, 1
    tens = np.array([np.bincount(t, minlength=3) for t in source.reshape(-1, 10)])
    assert (np.abs(tens - [7, 2, 1]) <= 1).all()


def test_the_samples_of_a_batch_come_from_all_over_the_corpus() -> None:
    lanes, run = 64, 16
    count = 10**6
    source = Source(count, 0, 0, lanes, run)
    _, places = Interleave([1.0], lanes, run)(np.arange(5 * lanes, 6 * lanes))
    found = source.windows(places).window
    assert len(set((found // run).tolist())) == lanes
    assert np.histogram(found, bins=8, range=(0, count))[0].min() > 0


def test_a_rank_reads_runs_that_no_other_rank_reads() -> None:
    count, batch, ranks = 300_000, 32, 4
    run = longest_run(count, batch, 64)
    assert run == 64
    source, order = Source(count, 0, 0, batch, run), Interleave([1.0], batch, run)
    epoch = count // (run * batch) * run
    runs: list[set[int]] = []
    for rank in range(ranks):
        steps = [rank_positions(step * batch, batch, rank, ranks) for step in range(epoch)]
        runs.append(set((source.windows(order(np.array(steps).ravel())[1]).first).tolist()))
    assert sum(map(len, runs)) == len(set.union(*runs)) == epoch * batch // run


def test_in_a_small_dataset_every_window_is_on_its_own() -> None:
    assert longest_run(1000, 16, 32) == 1


@settings(max_examples=50, deadline=None)
@given(ranks=st.sampled_from([1, 2, 3, 4, 6, 12]), step=st.integers(0, 1000))
def test_every_number_of_ranks_sees_the_same_positions(ranks: int, step: int) -> None:
    taken = [p for rank in range(ranks) for p in rank_positions(step * 12, 12, rank, ranks)]
    assert taken == list(range(step * 12, step * 12 + 12))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[Dataset]:
    """Two datasets that no token tells wrong: 0 … 39,999 and 40,000 … 49,999."""
    folder = tmp_path_factory.mktemp("two")
    write_dataset(folder / "a", range(40_001), 50_000, shard_tokens=9_000)
    write_dataset(folder / "b", range(40_000, 50_000), 50_000, shard_tokens=9_000)
    return [Dataset(folder / "a"), Dataset(folder / "b")]


def _mixture(two: list[Dataset], separator: int | None = None) -> Samples:
    return Samples(two, 8, 5, 50_000, 4, weights=[3, 1], separator=separator)


def test_resumed_on_other_ranks_in_any_epoch_the_batches_are_the_same(two: list[Dataset]) -> None:
    """A rank that dies with its position, data that start anew, epochs cut to their tail."""
    unbroken = _mixture(two)
    assert unbroken.run > 1
    steps = 3 * unbroken.count // 4
    wanted = [unbroken.batch(range(4 * step, 4 * step + 4)).tokens for step in range(steps)]
    for start, ranks in ((0, 4), (7, 2), (steps // 2, 1), (steps - 40, 4)):
        fresh = [_mixture(two) for _ in range(ranks)]  # no state but the position
        for step in range(start, min(steps, start + 60)):
            parts = [
                fresh[rank].batch(rank_positions(4 * step, 4, rank, ranks)).tokens
                for rank in range(ranks)
            ]
            assert (np.concatenate(parts) == wanted[step]).all()


def test_after_a_resume_inside_an_epoch_the_later_epochs_are_whole(two: list[Dataset]) -> None:
    def fresh() -> Samples:
        return Samples(two[:1], 8, 5, 50_000, 4)

    before, after = fresh(), fresh()
    assert before.run > 1
    resumed, block = before.count // 3 // 4 * 4, 4 * before.run
    end = -(-3 * before.count // block) * block  # the block in which the third epoch ends
    seen = np.zeros(before.count, dtype=int)
    for position in range(0, end, 4):
        samples = before if position < resumed else after
        seen[samples.batch(range(position, position + 4)).tokens[:, 0] // 8] += 1
    assert (seen >= 3).all()
    assert seen.sum() == end
    assert seen.max() <= 4


def test_each_source_has_its_own_epochs(two: list[Dataset]) -> None:
    samples = _mixture(two)
    positions = range(16 * samples.count // 4 * 4)
    taken = [samples.batch(range(p, p + 4)).tokens for p in positions[::4]]
    first = np.concatenate(taken)[:, 0]
    from_b = first >= 40_000
    assert from_b.mean() == pytest.approx(1 / 4, abs=0.01)
    # the small one has been seen more often, each window of it as often as any other
    for rows, count in ((first[~from_b], 5_000), (first[from_b], 1_249)):
        seen = np.unique(rows, return_counts=True)[1]
        assert len(seen) == count
        assert seen.max() - seen.min() <= 2


def test_a_mixtures_fingerprint_is_over_all_of_it(two: list[Dataset]) -> None:
    prints = {
        Samples(two, 8, 5, 50_000, 4, weights=[3, 1]).fingerprint,
        Samples(two, 8, 5, 50_000, 4, weights=[1, 3]).fingerprint,
        Samples(two[::-1], 8, 5, 50_000, 4, weights=[3, 1]).fingerprint,
        Samples(two[:1], 8, 5, 50_000, 4).fingerprint,
        Samples(two[1:], 8, 5, 50_000, 4).fingerprint,
    }
    assert len(prints) == 5


def test_a_far_position_costs_no_more(two: list[Dataset]) -> None:
    def seconds(position: int) -> float:
        samples = _mixture(two)
        began = time.process_time()
        samples.batch(range(position, position + 4))
        return time.process_time() - began

    near = min(seconds(0) for _ in range(5))
    far = min(seconds(4 * 10**12) for _ in range(5))
    assert far < 5 * near + 0.01
