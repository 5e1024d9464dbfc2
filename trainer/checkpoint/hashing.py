"""A DCP file-system writer that knows size and SHA-256 of each file as it writes it."""

import io
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from torch.distributed.checkpoint.filesystem import (
    FileSystem,
    FileSystemWriter,
    _StoragePrefix,
    _StorageWriterTransforms,
)
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItem
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future
from torch.serialization import set_crc32_options

from everstep.contracts.manifest import ManifestEntry
from trainer.checkpoint.planning import is_scalar

_BUFFER = 1 << 20


class _HashingStream(io.RawIOBase):
    """Append-only: DCP writes a file from front to back and never seeks."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self.size = 0
        self.digest = sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        written: int = self._raw.write(data)  # a file takes 2 GiB at most; the rest comes again
        self.digest.update(data[:written])
        self.size += written
        return written

    def tell(self) -> int:
        return self.size


class _LargePieces(io.BufferedWriter):
    """torch.save writes some 40 pieces a tensor, most of a few bytes, and flushes after each tensor
    twice: hashed and written one by one they cost more than the hash, and ask for the GIL that
    training holds. What is buffered leaves in large pieces, and the rest at ``finish``."""

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def finish(self) -> None:
        super().flush()


class _Direct(_StorageWriterTransforms):
    """No transforms, and so no wrapper (DCP makes a class for each tensor) between each piece that
    torch.save writes and the file."""

    def transform_save_stream(
        self, write_item: WriteItem, raw_stream: io.IOBase
    ) -> tuple[Any, list[str]]:
        return raw_stream, []


class _HashingFileSystem(FileSystem):
    def __init__(self) -> None:
        self.entries: dict[str, ManifestEntry] = {}

    @contextmanager
    def create_stream(
        self, path: str | os.PathLike[str], mode: str
    ) -> Generator[io.IOBase, None, None]:
        if mode != "wb":
            with super().create_stream(path, mode) as stream:
                yield stream
            return
        with Path(path).open("wb", buffering=0) as raw:
            hashing = _HashingStream(raw)
            buffered = _LargePieces(hashing, _BUFFER)
            yield buffered
            buffered.finish()
            os.fsync(raw.fileno())  # DCP's own would come before the last piece is written
        name = Path(path).name
        self.entries[name] = ManifestEntry(
            path=name, size=hashing.size, sha256=hashing.digest.hexdigest()
        )

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        super().rename(path, new_path)
        entry = self.entries.pop(Path(path).name)
        name = Path(new_path).name
        self.entries[name] = entry.model_copy(update={"path": name})


class HashingWriter(FileSystemWriter):
    """``entries``: what this rank wrote, by file name, complete after the save.

    ``clear`` removes what lies in the way. DCP hands out its plan when every rank has called it, so
    it has ended everywhere before any rank writes.
    """

    def __init__(self, folder: Path, clear: Callable[[], None]) -> None:
        super().__init__(folder, single_file_per_rank=True, sync_files=False, thread_count=1)
        self.fs: _HashingFileSystem = _HashingFileSystem()
        self.transforms = _Direct()
        self._clear = clear

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        self._clear()
        return plan

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """``__RANK_0.distcp``, and scalars in ``__RANK_scalars_0.distcp``."""
        # of this thread alone; torch.load never reads it, and the manifest's SHA-256 says more
        set_crc32_options(False)
        self.fs.mkdir(self.path)
        prefix = plan.storage_data.prefix
        parts = {
            prefix: [item for item in plan.items if not is_scalar(item)],
            f"{prefix}scalars_": [item for item in plan.items if is_scalar(item)],
        }
        results: list[WriteResult] = []
        for start, items in parts.items():
            if items:
                part = replace(plan, items=items, storage_data=_StoragePrefix(start))
                results += super().write_data(part, planner).wait()
        done: Future[list[WriteResult]] = Future()
        done.set_result(results)
        return done

    @property
    def entries(self) -> list[ManifestEntry]:
        return list(self.fs.entries.values())
