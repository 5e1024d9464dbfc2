"""What S3 holds of a run: committed checkpoints, failure files, dataset indexes, specs."""

import json
from typing import Any, TypeVar

from botocore.exceptions import ClientError
from pydantic import BaseModel, ValidationError

from everstep.contracts.env import FailureFile
from everstep.contracts.exports import EXPORT_MANIFEST, ExportManifest
from everstep.contracts.manifest import MANIFEST_NAME, CheckpointName, Manifest

ManifestT = TypeVar("ManifestT", Manifest, ExportManifest)
_MISSING = frozenset({"NoSuchKey", "404", "NotFound", "NoSuchBucket"})


def split(uri: str) -> tuple[str, str]:
    """``s3://bucket/a/b`` → (bucket, ``a/b``)."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key.strip("/")


class Committed(BaseModel):
    """A checkpoint whose manifest exists and whose files all have their size."""

    name: CheckpointName
    manifest: Manifest


class Checkpoints:
    def __init__(self, client: Any) -> None:
        self._client = client

    def newest(self, uri: str, *, recorded: bool = False) -> Committed | None:
        """The newest committed checkpoint below a run's prefix. The trainer verifies contents.

        ``recorded``: the prefix holds copies of manifests alone, the files lie elsewhere.
        """
        bucket, prefix = split(uri)
        names = [
            name
            for page in self._pages(bucket, f"{prefix}/", Delimiter="/")
            for entry in page.get("CommonPrefixes", [])
            if (name := CheckpointName.parse(entry["Prefix"]))
        ]
        for name in sorted(names, key=lambda n: n.order, reverse=True):
            folder = f"{prefix}/{name}"
            manifest = self._whole(bucket, folder, MANIFEST_NAME, Manifest, alone=recorded)
            if manifest is not None:
                return Committed(name=name, manifest=manifest)
        return None

    def committed(self, uri: str) -> bool:
        """Whether a checkpoint, by the URI of its folder, is committed and whole."""
        return self._whole(*split(uri), MANIFEST_NAME, Manifest) is not None

    def steps(self, uri: str) -> list[CheckpointName]:
        """Below a run's prefix: those with a manifest, oldest first. Their files are not looked
        at."""
        found = {
            name
            for path in self.names(uri)
            if path.endswith(f"/{MANIFEST_NAME}")
            and (name := CheckpointName.parse(path.removesuffix(f"/{MANIFEST_NAME}")))
        }
        return sorted(found, key=lambda n: n.order)

    def export(self, uri: str) -> ExportManifest | None:
        """What lies at an export's URI, if it is whole."""
        return self._whole(*split(uri), EXPORT_MANIFEST, ExportManifest)

    def _whole(
        self, bucket: str, folder: str, name: str, kind: type[ManifestT], *, alone: bool = False
    ) -> ManifestT | None:
        """The manifest, where each file that it names is there in its size; or ``alone``."""
        text = self.read(f"s3://{bucket}/{folder}/{name}")
        if text is None:
            return None
        try:
            manifest = kind.model_validate_json(text)
        except ValidationError:
            return None  # torn: not committed
        if alone:
            return manifest
        sizes = {
            item["Key"].removeprefix(f"{folder}/"): item["Size"]
            for page in self._pages(bucket, f"{folder}/")
            for item in page.get("Contents", [])
        }
        whole = all(sizes.get(entry.path) == entry.size for entry in manifest.entries)
        return manifest if whole else None

    def names(self, uri: str) -> set[str]:
        """Of the objects below a prefix, without it."""
        bucket, prefix = split(uri)
        return {
            item["Key"].removeprefix(f"{prefix}/")
            for page in self._pages(bucket, f"{prefix}/")
            for item in page.get("Contents", [])
        }

    def last_change(self, uri: str) -> float | None:
        """When any object below a prefix was last written."""
        bucket, prefix = split(uri)
        times = [
            item["LastModified"].timestamp()
            for page in self._pages(bucket, f"{prefix}/")
            for item in page.get("Contents", [])
        ]
        return max(times, default=None)

    def failure_file(self, output_uri: str, launch: int) -> FailureFile | None:
        text = self.read(f"{output_uri}/{launch:05d}/failure.json")
        try:
            return FailureFile.model_validate_json(text) if text else None
        except ValidationError:
            return None  # a trainer died while writing it: the other evidence decides

    def read_json(self, uri: str) -> Any:
        """None when there is no such object. Raises ValueError for what is not JSON."""
        text = self.read(uri)
        return None if text is None else json.loads(text)

    def read(self, uri: str) -> str | None:
        bucket, key = split(uri)
        try:
            body = self._client.get_object(Bucket=bucket, Key=key)["Body"].read()
        except ClientError as error:
            if error.response["Error"]["Code"] in _MISSING:
                return None
            raise
        return str(body.decode("utf-8", errors="replace"))

    def _pages(self, bucket: str, prefix: str, **more: Any) -> Any:
        paginator = self._client.get_paginator("list_objects_v2")
        return paginator.paginate(Bucket=bucket, Prefix=prefix, **more)
