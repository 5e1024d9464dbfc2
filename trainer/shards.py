"""A dataset on disk: ``index.json`` and raw little-endian token shards.

Reading is the same for every place that a dataset may lie in (``TokenSource``); here is the one
for folders: File mode, FastFile, FSx for Lustre, a local disk.
"""

import json
import mmap
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from trainer.errors import DataError
from trainer.store import hash_file

INDEX_NAME = "index.json"
SCHEMA = 1
HASHED_UP_TO = 256 * 1024 * 1024
"""Datasets up to this many bytes are hashed when opened; larger ones are checked by size."""
MISSING = "copy the whole dataset folder"

Spans = NDArray[np.int64]
"""Shape (n, 2): tokens [start, stop) of the concatenated shards."""


class Shard(BaseModel):
    model_config = ConfigDict(frozen=True)

    file: str
    """Path below the dataset's folder. Folders spread the load over S3's partitions."""
    tokens: int
    sha256: str

    @field_validator("file")
    @classmethod
    def _stays_below(cls, value: str) -> str:
        path = PurePosixPath(value)
        if path.is_absolute() or ".." in path.parts:
            raise ValueError(f"{value!r} leads out of the dataset's folder")
        return value


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

    @property
    def stored(self) -> np.dtype[Any]:
        """The type of a token in the shards."""
        return np.dtype(self.dtype).newbyteorder("<")

    @property
    def starts(self) -> NDArray[np.int64]:
        """The first token of each shard, and the total. Shape (shards + 1,)."""
        return np.cumsum([0, *(shard.tokens for shard in self.shards)], dtype=np.int64)

    @property
    def hashed(self) -> bool:
        """Small enough to be read whole when it is opened."""
        return self.total_tokens * self.stored.itemsize <= HASHED_UP_TO


class TokenSource(Protocol):
    """One dataset, wherever it lies. Errors: ``DataError``, with what and where."""

    name: str
    index: Index

    def gather(self, starts: NDArray[np.int64], length: int, spans: Spans) -> NDArray[Any]:
        """``length`` tokens from each of ``starts``, as stored: shape (n, length).

        ``spans``: for each row what is worth reading in one go around it.
        """

    def expect(self, spans: Spans) -> None:
        """Spans that are read now or soon; others may be forgotten."""

    def close(self) -> None:
        """Ends what works in the background."""


