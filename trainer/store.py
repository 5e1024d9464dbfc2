"""Objects below a URI: a folder, or ``s3://bucket/prefix``. One small interface for both.

Keys are relative paths with ``/``. Every byte that the trainer leaves behind goes through here.
"""

import os
import random
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import urlparse

from trainer.errors import ConfigError

_CHUNK = 1 << 20
_SINGLE_PUT = 5 * 1024**3
"""S3's largest single PUT; beyond it the upload has parts, and no checksum of the whole."""

_THERE_ALREADY = ("PreconditionFailed", "ConditionalRequestConflict")
PATIENCE = 600.0
"""Seconds for which a request is tried again: less than any phase's budget in ``watch``."""
_PAUSE, _LONGEST_PAUSE = 0.2, 5.0

T = TypeVar("T")


class Store(Protocol):
    """Errors of the platform pass through (``OSError``, ``botocore`` exceptions)."""

    def local(self, key: str) -> Path | None:
        """The key's path where the store is a folder: write and read there in place."""

    def listing(self, prefix: str = "") -> dict[str, int]:
        """Keys below ``prefix`` (a whole folder name, or nothing) and their sizes."""

    def read(self, key: str) -> bytes | None:
        """None where there is no such object."""

    def write(self, key: str, data: bytes) -> None:
        """Appears whole or not at all, and is durable on return."""

    def write_once(self, key: str, data: bytes) -> bool:
        """False, and nothing written, where the object is there already."""

    def upload(self, key: str, path: Path, sha256_hex: str) -> None: ...

    def download(self, key: str, path: Path) -> tuple[int, str]:
        """Bytes and hex SHA-256 of what arrived at ``path``."""

    def delete(self, keys: list[str]) -> None: ...


def open_store(uri: str, patience: float = PATIENCE) -> Store:
    """A ``Store`` for a folder, ``file://`` or ``s3://`` URI. Raises ``ConfigError``."""
    parsed = urlparse(uri)
    if parsed.scheme == "s3":
        if not parsed.netloc:
            raise ConfigError(f"{uri} names no bucket", "s3://bucket/prefix")
        return S3Store(parsed.netloc, parsed.path.strip("/"), patience)
    return FolderStore(Path(parsed.path if parsed.scheme == "file" else uri))


def hash_file(path: Path) -> tuple[int, str]:
    """Bytes and hex SHA-256 of a file."""
    size, digest = 0, sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            size += len(chunk)
            digest.update(chunk)
    return size, digest.hexdigest()


