"""Finding, verifying and loading the newest good checkpoint, at every start.

Rank 0 alone lists. What it picks is hashed before anything in it is unpickled. In a folder all
ranks hash it together. From S3 each node brings what its ranks will read, and no more: first
``.metadata`` and ``loop.json``, which say what that is, then those data files, a share each rank.
A file that lies on the node already (``COPY``: a restart in the job) is hashed, not brought. A
checkpoint that is not what was written is named aloud, and the next older one is taken.
"""

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load as load_tensors

from everstep.contracts.manifest import CheckpointName, Manifest, ManifestEntry
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
from trainer.store import Store, hash_file

T = TypeVar("T")
COPY = "copy"
"""Folder of a node that holds the node's part of the newest checkpoint, from one start of the ranks
to the next: saved there, or brought there to be loaded."""
HEADS = (".metadata", LOOP_NAME)
"""Small files, which say what lies in the others."""


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
    fetched: int = 0
    """Bytes that this rank brought from the store."""

    def find(
        self, tensors: dict[str, Tensor], mesh: str, only: CheckpointName | None = None
    ) -> Found | None:
        """The newest committed checkpoint that verifies, or ``only`` that one; None where there is
        none.

        ``tensors`` and ``mesh``: what ``load`` will be given, to know which files it reads.
        """
        catalogue = Catalogue(self.store)
        listed = catalogue.newest_first() if self.worker.rank == 0 else []
        listed = [item for item in listed if only is None or item.name == only]
        while True:
            choice = self._share(self._choose(catalogue, listed))
            if choice is None:
                return None
            name, manifest = choice
            in_place = self.store.local(str(name))
            folder = in_place or self.worker.node_dir / COPY / str(name)
            if in_place:
                mine = manifest.entries[self.worker.rank :: self.worker.world_size]
                reasons = self._verify(name, folder, mine)
            else:
                reasons = self._bring(name, folder, manifest, tensors, mesh)
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

    def _bring(
        self,
        name: CheckpointName,
        folder: Path,
        manifest: Manifest,
        tensors: dict[str, Tensor],
        mesh: str,
    ) -> list[str]:
        """What the ranks of this node read, onto this node; what is wrong with it."""
        worker = self.worker
        if worker.local_rank == 0:
            drop_copies(worker.node_dir, folder.name)
        entries = {entry.path: entry for entry in manifest.entries}
        heads = [entries.pop(path) for path in HEADS if path in entries]
        reasons = self._verify(name, folder, heads if worker.local_rank == 0 else [])
        if reasons:
            return reasons
        loop = LoopState.model_validate_json((folder / LOOP_NAME).read_text())
        read = files_read(folder, wanted(folder, tensors, loop.mesh == mesh, worker.rank))
        first = worker.node * worker.local_world_size
        node = self._gather(read)[first : first + worker.local_world_size]
        needed = sorted(set().union(*node) & entries.keys())
        mine = needed[worker.local_rank :: worker.local_world_size]
        reasons = self._verify(name, folder, [entries[path] for path in mine])
        total = sum(entry.size for entry in manifest.entries)
        self.report.log(
            f"{name}: the first rank brought {self.fetched} of {total} bytes from the store"
        )
        return reasons

    def _verify(
        self, name: CheckpointName, folder: Path, entries: list[ManifestEntry]
    ) -> list[str]:
        """What is wrong with these files, and with other ranks' (the same on every rank)."""
        reason: str | None = None
        for entry in entries:
            path = folder / entry.path
            try:
                if path.is_file() and describe_difference(entry, *hash_file(path)) is None:
                    continue
                size, digest = self.store.download(f"{name}/{entry.path}", path)
                self.fetched += size
                reason = describe_difference(entry, size, digest)
            except Exception as error:  # noqa: BLE001 - whatever it is, an older one may do
                reason = f"{entry.path} cannot be read: {type(error).__name__}: {error}"
            if reason:
                break
        return [r for r in self._gather(reason) if r]

    def _share(self, value: T) -> T:
        box: list[T] = [value]
        dist.broadcast_object_list(box, src=0, group=self.group)
        return box[0]

    def _gather(self, value: T) -> list[T]:
        values: list[Any] = [None] * self.worker.world_size
        dist.all_gather_object(values, value, group=self.group)
        return values


def keep_copy(node_dir: Path, folder: Path) -> None:
    """Makes ``folder``, on the same disk, this node's copy of the newest checkpoint."""
    drop_copies(node_dir, "")
    (node_dir / COPY).mkdir(exist_ok=True)
    folder.rename(node_dir / COPY / folder.name)


def drop_copies(node_dir: Path, keep: str) -> None:
    """Copies of checkpoints on this node, but for one: there is never room planned for more."""
    if (node_dir / COPY).is_dir():
        for other in (node_dir / COPY).iterdir():
            if other.name != keep:
                shutil.rmtree(other, ignore_errors=True)


def wanted(
    folder: Path, tensors: dict[str, Tensor], same_mesh: bool, rank: int
) -> dict[str, Tensor]:
    """What is loaded: ``tensors``, and on the same mesh this rank's generators (bytes)."""
    if not same_mesh:
        return dict(tensors)
    saved = FileSystemReader(folder).read_metadata().state_dict_metadata[rng_name(rank)]
    assert isinstance(saved, TensorStorageMetadata)
    return tensors | {rng_name(rank): torch.zeros(saved.size, dtype=torch.uint8)}


def files_read(folder: Path, tensors: dict[str, Tensor]) -> set[str]:
    """Paths of the data files that a load into ``tensors`` reads on this rank."""
    metadata = FileSystemReader(folder).read_metadata()
    planner = DefaultLoadPlanner(allow_partial_load=True)
    planner.set_up_planner(dict(tensors), metadata, is_coordinator=False)
    try:
        items = [item.storage_index for item in planner.create_local_plan().items]
    except ValueError:  # another shape: ``load`` refuses that by name
        items = list(metadata.storage_data)
    return {metadata.storage_data[index].relative_path for index in items}


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
    same_mesh = loop.mesh == fresh.mesh
    into = wanted(found.folder, tensors, same_mesh, worker.rank)
    load_tensors(into, storage_reader=FileSystemReader(found.folder), process_group=group)
    if same_mesh:
        restore_rng(into[rng_name(worker.rank)])
    else:
        seed_rng(seed, loop.step, worker.rank)
        report.log(
            f"{found.name} was saved on {loop.mesh}, this is {fresh.mesh}: weights and optimizer "
            "are the same, the random number generators start anew"
        )
    return loop.model_copy(update={"mesh": fresh.mesh, "identity": fresh.identity})
