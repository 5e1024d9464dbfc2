"""Checkpoint names and manifests. A checkpoint is committed when its manifest exists.

Layout below a run's checkpoint prefix::

    step-00000120.00002/                     120 optimizer steps done, written by launch 2
        .metadata  __0_0.distcp  __1_0.distcp  loop.json
        manifest.json                        written last

The launch number in the name is a fence: a writer orphaned by launch 1 can never
complete, or overwrite, a checkpoint of launch 2.
"""

import json
import re
from hashlib import sha256
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

MANIFEST_NAME = "manifest.json"
_NAME = re.compile(r"step-(\d{8})\.(\d{5})", re.ASCII)


class CheckpointName(BaseModel):
    """Orders by step, then by the launch that wrote it."""

    model_config = ConfigDict(frozen=True)

    step: int
    launch: int

    def __str__(self) -> str:
        return f"step-{self.step:08d}.{self.launch:05d}"

    @classmethod
    def parse(cls, text: str) -> "CheckpointName | None":
        """None for anything that is not a checkpoint's folder name."""
        match = _NAME.fullmatch(text.strip("/").rsplit("/", 1)[-1])
        return cls(step=int(match[1]), launch=int(match[2])) if match else None

    @property
    def order(self) -> tuple[int, int]:
        return (self.step, self.launch)


class ManifestEntry(BaseModel):
    """One file: path relative to the checkpoint, bytes, hex SHA-256 computed while writing."""

    model_config = ConfigDict(frozen=True)

    path: str
    size: int
    sha256: str


class Manifest(BaseModel):
    """What a committed checkpoint holds."""

    model_config = ConfigDict(frozen=True)

    schema_version: int = 1
    step: int
    launch: int
    world_size: int
    tokens: int
    """Training tokens consumed by the run up to and including ``step``."""
    final: bool = False
    """Written after the run's last step: what VerifyOutcome looks for."""
    spec_fingerprint: str = ""
    entries: list[ManifestEntry]
    checksum: str | None = None
    """Hex SHA-256 over all other fields (see ``sealed``): a bit that flips in the manifest itself
    is noticed too. A foreign program may leave it out; the reference trainer takes none without."""

    def sealed(self) -> bytes:
        """The file's bytes, checksum included."""
        fields = self.model_dump(mode="json", exclude={"checksum"})
        return json.dumps(fields | {"checksum": _digest(fields)}, separators=(",", ":")).encode()

    @classmethod
    def unseal(cls, raw: bytes) -> Self:
        """The manifest, if it is the one that was written. Raises ``ValueError`` saying why not.

        Computed over what was read, so that a field that another version added does no harm.
        """
        fields = json.loads(raw)
        if not isinstance(fields, dict):
            raise ValueError("not a JSON object")
        written = fields.pop("checksum", None)
        if written is None:
            raise ValueError("has no checksum")
        if (found := _digest(fields)) != written:
            raise ValueError(f"has checksum {found[:12]}…, not {str(written)[:12]}…")
        return cls.model_validate(fields | {"checksum": written})


def _digest(fields: dict[str, Any]) -> str:
    """Of one form of the fields: keys sorted, no spaces."""
    return sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