class FolderStore:
    """A folder, local or on a shared file system."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def local(self, key: str) -> Path | None:
        return self.root / key

    def listing(self, prefix: str = "") -> dict[str, int]:
        top = self.root / prefix if prefix else self.root
        found: dict[str, int] = {}
        for folder, _, names in os.walk(top):
            for name in names:
                path = Path(folder, name)
                try:
                    found[path.relative_to(self.root).as_posix()] = path.stat().st_size
                except FileNotFoundError:
                    continue  # another process's retention
        return found

    def read(self, key: str) -> bytes | None:
        try:
            return (self.root / key).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, key: str, data: bytes) -> None:
        path = self.root / key
        temporary = self._written(path, data)
        os.replace(temporary, path)
        _sync_folder(path.parent)

    def write_once(self, key: str, data: bytes) -> bool:
        path = self.root / key
        temporary = self._written(path, data)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        return True

    def upload(self, key: str, path: Path, sha256_hex: str) -> None:
        if path != self.root / key:
            self.write(key, path.read_bytes())

    def download(self, key: str, path: Path) -> tuple[int, str]:
        if path != self.root / key:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((self.root / key).read_bytes())
        return hash_file(path)

    def delete(self, keys: list[str]) -> None:
        for key in keys:
            (self.root / key).unlink(missing_ok=True)
        for folder in {(self.root / key).parent for key in keys} - {self.root}:
            with suppress(OSError):  # not empty, or gone
                folder.rmdir()

    def _written(self, path: Path, data: bytes) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return temporary


class S3Store:
    """A prefix of a bucket. Uploads carry SHA-256, which S3 checks and keeps.

    A busy or unreachable S3 is waited for in place, whatever the number of refusals: ``patience``
    seconds a request, with full jitter. It spends no attempt.
    """

    def __init__(
        self, bucket: str, prefix: str, patience: float = PATIENCE, connections: int = 10
    ) -> None:
        import boto3
        from botocore.config import Config

        self.bucket, self.prefix = bucket, prefix
        self._patience = patience
        self._s3: Any = boto3.client(
            "s3",
            config=Config(
                retries={"mode": "standard", "total_max_attempts": 1},  # see _patiently
                max_pool_connections=connections,
            ),
        )

    def local(self, key: str) -> Path | None:
        return None

    def listing(self, prefix: str = "") -> dict[str, int]:
        below = self._key(f"{prefix}/" if prefix else "")
        found: dict[str, int] = {}
        for page in self._pages(below):
            for item in page.get("Contents", []):
                found[item["Key"][len(self._key("")) :]] = item["Size"]
        return found

    def _pages(self, below: str) -> Iterator[dict[str, Any]]:
        token: dict[str, str] = {}
        while True:
            request = partial(self._s3.list_objects_v2, Bucket=self.bucket, Prefix=below, **token)
            page = self._patiently(request)
            yield page
            if not page.get("NextContinuationToken"):
                return
            token = {"ContinuationToken": page["NextContinuationToken"]}

    def read(self, key: str) -> bytes | None:
        def get() -> bytes:
            answer = self._s3.get_object(Bucket=self.bucket, Key=self._key(key))
            return bytes(answer["Body"].read())

        try:
            return self._patiently(get)
        except self._s3.exceptions.NoSuchKey:
            return None

    def read_range(
        self, key: str, first: int, size: int, etag: str | None = None
    ) -> tuple[bytes, str, int]:
        """Bytes [first, first + size) of an object, its ETag, its whole size in bytes.

        Another ETag than ``etag`` is a ``ClientError`` with status 412; no such object, 404.
        """
        from botocore.exceptions import IncompleteReadError

        given = {"IfMatch": etag} if etag else {}

        def get() -> tuple[bytes, str, int]:
            answer = self._s3.get_object(
                Bucket=self.bucket,
                Key=self._key(key),
                Range=f"bytes={first}-{first + size - 1}",
                **given,
            )
            body, whole = bytes(answer["Body"].read()), int(answer["ContentRange"].split("/")[1])
            if len(body) != min(size, whole - first):
                raise IncompleteReadError(actual_bytes=len(body), expected_bytes=size)
            return body, str(answer["ETag"]), whole

        return self._patiently(get)

    def write(self, key: str, data: bytes) -> None:
        self._patiently(
            lambda: self._s3.put_object(
                Bucket=self.bucket,
                Key=self._key(key),
                Body=data,
                **_checksum(sha256(data).hexdigest()),
            )
        )

    def write_once(self, key: str, data: bytes) -> bool:
        from botocore.exceptions import ClientError

        try:
            self._patiently(
                lambda: self._s3.put_object(
                    Bucket=self.bucket, Key=self._key(key), Body=data, IfNoneMatch="*"
                )
            )
        except ClientError as error:
            if error.response["Error"]["Code"] in _THERE_ALREADY:
                return False
            raise
        return True

    def upload(self, key: str, path: Path, sha256_hex: str) -> None:
        def put() -> None:
            if path.stat().st_size > _SINGLE_PUT:
                self._s3.upload_file(str(path), self.bucket, self._key(key))
                return
            with path.open("rb") as body:
                self._s3.put_object(
                    Bucket=self.bucket,
                    Key=self._key(key),
                    Body=body,
                    **_checksum(sha256_hex),
                )

        self._patiently(put)

    def download(self, key: str, path: Path) -> tuple[int, str]:
        def get() -> tuple[int, str]:
            path.parent.mkdir(parents=True, exist_ok=True)
            body = self._s3.get_object(Bucket=self.bucket, Key=self._key(key))["Body"]
            size, digest = 0, sha256()
            with path.open("wb") as file:
                while chunk := body.read(_CHUNK):
                    size += len(chunk)
                    digest.update(chunk)
                    file.write(chunk)
            return size, digest.hexdigest()

        return self._patiently(get)

    def delete(self, keys: list[str]) -> None:
        for start in range(0, len(keys), 1000):
            objects = [{"Key": self._key(key)} for key in keys[start : start + 1000]]
            request = partial(
                self._s3.delete_objects,
                Bucket=self.bucket,
                Delete={"Objects": objects, "Quiet": True},
            )
            answer = self._patiently(request)
            if errors := answer.get("Errors"):
                raise OSError(f"cannot delete {errors[0]['Key']}: {errors[0].get('Code')}")

    def _patiently(self, request: Callable[[], T]) -> T:
        until, pause = time.monotonic() + self._patience, _PAUSE
        while True:
            try:
                return request()
            except Exception as error:
                if not _passes(error) or time.monotonic() > until:
                    raise
            time.sleep(random.random() * pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _key(self, key: str) -> str:
        return f"{self.prefix}/{key}" if self.prefix else key


def _passes(error: Exception) -> bool:
    """Whether S3's trouble is one that goes away: its load, its own errors, the way to it."""
    from botocore import exceptions

    if isinstance(error, exceptions.ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return status in (408, 429) or status >= 500
    return isinstance(
        error,
        exceptions.HTTPClientError
        | exceptions.FlexibleChecksumError
        | exceptions.IncompleteReadError
        | exceptions.ResponseStreamingError,
    )


def _checksum(sha256_hex: str) -> dict[str, str]:
    return {
        "ChecksumAlgorithm": "SHA256",
        "ChecksumSHA256": b64encode(bytes.fromhex(sha256_hex)).decode(),
    }


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
