"""The dataset on disk, and the batch that belongs to a position.

A dataset is a folder: ``index.json`` and raw little-endian token shards. The samples are the
windows of ``sequence_length + 1`` tokens that start every ``sequence_length`` tokens of the
concatenated shards. ``position`` counts samples taken by the whole job since its first step;
batch = f(seed, position), so no rank keeps a data state and any number of ranks sees the same
global batch.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from trainer.errors import DataError
from trainer.order import Order

INDEX_NAME = "index.json"
HASHED_UP_TO = 256 * 1024 * 1024
"""Datasets up to this many bytes are hashed when opened; larger ones are checked by size."""


class Shard(BaseModel):
    model_config = ConfigDict(frozen=True)

    file: str
    tokens: int
    sha256: str


class Index(BaseModel):
    """``index.json``. ``schema_version`` is spelled ``schema`` in the file."""

    model_config = ConfigDict(frozen=True)

    dtype: Literal["uint16", "uint32"]
    vocab_size: int
    total_tokens: int
    shards: list[Shard]
    fingerprint: str

    def computed_fingerprint(self) -> str:
        """SHA-256 over what the tokens are: type and the shards' hashes, in order."""
        parts = [self.dtype, str(self.vocab_size), *(shard.sha256 for shard in self.shards)]
        return sha256("\n".join(parts).encode()).hexdigest()


class Dataset:
    """Memory-mapped shards. Opening checks them; see the errors for what is checked."""

    def __init__(self, folder: Path, *, verify: bool = True) -> None:
        """``verify=False`` leaves out the hashes (ranks that need not repeat the work)."""
        self.folder = folder
        self.index = _read_index(folder)
        dtype = np.dtype(self.index.dtype).newbyteorder("<")
        self._maps: list[NDArray[np.generic]] = []
        hashed = verify and self.index.total_tokens * dtype.itemsize <= HASHED_UP_TO
        for shard in self.index.shards:
            path = folder / shard.file
            _check_shard(path, shard, dtype.itemsize, hashed)
            self._maps.append(np.memmap(path, dtype=dtype, mode="r"))
        self._starts = np.cumsum([0, *(shard.tokens for shard in self.index.shards)])

    @property
    def fingerprint(self) -> str:
        return self.index.fingerprint

    def window(self, start: int, length: int) -> NDArray[np.int64]:
        """``length`` tokens from token ``start`` on, across shards. Shape (length,)."""
        parts = []
        shard = int(np.searchsorted(self._starts, start, side="right")) - 1
        while length > 0:
            offset = start - int(self._starts[shard])
            part = self._maps[shard][offset : offset + length]
            parts.append(part.astype(np.int64))
            start, length, shard = start + len(part), length - len(part), shard + 1
        return np.concatenate(parts) if len(parts) > 1 else parts[0]


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
    """The seeded, endless sequence of windows of one dataset."""

    def __init__(self, dataset: Dataset, sequence_length: int, seed: int, vocab_size: int) -> None:
        self.dataset = dataset
        self.length = sequence_length
        self.seed = seed
        self.vocab_size = vocab_size
        self.count = (dataset.index.total_tokens - 1) // sequence_length
        """Samples an epoch."""
        if self.count < 1:
            raise DataError(
                f"{dataset.folder}: {dataset.index.total_tokens} tokens are too few for one "
                f"sequence of {sequence_length}",
                "lower train.sequence_length, or prepare more data",
            )
        if dataset.index.vocab_size > vocab_size:
            raise DataError(
                f"{dataset.folder}: vocabulary of {dataset.index.vocab_size} tokens, but the "
                f"model has {vocab_size}",
                f"set model.vocab_size to {dataset.index.vocab_size} or more",
            )
        self._order: tuple[int, Order] | None = None

    def sample(self, position: int) -> int:
        """Index of the window at a global position; each window once an epoch."""
        epoch, place = divmod(position, self.count)
        if self._order is None or self._order[0] != epoch:
            self._order = (epoch, Order(self.count, self.seed, epoch))
        return self._order[1][place]

    def batch(self, positions: Sequence[int]) -> Batch:
        """The samples at global positions, in their order."""
        rows = [
            self.dataset.window(self.sample(p) * self.length, self.length + 1) for p in positions
        ]
        tokens = np.stack(rows)
        if (top := int(tokens.max())) >= self.vocab_size:
            raise DataError(
                f"{self.dataset.folder}: token {top} at position {positions[0]} or after, but the "
                f"vocabulary has {self.vocab_size}",
                "prepare the dataset again",
            )
        return Batch(tokens)


def rank_positions(position: int, global_batch: int, rank: int, ranks: int) -> range:
    """The part of the global batch at ``position`` that data rank ``rank`` of ``ranks`` takes."""
    share = global_batch // ranks
    return range(position + rank * share, position + (rank + 1) * share)


def _read_index(folder: Path) -> Index:
    path = folder / INDEX_NAME
    try:
        raw = json.loads(path.read_text())
        if raw.get("schema") != 1:
            raise DataError(
                f"{path}: schema {raw.get('schema')!r} is not 1",
                "prepare the dataset with this version's trainer.prepare",
            )
        index = Index.model_validate({k: v for k, v in raw.items() if k != "schema"})
    except FileNotFoundError:
        raise DataError(
            f"no dataset at {folder}: {INDEX_NAME} is missing",
            "python -m trainer.prepare --out FOLDER makes one; data.path or the channel "
            "'training' says where it is",
        ) from None
    except (ValueError, AttributeError, ValidationError) as error:
        raise DataError(f"{path} is not a dataset index: {error}", "prepare it again") from error
    held = sum(shard.tokens for shard in index.shards)
    if held != index.total_tokens:
        raise DataError(
            f"{path}: total_tokens {index.total_tokens} but its shards hold {held}",
            "prepare it again",
        )
    return index


def _check_shard(path: Path, shard: Shard, itemsize: int, hashed: bool) -> None:
    wanted = shard.tokens * itemsize
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise DataError(f"{path}: shard is missing", "copy the whole dataset folder") from None
    if size != wanted:
        what = "truncated" if size < wanted else "longer than its index says"
        raise DataError(
            f"{path}: shard is {what} ({size} bytes, {wanted} by {shard.tokens} tokens)",
            "copy it again, or prepare the dataset again",
        )
    if hashed and (found := sha256(path.read_bytes()).hexdigest()) != shard.sha256:
        raise DataError(
            f"{path}: foreign shard (sha256 {found[:12]}…, index says {shard.sha256[:12]}…)",
            "index.json and its shards must come from one preparation",
        )
