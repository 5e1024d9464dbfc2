"""The batch that belongs to a position.

The samples of a dataset are the windows of ``sequence_length + 1`` tokens that start every
``sequence_length`` tokens of its concatenated shards. ``position`` counts samples taken by the
whole job since its first step; batch = f(seed, position), so no rank keeps a data state and any
number of ranks sees the same global batch. ``trainer.order`` says which sample is where.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.errors import DataError
from trainer.order import ORDER_VERSION, Interleave, Source, Windows, longest_run
from trainer.shards import Dataset, TokenSource

__all__ = ["Batch", "Dataset", "Samples", "rank_positions"]

RUN_TOKENS = 1 << 17
"""Tokens that are read in one go, 256 KiB of uint16: what a GET of S3 is worth."""
PLANNED_STEPS = 24
"""Steps whose samples are located at once, at least: one step's alone costs as much."""


@dataclass(frozen=True)
class Batch:
    """One data rank's part of a global batch. Inputs are ``tokens[:, :-1]``, targets
    ``tokens[:, 1:]``.

    ``positions`` and ``documents`` are of the inputs, and None where documents are not told
    apart (``data.document_separator`` is null): then a window is one document. A separator is
    the last token of the document that it ends. Every target counts: a separator's as well
    (the next document's first token), so that each batch has the same number of them.
    """

    tokens: NDArray[np.int64]
    """(samples, length + 1)"""
    positions: NDArray[np.int64] | None = None
    """(samples, length): a token's place in its document, from 0; a window starts at 0."""
    documents: NDArray[np.int64] | None = None
    """(samples, length): a document's number in its window, from 0. Attend to equals only."""


