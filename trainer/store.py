"""Objects below a URI: a folder, or ``s3://bucket/prefix``. One small interface for both.

Keys are relative paths with ``/``. Every byte that the trainer leaves behind goes through here.
"""

import os
from base64 import b64encode
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlparse

_CHUNK = 1 << 20
_SINGLE_PUT = 5 * 1024**3
"""S3's largest single PUT; beyond it the upload has parts, and no checksum of the whole."""

_THERE_ALREADY = ("PreconditionFailed", "ConditionalRequestConflict")


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


def open_store(uri: str) -> Store:
    """A ``Store`` for a folder, ``file://`` or ``s3://`` URI."""
    parsed = urlparse(uri)
    if parsed.scheme == "s3":
        return S3Store(parsed.netloc, parsed.path.strip("/"))
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
    """A prefix of a bucket. Uploads carry SHA-256, which S3 checks and keeps."""

    def __init__(self, bucket: str, prefix: str) -> None:
        import boto3
        from botocore.config import Config

        self.bucket, self.prefix = bucket, prefix
        # "standard" backs off with jitter on SlowDown, so a busy prefix spends no attempt
        self._s3: Any = boto3.client(
            "s3", config=Config(retries={"mode": "standard", "max_attempts": 10})
        )

    def local(self, key: str) -> Path | None:
        return None

    def listing(self, prefix: str = "") -> dict[str, int]:
        below = self._key(f"{prefix}/" if prefix else "")
        found: dict[str, int] = {}
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=below)
        for page in pages:
            for item in page.get("Contents", []):
                found[item["Key"][len(self._key("")) :]] = item["Size"]
        return found

    def read(self, key: str) -> bytes | None:
        try:
            answer = self._s3.get_object(Bucket=self.bucket, Key=self._key(key))
        except self._s3.exceptions.NoSuchKey:
            return None
        return answer["Body"].read()

    def write(self, key: str, data: bytes) -> None:
        self._s3.put_object(
            Bucket=self.bucket,
            Key=self._key(key),
            Body=data,
            **_checksum(sha256(data).hexdigest()),
        )

    def write_once(self, key: str, data: bytes) -> bool:
        from botocore.exceptions import ClientError

        try:
            self._s3.put_object(Bucket=self.bucket, Key=self._key(key), Body=data, IfNoneMatch="*")
        except ClientError as error:
            if error.response["Error"]["Code"] in _THERE_ALREADY:
                return False
            raise
        return True

    def upload(self, key: str, path: Path, sha256_hex: str) -> None:
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

    def download(self, key: str, path: Path) -> tuple[int, str]:
        path.parent.mkdir(parents=True, exist_ok=True)
        body = self._s3.get_object(Bucket=self.bucket, Key=self._key(key))["Body"]
        size, digest = 0, sha256()
        with path.open("wb") as file:
            while chunk := body.read(_CHUNK):
                size += len(chunk)
                digest.update(chunk)
                file.write(chunk)
        return size, digest.hexdigest()

    def delete(self, keys: list[str]) -> None:
        for start in range(0, len(keys), 1000):
            objects = [{"Key": self._key(key)} for key in keys[start : start + 1000]]
            answer = self._s3.delete_objects(
                Bucket=self.bucket, Delete={"Objects": objects, "Quiet": True}
            )
            if errors := answer.get("Errors"):
                raise OSError(f"cannot delete {errors[0]['Key']}: {errors[0].get('Code')}")

    def _key(self, key: str) -> str:
        return f"{self.prefix}/{key}" if self.prefix else key


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
