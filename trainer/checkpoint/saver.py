"""Saving while training goes on.

``save`` copies to host memory and returns; a thread of each rank then writes, hashes and (on S3)
uploads, and rank 0 writes the manifest when every rank has reported. The threads talk on a
process group of their own: sharing training's would mix the two orders of collectives. The
thread dies with its process, so no orphan can commit; and its folder carries the launch number.
"""

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import Thread
from typing import TypeVar

import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_saver import save as save_tensors

from everstep.contracts.manifest import MANIFEST_NAME, CheckpointName, Manifest, ManifestEntry
from everstep.contracts.progress import Phase
from everstep.contracts.training_spec import Checkpoint
from trainer.checkpoint.catalogue import Catalogue
from trainer.checkpoint.hashing import HashingWriter
from trainer.checkpoint.planning import Planner
from trainer.checkpoint.restore import keep_copy
from trainer.checkpoint.state import LOOP_NAME, LoopState, capture_rng, copy_to_host, rng_name
from trainer.errors import CheckpointError
from trainer.host import Worker
from trainer.report import Reporter
from trainer.store import Store

T = TypeVar("T")
TRIES = 3
"""Of one save; each rank's copies stay in memory until it is durable or given up."""
RETRY_SECONDS = 2.0
"""Before the second try; twice as long before the third."""


class SaveFailed(Exception):
    """On every rank alike, so that every rank takes the same next step."""


@dataclass(frozen=True)
class Snapshot:
    """A moment of training, held in host memory until it is durable."""

    name: CheckpointName
    tensors: dict[str, Tensor]
    loop: LoopState
    final: bool