class Samples:
    """The seeded, endless sequence of samples of one dataset, or of several by weight."""

    def __init__(
        self,
        datasets: Sequence[TokenSource],
        sequence_length: int,
        seed: int,
        vocab_size: int,
        global_batch: int,
        weights: Sequence[float] | None = None,
        separator: int | None = None,
    ) -> None:
        """``weights``: one a dataset, share of the samples; None for one dataset alone.

        Raises ``DataError`` where a dataset is too small or its vocabulary too large.
        """
        self.datasets, self.length, self.seed = list(datasets), sequence_length, seed
        self.vocab_size, self.global_batch, self.separator = vocab_size, global_batch, separator
        self.weights = list(weights) if weights is not None else None
        counts = [self._windows_of(dataset) for dataset in datasets]
        self.count = sum(counts)
        """Samples an epoch of every dataset."""
        run = longest_run(self.count, global_batch, max(1, RUN_TOKENS // sequence_length))
        self._order = Interleave(self.weights or [1.0], global_batch, run)
        self._sources = [
            Source(count, seed, number, global_batch, run) for number, count in enumerate(counts)
        ]
        self._plan: _Plan | None = None

    @property
    def run(self) -> int:
        """Samples of one dataset that are read in one go (see ``trainer.order``)."""
        return self._order.run

    @property
    def identity(self) -> dict[str, object]:
        """What must stay as it is within a run, for the data to be the same."""
        return {
            "dataset": self.fingerprint,
            "order": ORDER_VERSION,
            "document_separator": self.separator,
        }

    @property
    def fingerprint(self) -> str:
        """That of the dataset; of a mixture: over all of them and their weights, in order."""
        prints = [dataset.index.fingerprint for dataset in self.datasets]
        if self.weights is None:
            return prints[0]
        parts = list(zip(prints, self.weights, strict=True))
        return sha256(json.dumps(parts).encode()).hexdigest()

    def sample(self, position: int) -> tuple[int, int]:
        """(number of the dataset, window of it) at a global position."""
        source, windows = self._locate(np.array([position]))
        return int(source[0]), int(windows.window[0])

    def batch(self, positions: Sequence[int]) -> Batch:
        """The samples at global positions, in their order."""
        source, windows = self._planned(positions)
        tokens = self._gather(source, windows, positions)
        if self.separator is None:
            return Batch(tokens)
        return Batch(tokens, *documents_of(tokens, self.separator))

    def close(self) -> None:
        """Ends what reads ahead."""
        for dataset in self.datasets:
            dataset.close()

    def _windows_of(self, dataset: TokenSource) -> int:
        index = dataset.index
        count = (index.total_tokens - 1) // self.length
        if count < 1:
            raise DataError(
                f"{dataset.name}: {index.total_tokens} tokens are too few for one "
                f"sequence of {self.length}",
                "lower train.sequence_length, or prepare more data",
            )
        if index.vocab_size > self.vocab_size:
            raise DataError(
                f"{dataset.name}: vocabulary of {index.vocab_size} tokens, but the "
                f"model has {self.vocab_size}",
                f"set model.vocab_size to {index.vocab_size} or more",
            )
        return count

    def _locate(self, positions: NDArray[np.int64]) -> tuple[NDArray[np.int64], Windows]:
        number, places = self._order(positions)
        if len(self._sources) == 1:
            return number, self._sources[0].windows(places)
        whole = np.empty((3, len(positions)), dtype=np.int64)
        for i, source in enumerate(self._sources):
            chosen = number == i
            found = source.windows(places[chosen])
            whole[:, chosen] = found.window, found.first, found.size
        return number, Windows(*whole)

    def _planned(self, positions: Sequence[int]) -> tuple[NDArray[np.int64], Windows]:
        """The same as ``_locate``, for many coming steps of the same rank at once; and what
        they read is announced to the datasets."""
        if not isinstance(positions, range) or positions.step != 1 or not positions:
            return self._locate(np.asarray(positions, dtype=np.int64))
        first, share = positions.start, len(positions)
        plan = self._plan
        if plan is None or not plan.holds(first, share, self.global_batch):
            steps = max(PLANNED_STEPS, 2 * self.run)
            rows = np.arange(steps)[:, None] * self.global_batch + np.arange(share) + first
            plan = self._plan = _Plan(first, share, steps, *self._locate(rows.ravel()))
            self._announce(plan)
        return plan.step((first - plan.first) // self.global_batch)

    def _announce(self, plan: "_Plan") -> None:
        for i, dataset in enumerate(self.datasets):
            spans = self._spans(plan.windows[plan.source == i])
            _, order = np.unique(spans[:, 0], return_index=True)
            dataset.expect(spans[np.sort(order)])

    def _spans(self, windows: Windows) -> NDArray[np.int64]:
        start = windows.first * self.length
        return np.stack([start, start + windows.size * self.length + 1], axis=1)

    def _gather(
        self, source: NDArray[np.int64], windows: Windows, positions: Sequence[int]
    ) -> NDArray[np.int64]:
        tokens = np.empty((len(source), self.length + 1), dtype=np.int64)
        for i, dataset in enumerate(self.datasets):
            chosen: Any = slice(None)
            mine = windows
            if len(self.datasets) > 1:
                chosen = source == i
                mine = windows[chosen]
            if not len(mine.window):
                continue
            rows = dataset.gather(mine.window * self.length, self.length + 1, self._spans(mine))
            if (top := int(rows.max())) >= self.vocab_size:
                raise DataError(
                    f"{dataset.name}: token {top} at position {positions[0]} or after, but the "
                    f"vocabulary has {self.vocab_size}",
                    "prepare the dataset again",
                )
            tokens[chosen] = rows
        return tokens


@dataclass(frozen=True)
class _Plan:
    """Samples of one rank's share of ``steps`` global batches, the first at ``first``."""

    first: int
    share: int
    steps: int
    source: NDArray[np.int64]
    windows: Windows

    def holds(self, first: int, share: int, global_batch: int) -> bool:
        """And so far from its end that what comes next is still read ahead."""
        step, off = divmod(first - self.first, global_batch)
        return share == self.share and not off and 0 <= step < self.steps - self.steps // 4

    def step(self, number: int) -> tuple[NDArray[np.int64], Windows]:
        part = slice(number * self.share, (number + 1) * self.share)
        found = self.windows
        return self.source[part], Windows(found.window[part], found.first[part], found.size[part])


def rank_positions(position: int, global_batch: int, rank: int, ranks: int) -> range:
    """The part of the global batch at ``position`` that data rank ``rank`` of ``ranks`` takes."""
    share = global_batch // ranks
    return range(position + rank * share, position + (rank + 1) * share)


def documents_of(
    tokens: NDArray[np.int64], separator: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """``positions`` and ``documents`` of a ``Batch``: see there. Both (samples, length)."""
    samples, length = len(tokens), tokens.shape[1] - 1
    ends = np.flatnonzero(tokens[:, :-1] == separator)
    windows = np.arange(0, samples * length, length)
    # a document begins with each window and behind each separator that does not end one
    begins = np.sort(np.concatenate([windows, ends[(ends + 1) % length != 0] + 1]))
    sizes = np.diff(begins, append=samples * length)
    numbers = np.arange(len(begins)) - np.searchsorted(begins, begins - begins % length)
    start = np.repeat(begins, sizes)
    positions = np.subtract(np.arange(samples * length), start, out=start)
    shape = (samples, length)
    return positions.reshape(shape), np.repeat(numbers, sizes).reshape(shape)
