"""S3 for training jobs: channels in, models and checkpoints out. Straight from moto's store."""

import io
import os
import tarfile
from pathlib import Path

from moto.s3.exceptions import MissingBucket
from moto.s3.models import s3_backends

from emulator.names import ACCOUNT, PARTITION


class NoSuchData(Exception):
    """A channel's prefix holds nothing, or its bucket does not exist."""


def parse_uri(uri: str) -> tuple[str, str]:
    """``s3://bucket/key`` → bucket, key."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


def keys(bucket: str, prefix: str) -> list[str]:
    """All keys below a prefix."""
    try:
        found = s3_backends[ACCOUNT][PARTITION].get_bucket(bucket)
    except MissingBucket as error:
        raise NoSuchData(f"The bucket {bucket} does not exist") from error
    return sorted(name for name in list(found.keys.keys()) if name.startswith(prefix))


def download(uri: str, folder: Path, share: tuple[int, int] = (0, 1)) -> int:
    """Copy what is below a prefix into a folder: ``share`` is (this host, hosts) when sharded."""
    bucket, prefix = parse_uri(uri)
    # As SageMaker does: paths are relative to the last full folder of the prefix.
    base = prefix if prefix.endswith("/") or not prefix else prefix + "/"
    found = [key for key in keys(bucket, prefix) if not key.endswith("/")]
    mine = found[share[0] :: share[1]]
    for key in mine:
        relative = key.removeprefix(base) if key.startswith(base) else key.rpartition("/")[2]
        target = folder / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(_bytes(bucket, key))
    return len(mine)


def upload_file(uri: str, data: bytes) -> None:
    """Write one object."""
    bucket, key = parse_uri(uri)
    s3_backends[ACCOUNT][PARTITION].put_object(bucket, key, data)


def upload_changes(folder: Path, uri: str, known: dict[str, tuple[int, int]]) -> None:
    """Copy files that are new or changed since ``known``, which is brought up to date."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        stat = path.stat()
        name, mark = str(path.relative_to(folder)), (stat.st_mtime_ns, stat.st_size)
        if known.get(name) != mark:
            upload_file(f"{uri.rstrip('/')}/{name}", path.read_bytes())
            known[name] = mark


def archive(folders: list[Path]) -> bytes | None:
    """A ``.tar.gz`` of the folders' files; None where there are none."""
    files = {
        os.path.relpath(path, folder): path
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    if not files:
        return None
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as out:
        for name, path in files.items():
            out.add(path, arcname=name)
    return buffer.getvalue()


def flip_bit(bucket: str, key: str) -> int:
    """Damage one object in place, size and date unchanged; returns the byte's position."""
    found = s3_backends[ACCOUNT][PARTITION].get_object(bucket, key)
    if found is None:
        raise KeyError(f"s3://{bucket}/{key}")
    at = len(found.value) // 2
    with found.lock:
        found._value_buffer.seek(at)
        byte = found._value_buffer.read(1)[0]
        found._value_buffer.seek(at)
        found._value_buffer.write(bytes([byte ^ 0x01]))
    # As if it had been written so: SDKs would find damage at rest by S3's own checksum.
    found.checksum_value = found.checksum_algorithm = None
    return at


def _bytes(bucket: str, key: str) -> bytes:
    found = s3_backends[ACCOUNT][PARTITION].get_object(bucket, key)
    if found is None:
        raise NoSuchData(f"s3://{bucket}/{key} is gone")
    return bytes(found.value)
