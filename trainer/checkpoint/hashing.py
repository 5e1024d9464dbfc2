"""A DCP file-system writer that knows size and SHA-256 of each file as it writes it."""

import io
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from torch.distributed.checkpoint.filesystem import (
    FileSystem,
    FileSystemWriter,
    _StoragePrefix,
)
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from everstep.contracts.manifest import ManifestEntry
from trainer.checkpoint.planning import is_scalar

_BUFFER = 4 << 20


class _HashingStream(io.RawIOBase):
    """Append-only: DCP writes a file from front to back and never seeks."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self.size = 0
        self.digest = sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self.digest.update(view)
        self.size += len(view)
        self._raw.write(view)
        return len(view)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        self._raw.flush()

    def fileno(self) -> int:
        return int(self._raw.fileno())


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
        with Path(path).open("wb") as raw:
            hashing = _HashingStream(raw)
            # torch.save writes hundreds of bytes at a time; hashing each by itself costs more
            # than the hash, and asks for the GIL that training holds
            buffered = io.BufferedWriter(hashing, _BUFFER)
            yield buffered
            buffered.close()
            raw.flush()
            os.fsync(raw.fileno())  # DCP's own comes before the last buffer is written
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
    """``entries``: what this rank wrote, by file name, complete after the save."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, single_file_per_rank=True, sync_files=False, thread_count=1)
        self.fs: _HashingFileSystem = _HashingFileSystem()

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """``__RANK_0.distcp``, and scalars in ``__RANK_scalars_0.distcp``."""
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
