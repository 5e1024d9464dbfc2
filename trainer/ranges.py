"""A dataset read straight from S3 (``data.mode: s3``): no copy, no file system, no start-up wait.

Each run of samples (see ``trainer.order``) is one ranged GET, asked for ahead of the step by a
few threads. The objects must stay as they are: every GET names the ETag seen first. A busy or
unreachable S3 is waited for in place, with full jitter (see ``trainer.store``).
"""

from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from typing import Any
from urllib.parse import urlparse

import numpy as np
from botocore.exceptions import ClientError
from numpy.typing import NDArray

from trainer.errors import DataError
from trainer.shards import (
    INDEX_NAME,
    Shard,
    Spans,
    foreign_shard,
    no_dataset,
    parse_index,
    wrong_size,
)
from trainer.store import PATIENCE, S3Store

CONNECTIONS = 16
"""GETs in flight, a rank."""
_HASH_STEP = 8 << 20

Span = tuple[int, int]


class S3Dataset:
    """Opening reads the index; ``verify`` also lists the shards and hashes a small dataset."""

    def __init__(self, uri: str, *, verify: bool = True, patience: float = PATIENCE) -> None:
        """``uri``: ``s3://bucket/prefix``. Raises ``DataError``, or S3's error after
        ``patience`` seconds of trouble that usually passes."""
        parsed = urlparse(uri)
        self.name = uri.rstrip("/")
        self._store = S3Store(parsed.netloc, parsed.path.strip("/"), patience, CONNECTIONS)
        try:
            raw = self._store.read(INDEX_NAME)
        except ClientError as error:
            raise self._refused(INDEX_NAME, error) from error
        if raw is None:
            raise no_dataset(self.name)
        self.index = parse_index(raw, self.name)
        self._starts = self.index.starts
        self._tags: dict[str, str] = {}
        self._spans: dict[Span, Future[NDArray[Any]]] = {}
        self._threads = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="s3-data")
        if verify:
            self._check()

    def gather(self, starts: NDArray[np.int64], length: int, spans: Spans) -> NDArray[Any]:
        rows = np.empty((len(starts), length), dtype=self.index.stored)
        wanted = [(first, stop) for first, stop in spans.tolist()]
        for span in wanted:
            self._ask(span)
        for row, (start, span) in enumerate(zip(starts.tolist(), wanted, strict=True)):
            offset = start - span[0]
            rows[row] = self._spans[span].result()[offset : offset + length]
        return rows

    def expect(self, spans: Spans) -> None:
        wanted = [(start, stop) for start, stop in spans.tolist()]
        for span in self._spans.keys() - set(wanted):
            self._spans.pop(span).cancel()
        for span in wanted:
            self._ask(span)

    def close(self) -> None:
        """Ends the threads. What they are waiting for is given up."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _ask(self, span: Span) -> None:
        asked = self._spans.get(span)
        # what failed while it was read ahead gets another chance when it is needed
        if asked is None or (asked.done() and asked.exception() is not None):
            self._spans[span] = self._threads.submit(self._read, *span)

    def _read(self, start: int, stop: int) -> NDArray[Any]:
        """Tokens [start, stop): one GET, or one a shard where they cross."""
        parts = []
        number = int(np.searchsorted(self._starts, start, side="right")) - 1
        while start < stop:
            end = min(stop, int(self._starts[number + 1]))
            first = start - int(self._starts[number])
            parts.append(self._get(self.index.shards[number], first, end - start))
            start, number = end, number + 1
        return np.frombuffer(b"".join(parts), dtype=self.index.stored)

    def _get(self, shard: Shard, first: int, tokens: int) -> bytes:
        size = self.index.stored.itemsize
        known = self._tags.get(shard.file)
        try:
            body, tag, whole = self._store.read_range(
                shard.file, first * size, tokens * size, known
            )
        except ClientError as error:
            raise self._refused(shard.file, error, shard) from error
        if whole != shard.tokens * size:
            raise wrong_size(self._path(shard.file), whole, shard.tokens * size, shard.tokens)
        if self._tags.setdefault(shard.file, tag) != tag:
            raise self._changed(shard.file)
        return body

    def _check(self) -> None:
        """Every shard is there and as long as the index says: one LIST for a thousand shards."""
        try:
            found = self._store.listing()
        except ClientError as error:
            raise self._refused("", error) from error
        for shard in self.index.shards:
            wanted = shard.tokens * self.index.stored.itemsize
            if shard.file not in found:
                raise self._missing(shard.file)
            if found[shard.file] != wanted:
                raise wrong_size(self._path(shard.file), found[shard.file], wanted, shard.tokens)
        if self.index.hashed:
            for shard, hashed in zip(
                self.index.shards, self._threads.map(self._hash, self.index.shards), strict=True
            ):
                if hashed != shard.sha256:
                    raise foreign_shard(self._path(shard.file), hashed, shard)

    def _hash(self, shard: Shard) -> str:
        digest = sha256()
        step = _HASH_STEP // self.index.stored.itemsize
        for first in range(0, shard.tokens, step):
            digest.update(self._get(shard, first, min(step, shard.tokens - first)))
        return digest.hexdigest()

    def _path(self, key: str) -> str:
        return f"{self.name}/{key}"

    def _missing(self, key: str) -> DataError:
        return DataError(
            f"{self._path(key)}: shard is missing", "copy the whole dataset folder to S3"
        )

    def _changed(self, key: str) -> DataError:
        return DataError(
            f"{self._path(key)}: the object was replaced while it was read",
            "put another dataset under another prefix, and start a new run",
        )

    def _refused(
        self, key: str, error: ClientError, shard: Shard | None = None
    ) -> DataError | ClientError:
        """What S3's answer means for a dataset; the answer itself where it means nothing more."""
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if code in ("NoSuchKey", "404"):
            return self._missing(key)
        if code == "NoSuchBucket":
            return DataError(f"{self.name}: no such bucket", "see data.path, or the team's data")
        if status == 403:
            return DataError(
                f"{self._path(key)}: access denied ({code})",
                "the job's role needs s3:GetObject and s3:ListBucket on the prefix, and "
                "kms:Decrypt on its key",
            )
        if status == 412:
            return self._changed(key)
        if status == 416 and shard is not None:
            return DataError(
                f"{self._path(key)}: shard is truncated (shorter than {shard.tokens} tokens)",
                "copy it again, or prepare the dataset again",
            )
        return error