class Dataset:
    """A folder's shards, memory-mapped. Opening checks them."""

    def __init__(self, folder: Path, *, verify: bool = True) -> None:
        """``verify=False`` leaves out the hashes (ranks that need not repeat the work)."""
        self.folder, self.name = folder, str(folder)
        try:
            raw = (folder / INDEX_NAME).read_bytes()
        except FileNotFoundError:
            raise no_dataset(self.name) from None
        self.index = parse_index(raw, self.name)
        self._starts = self.index.starts
        self._maps: list[NDArray[Any] | None] = [None] * len(self.index.shards)
        self._files: list[mmap.mmap | None] = [None] * len(self.index.shards)
        for shard in self.index.shards:
            _check_shard(folder / shard.file, shard, self.index, verify and self.index.hashed)

    @property
    def fingerprint(self) -> str:
        return self.index.fingerprint

    def gather(self, starts: NDArray[np.int64], length: int, spans: Spans) -> NDArray[Any]:
        shards = np.searchsorted(self._starts, starts, side="right") - 1
        offsets = starts - self._starts[shards]
        whole = starts + length <= self._starts[shards + 1]
        if len(starts) and whole.all() and (shards == shards[0]).all():
            tokens = self._map(int(shards[0]))
            every = (len(tokens) - length + 1, length)  # the window from each token on
            return np.ndarray(every, tokens.dtype, tokens, 0, 2 * tokens.strides)[offsets]
        rows = np.empty((len(starts), length), dtype=self.index.stored)
        for row, (shard, offset, fits) in enumerate(
            zip(shards.tolist(), offsets.tolist(), whole.tolist(), strict=True)
        ):
            if fits:
                rows[row] = self._map(shard)[offset : offset + length]
            else:
                rows[row] = self.window(int(starts[row]), length)
        return rows

    def expect(self, spans: Spans) -> None:
        """Asks the kernel for whole spans: a file system over a network otherwise sees a small
        read a page fault. Small datasets are in memory after they were hashed."""
        if self.index.hashed:
            return
        itemsize = self.index.stored.itemsize
        for start, stop in spans.tolist():
            shard = int(np.searchsorted(self._starts, start, side="right")) - 1
            self._map(shard)
            file = self._files[shard]
            assert file is not None
            offset = (start - int(self._starts[shard])) * itemsize
            first = offset - offset % mmap.PAGESIZE
            size = min(len(file), offset + (stop - start) * itemsize) - first
            file.madvise(mmap.MADV_WILLNEED, first, size)

    def close(self) -> None:
        """Nothing does; the maps end with the object."""

    def window(self, start: int, length: int) -> NDArray[Any]:
        """``length`` tokens from token ``start`` on, across shards. Shape (length,)."""
        parts = []
        shard = int(np.searchsorted(self._starts, start, side="right")) - 1
        while length > 0:
            offset = start - int(self._starts[shard])
            part = self._map(shard)[offset : offset + length]
            parts.append(part)
            start, length, shard = start + len(part), length - len(part), shard + 1
        return np.concatenate(parts)

    def _map(self, shard: int) -> NDArray[Any]:
        if (tokens := self._maps[shard]) is None:
            path = self.folder / self.index.shards[shard].file
            with path.open("rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._files[shard] = mapped
            # not np.memmap: each slice of that is a slow subclass
            tokens = self._maps[shard] = np.frombuffer(mapped, dtype=self.index.stored)
        return tokens


def parse_index(raw: bytes, where: str) -> Index:
    """The index of the dataset at ``where``. Raises ``DataError``."""
    name = f"{where}/{INDEX_NAME}"
    try:
        loaded = json.loads(raw)
        schema = loaded.get("schema")
        if schema != SCHEMA:
            newer = isinstance(schema, int) and schema > SCHEMA
            raise DataError(
                f"{name}: schema {schema!r} is not {SCHEMA}",
                "a newer trainer made it: use that trainer's image"
                if newer
                else "prepare the dataset with this version's trainer.prepare",
            )
        index = Index.model_validate({k: v for k, v in loaded.items() if k != "schema"})
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_url=False)
        )
        raise DataError(f"{name} is not a dataset index: {wrong}", "prepare it again") from error
    except (ValueError, AttributeError) as error:
        raise DataError(f"{name} is not a dataset index: {error}", "prepare it again") from error
    held = sum(shard.tokens for shard in index.shards)
    if held != index.total_tokens:
        raise DataError(
            f"{name}: total_tokens {index.total_tokens} but its shards hold {held}",
            "prepare it again",
        )
    if index.fingerprint != (computed := index.computed_fingerprint()):
        raise DataError(
            f"{name}: fingerprint {index.fingerprint[:12]}… is not that of its shards "
            f"({computed[:12]}…)",
            "it was edited by hand: prepare it again",
        )
    return index


def no_dataset(where: str) -> DataError:
    return DataError(
        f"no dataset at {where}: {INDEX_NAME} is missing",
        "python -m trainer.prepare --out FOLDER makes one; data.path or the channel "
        "'training' says where it is",
    )


def wrong_size(name: str, size: int, wanted: int, tokens: int) -> DataError:
    what = "truncated" if size < wanted else "longer than its index says"
    return DataError(
        f"{name}: shard is {what} ({size} bytes, {wanted} by {tokens} tokens)",
        "copy it again, or prepare the dataset again",
    )


def foreign_shard(name: str, found: str, shard: Shard) -> DataError:
    return DataError(
        f"{name}: foreign shard (sha256 {found[:12]}…, index says {shard.sha256[:12]}…)",
        "index.json and its shards must come from one preparation",
    )


def _check_shard(path: Path, shard: Shard, index: Index, hashed: bool) -> None:
    wanted = shard.tokens * index.stored.itemsize
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise DataError(f"{path}: shard is missing", MISSING) from None
    if size != wanted:
        raise wrong_size(str(path), size, wanted, shard.tokens)
    if hashed and (found := hash_file(path)[1]) != shard.sha256:
        raise foreign_shard(str(path), found, shard)