class Saver:
    """At most one save in flight. All methods are called by all ranks in the same order."""

    def __init__(
        self,
        store: Store,
        group: dist.ProcessGroup,
        worker: Worker,
        report: Reporter,
        *,
        launch: int,
        checkpoint: Checkpoint,
        broken: set[CheckpointName],
        last_step: int,
    ) -> None:
        """``last_step``: the step of the checkpoint that training came from (0: none)."""
        self.last_step = last_step
        self.last_seconds = 0.0
        """Seconds that the last save took until durable."""
        self._store, self._group = store, group
        self._worker, self._report = worker, report
        self._launch, self._settings, self._broken = launch, checkpoint, broken
        self._catalogue = Catalogue(store)
        self._thread: Thread | None = None
        self._snapshot: Snapshot | None = None
        self._error: str | None = None
        self._buffers: dict[str, Tensor] = {}
        """The copies' memory: no save begins before the one before has ended."""
        Planner.forget()

    def save(self, tensors: dict[str, Tensor], loop: LoopState, *, final: bool = False) -> None:
        """Start a save of the state as it is now. Waits for the former one first."""
        self.settle()
        copies = copy_to_host(tensors, self._buffers)
        copies[rng_name(self._worker.rank)] = capture_rng()
        name = CheckpointName(step=loop.step, launch=self._launch)
        self._thread = self._start(Snapshot(name, copies, loop, final))

    @property
    def in_flight(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def settle(self) -> bool:
        """Wait for the save in flight, if any. False where it failed (which was logged)."""
        if self._thread is None or self._snapshot is None:
            return True
        if self._thread.is_alive():
            self._report.phase(Phase.SAVE, self._snapshot.loop.step)
        self._thread.join()
        step = self._snapshot.loop.step
        self._thread = self._snapshot = None
        if self._error is None:
            self.last_step = step
        return self._error is None

    def finish(self) -> None:
        """Wait until the last save is durable. Raises ``CheckpointError`` where it failed."""
        if self._thread is None or self._snapshot is None:
            return
        self._report.phase(Phase.UPLOADING, self._snapshot.loop.step)
        self._thread.join()
        if not self.settle():
            raise CheckpointError(
                f"the last checkpoint could not be saved: {self._error}",
                "see the log above; the run resumes from the last committed one",
            )

    def _start(self, snapshot: Snapshot) -> Thread:
        self._snapshot, self._error = snapshot, "the thread that saves ended"
        thread = Thread(target=self._run, args=(snapshot,), name="save", daemon=True)
        thread.start()
        return thread

    def _run(self, snapshot: Snapshot) -> None:
        began = time.monotonic()
        for number in range(1, TRIES + 1):
            try:
                self._write(snapshot)
                self._error = None
                break
            except (Exception, CheckpointException) as error:  # noqa: BLE001 - a failed save must
                # not end training; DCP's own exception is no ``Exception``
                Planner.forget()
                self._error = f"{type(error).__name__}: {error}"
                self._report.line(
                    "save_failed",
                    step=snapshot.loop.step,
                    checkpoint=str(snapshot.name),
                    reason=self._error,
                    tries=number,
                    of=TRIES,
                )
            if number < TRIES:
                time.sleep(RETRY_SECONDS * 2 ** (number - 1))
        self.last_seconds = time.monotonic() - began

    def _write(self, snapshot: Snapshot) -> None:
        name, worker = str(snapshot.name), self._worker
        in_place = self._store.local(name)
        folder = in_place or worker.node_dir / "staging" / name

        def clear() -> None:
            if worker.rank == 0:
                self._catalogue.remove_name(snapshot.name)
            if in_place is None and worker.local_rank == 0:
                shutil.rmtree(folder.parent, ignore_errors=True)

        writer = HashingWriter(folder, clear)
        save_tensors(
            snapshot.tensors, storage_writer=writer, planner=Planner(), process_group=self._group
        )

        def finish() -> list[ManifestEntry]:
            extra = [_write_loop(folder, snapshot.loop)] if worker.rank == 0 else []
            return writer.entries + extra

        written = self._together(finish)
        if in_place is None:
            first = worker.node * worker.local_world_size
            node = written[first : first + worker.local_world_size]
            self._together(lambda: self._upload(name, folder, node))
        entries = sorted((e for rank in written for e in rank), key=lambda e: e.path)
        self._together(lambda: self._commit(snapshot, entries))
        if in_place is None and worker.local_rank == 0:
            keep_copy(worker.node_dir, folder)

    def _upload(self, name: str, folder: Path, node: list[list[ManifestEntry]]) -> None:
        """One rank a node uploads what all of its ranks wrote."""
        if self._worker.local_rank != 0:
            return
        for entry in (entry for rank in node for entry in rank):
            self._store.upload(f"{name}/{entry.path}", folder / entry.path, entry.sha256)

    def _commit(self, snapshot: Snapshot, entries: list[ManifestEntry]) -> None:
        if self._worker.rank != 0:
            return
        loop = snapshot.loop
        manifest = Manifest(
            step=loop.step,
            launch=self._launch,
            world_size=self._worker.world_size,
            tokens=loop.tokens,
            final=snapshot.final,
            spec_fingerprint=fingerprint(loop),
            entries=entries,
        )
        self._store.write(f"{snapshot.name}/{MANIFEST_NAME}", manifest.sealed())
        self._report.line("committed", step=loop.step, checkpoint=str(snapshot.name))
        try:
            keep = self._settings
            self._catalogue.retain(keep.keep_last, self._broken, keep.keep_every)
        except Exception as error:  # noqa: BLE001 - the new one is durable; old ones go next time
            self._report.log(f"could not remove old checkpoints: {error}")

    def _together(self, act: Callable[[], T]) -> list[T]:
        """Run ``act`` on every rank; results by rank, or ``SaveFailed`` on every rank."""
        result: tuple[T | None, str | None]
        try:
            result = (act(), None)
        except Exception as error:  # noqa: BLE001 - it goes to every rank
            result = (None, f"rank {self._worker.rank}: {type(error).__name__}: {error}")
        results: list[tuple[T, str | None]] = [None] * self._worker.world_size  # type: ignore[list-item]
        dist.all_gather_object(results, result, group=self._group)
        errors = [error for _, error in results if error]
        if errors:
            raise SaveFailed(errors[0])
        return [value for value, _ in results]


def fingerprint(loop: LoopState) -> str:
    """Short hash of what must not change within a run."""
    text = LoopState(identity=loop.identity).model_dump_json()
    return sha256(text.encode()).hexdigest()[:16]


def _write_loop(folder: Path, loop: LoopState) -> ManifestEntry:
    data = loop.model_dump_json(indent=1).encode()
    with (folder / LOOP_NAME).open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return ManifestEntry(path=LOOP_NAME, size=len(data), sha256=sha256(data).hexdigest())
