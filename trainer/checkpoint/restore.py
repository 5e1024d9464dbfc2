"""Finding, verifying and loading the newest good checkpoint, at every start.

Rank 0 alone lists. What it picks is hashed before anything in it is unpickled: by all ranks
together in a folder, by one rank a node while it downloads from S3. A checkpoint that is not
what was written is named aloud, and the next older one is taken.
"""

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load as load_tensors

from everstep.contracts.manifest import CheckpointName, Manifest
from trainer.checkpoint.catalogue import (
    BrokenCheckpoint,
    Catalogue,
    Listed,
    describe_difference,
)
from trainer.checkpoint.state import LOOP_NAME, LoopState, restore_rng, rng_name, seed_rng
from trainer.errors import ConfigError
from trainer.host import Worker
from trainer.report import Reporter
from trainer.store import Store

T = TypeVar("T")


@dataclass(frozen=True)
class Found:
    """A verified checkpoint, and where its files lie on this node."""

    name: CheckpointName
    manifest: Manifest
    folder: Path


@dataclass
class Finder:
    """``find`` is called by all ranks; ``broken`` holds on rank 0 what was skipped."""

    store: Store
    group: dist.ProcessGroup
    worker: Worker
    report: Reporter
    broken: set[CheckpointName] = field(default_factory=set)

    def find(self) -> Found | None:
        """The newest committed checkpoint that verifies; None where there is none."""
        catalogue = Catalogue(self.store)
        listed = catalogue.newest_first() if self.worker.rank == 0 else []
        while True:
            choice = self._share(self._choose(catalogue, listed))
            if choice is None:
                return None
            name, manifest = choice
            folder, reasons = self._verify(name, manifest)
            if not reasons:
                return Found(name, manifest, folder)
            self._skip(name, reasons[0])

    def _choose(
        self, catalogue: Catalogue, listed: list[Listed]
    ) -> tuple[CheckpointName, Manifest] | None:
        while listed:
            item = listed.pop(0)
            try:
                return item.name, catalogue.manifest(item)
            except BrokenCheckpoint as error:
                self._skip(item.name, str(error))
        return None

    def _skip(self, name: CheckpointName, reason: str) -> None:
        self.broken.add(name)
        self.report.line("skip_checkpoint", checkpoint=str(name), reason=reason)

    def _verify(self, name: CheckpointName, manifest: Manifest) -> tuple[Path, list[str]]:
        """The folder to load from, and what is wrong with it (the same on every rank)."""
        worker = self.worker
        folder = self.store.local(str(name))
        if folder is not None:
            mine = manifest.entries[worker.rank :: worker.world_size]
        else:
            folder = worker.node_dir / "restore" / str(name)
            mine = manifest.entries if worker.local_rank == 0 else []
            if worker.local_rank == 0:
                shutil.rmtree(folder.parent, ignore_errors=True)
        reason: str | None = None
        for entry in mine:
            try:
                size, digest = self.store.download(f"{name}/{entry.path}", folder / entry.path)
                reason = describe_difference(entry, size, digest)
            except Exception as error:  # noqa: BLE001 - whatever it is, an older one may do
                reason = f"{entry.path} cannot be read: {type(error).__name__}: {error}"
            if reason:
                break
        return folder, [r for r in self._gather(reason) if r]

    def _share(self, value: T) -> T:
        box: list[T] = [value]
        dist.broadcast_object_list(box, src=0, group=self.group)
        return box[0]

    def _gather(self, value: T) -> list[T]:
        values: list[Any] = [None] * self.worker.world_size
        dist.all_gather_object(values, value, group=self.group)
        return values


def load(
    found: Found,
    tensors: dict[str, Tensor],
    fresh: LoopState,
    group: dist.ProcessGroup,
    worker: Worker,
    report: Reporter,
    seed: int,
) -> LoopState:
    """Loads into ``tensors`` and the generators; returns where the run stands.

    ``fresh`` is this start's state: its mesh and identity are compared with the saved ones.
    Raises ``ConfigError`` where the run was changed so that it would not be the same run.
    """
    loop = LoopState.model_validate_json((found.folder / LOOP_NAME).read_text())
    for key, value in fresh.identity.items():
        if loop.identity.get(key) != value:
            raise ConfigError(
                f"{found.name} was trained with {key}={loop.identity.get(key)!r}, "
                f"this start has {value!r}",
                "set it back, or start a new run",
            )
    reader = FileSystemReader(found.folder)
    wanted = dict(tensors)
    generators = rng_name(worker.rank)
    same_mesh = loop.mesh == fresh.mesh
    if same_mesh:
        saved = reader.read_metadata().state_dict_metadata[generators]
        assert isinstance(saved, TensorStorageMetadata)
        wanted[generators] = torch.zeros(saved.size, dtype=torch.uint8)
    load_tensors(wanted, storage_reader=reader, process_group=group)
    if same_mesh:
        restore_rng(wanted[generators])
    else:
        seed_rng(seed, loop.step, worker.rank)
        report.log(
            f"{found.name} was saved on {loop.mesh}, this is {fresh.mesh}: weights and optimizer "
            "are the same, the random number generators start anew"
        )
    downloaded = worker.node_dir / "restore"
    if found.folder.parent == downloaded:
        dist.barrier(group=group)  # another rank of this node may still be reading
        if worker.local_rank == 0:
            shutil.rmtree(downloaded, ignore_errors=True)
    return loop.model_copy(update={"mesh": fresh.mesh, "identity": fresh.identity})
