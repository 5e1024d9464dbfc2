"""Checkpoints in a folder that the control plane cannot read: it is told through S3.

Manifest last holds in the folder, and there alone it is decided what is committed. A copy of each
manifest follows it to S3, and goes before it goes. A process that dies in between leaves a
committed checkpoint without a copy: ``mend`` makes it, at the next start.
"""

from pathlib import Path

from everstep.contracts.env import TrainerEnv
from everstep.contracts.manifest import MANIFEST_NAME, CheckpointName
from trainer.errors import ConfigError
from trainer.store import FolderStore, Store, open_store


def open_checkpoints(env: TrainerEnv) -> Store:
    """The store of a run's checkpoints. Raises ``ConfigError``."""
    if env.checkpoint_record_uri is None:
        return open_store(env.checkpoint_uri)
    if env.checkpoint_uri.startswith("s3://"):
        raise ConfigError(
            f"checkpoints at {env.checkpoint_uri} need no record at {env.checkpoint_record_uri}",
            "EVERSTEP_CHECKPOINT_RECORD_URI is for checkpoints in a folder: unset it",
        )
    return RecordedStore(Path(env.checkpoint_uri), open_store(env.checkpoint_record_uri))


class RecordedStore(FolderStore):
    """A folder whose manifests have copies in ``records``."""

    def __init__(self, root: Path, records: Store) -> None:
        super().__init__(root)
        self._records = records

    def write(self, key: str, data: bytes) -> None:
        super().write(key, data)
        if _is_manifest(key):
            self._records.write(key, data)

    def delete(self, keys: list[str]) -> None:
        if manifests := [key for key in keys if _is_manifest(key)]:
            self._records.delete(manifests)
        super().delete(keys)

    def mend(self) -> None:
        """Make the copies those of what the folder holds. Raises ``ConfigError`` where it holds
        nothing of what was committed: starting at step 0 would not be this run any more."""
        there = {key for key in self.listing() if _is_manifest(key)}
        told = {key for key in self._records.listing() if _is_manifest(key)}
        if told and not there:
            newest = max(told).removesuffix(f"/{MANIFEST_NAME}")
            raise ConfigError(
                f"{newest} was committed, and {self.root} holds no checkpoint",
                "mount the file system that holds it; or, to begin at step 0, remove the copies of "
                "the manifests below the run's checkpoint prefix in S3",
            )
        for key in sorted(there - told):
            data = self.read(key)
            if data is not None:
                self._records.write(key, data)
        self._records.delete(sorted(told - there))


def _is_manifest(key: str) -> bool:
    folder, _, name = key.partition("/")
    return name == MANIFEST_NAME and CheckpointName.parse(folder) is not None
