"""One loader of the bench, in a process of its own: ``python -m bench.loader_contenders NAME``.

Each yields what a training step takes: an int64 tensor of shape (rows, length + 1), shuffled, from
one process, out of a corpus in the page cache. Its last line on standard output is tokens/s.
Peers run with their own ways and defaults; where one has two, both are here.
"""

import argparse
import shutil
import sys
import time
import types
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.loader_corpus import LENGTH, ROWS, TOKENS, tokens_file

WARM_SECONDS = 1.0
Batches = Iterator[Tensor]


def ours(corpus: Path) -> Batches:
    from trainer.data import Dataset, Samples

    dataset = Dataset(corpus / "ours", verify=False)
    samples = Samples([dataset], LENGTH, 0, dataset.index.vocab_size, ROWS)
    position = 0
    while True:
        yield torch.from_numpy(samples.batch(range(position, position + ROWS)).tokens)
        position += ROWS


def ours_documents(corpus: Path) -> Batches:
    """The same, with positions and document numbers of packed documents."""
    from trainer.data import Dataset, Samples

    dataset = Dataset(corpus / "ours", verify=False)
    samples = Samples([dataset], LENGTH, 0, dataset.index.vocab_size, ROWS, separator=0)
    position = 0
    while True:
        batch = samples.batch(range(position, position + ROWS))
        assert batch.documents is not None
        yield torch.from_numpy(batch.tokens)
        position += ROWS


def bare(corpus: Path) -> Batches:
    """The loop that people write: a random place, a cast, a stack."""
    data = np.memmap(tokens_file(corpus), dtype=np.uint16, mode="r")
    draw = np.random.default_rng(0)
    while True:
        starts = draw.integers(0, len(data) - LENGTH - 1, ROWS).tolist()
        yield torch.stack(
            [torch.from_numpy(data[i : i + LENGTH + 1].astype(np.int64)) for i in starts]
        )


def bare_in_place(corpus: Path) -> Batches:
    """The same without the stack: each row is cast into its place."""
    data = np.memmap(tokens_file(corpus), dtype=np.uint16, mode="r")
    draw = np.random.default_rng(0)
    while True:
        rows = np.empty((ROWS, LENGTH + 1), dtype=np.int64)
        for row, start in enumerate(draw.integers(0, len(data) - LENGTH - 1, ROWS).tolist()):
            rows[row] = data[start : start + LENGTH + 1]
        yield torch.from_numpy(rows)


def _windows(corpus: Path) -> Iterator[np.ndarray]:
    data = np.memmap(tokens_file(corpus), dtype=np.uint16, mode="r")
    for start in range(0, len(data) - LENGTH, LENGTH):
        yield np.array(data[start : start + LENGTH + 1])


def _made(folder: Path, make: Callable[[Path], None]) -> Path:
    """``folder``, made by ``make`` the first time; whole or not at all."""
    if not folder.exists():
        unfinished = folder.with_name(folder.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        make(unfinished)
        unfinished.rename(folder)
    return folder


def litdata(corpus: Path) -> Batches:
    from litdata import StreamingDataLoader, StreamingDataset, TokensLoader
    from litdata.streaming.writer import BinaryWriter

    def make(folder: Path) -> None:
        writer = BinaryWriter(
            str(folder), chunk_size=(LENGTH + 1) * 8192, item_loader=TokensLoader(LENGTH + 1)
        )
        for number, window in enumerate(_windows(corpus)):
            writer.add_item(number, torch.from_numpy(window.astype(np.int32)))
        writer.done()
        writer.merge()

    dataset = StreamingDataset(
        str(_made(corpus / "litdata", make)), item_loader=TokensLoader(LENGTH + 1), shuffle=True
    )
    while True:
        for batch in StreamingDataLoader(dataset, batch_size=ROWS, num_workers=0, drop_last=True):
            yield batch.to(torch.int64)


class _Source:
    """Grain's random-access source over the same file."""

    def __init__(self, path: Path) -> None:
        self._data = np.memmap(path, dtype=np.uint16, mode="r")

    def __len__(self) -> int:
        return (len(self._data) - 1) // LENGTH

    def __getitem__(self, index: int) -> np.ndarray:
        start = int(index) * LENGTH
        return self._data[start : start + LENGTH + 1].astype(np.int64)


def _grain(corpus: Path, threads: int) -> Batches:
    import grain

    dataset = (
        grain.MapDataset.source(_Source(tokens_file(corpus))).shuffle(seed=0).repeat().batch(ROWS)
    )
    for batch in dataset.to_iter_dataset(grain.ReadOptions(num_threads=threads)):
        yield torch.from_numpy(batch)


def grain(corpus: Path) -> Batches:
    return _grain(corpus, 16)


def grain_without_threads(corpus: Path) -> Batches:
    return _grain(corpus, 0)


def mosaicml_streaming(corpus: Path) -> Batches:
    _without_torchvision()
    from streaming import MDSWriter, StreamingDataset
    from torch.utils.data import DataLoader

    def make(folder: Path) -> None:
        with MDSWriter(out=str(folder), columns={"tokens": "ndarray:uint16"}) as writer:
            for window in _windows(corpus):
                writer.write({"tokens": window})

    dataset = StreamingDataset(
        local=str(_made(corpus / "mosaicml", make)), shuffle=True, batch_size=ROWS
    )

    def collate(items: list[dict[str, Any]]) -> Tensor:
        return torch.from_numpy(np.stack([item["tokens"] for item in items]).astype(np.int64))

    while True:
        yield from DataLoader(
            dataset, batch_size=ROWS, num_workers=0, drop_last=True, collate_fn=collate
        )


def _without_torchvision() -> None:
    """streaming imports it for image datasets that nothing here uses, and its wheels do not load
    beside every build of torch."""
    try:
        import torchvision  # noqa: F401
    except (ImportError, RuntimeError):
        for name in ("", ".datasets", ".transforms", ".transforms.functional"):
            module = _AnyName(f"torchvision{name}")
            module.__spec__ = ModuleSpec(module.__name__, None)
            module.__path__ = []
            sys.modules[module.__name__] = module


class _AnyName(types.ModuleType):
    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


OURS = {"ours": ours, "ours, documents": ours_documents}
BARE = {"bare memmap": bare, "bare memmap, in place": bare_in_place}
PEERS = {
    "litdata": litdata,
    "grain": grain,
    "grain, no threads": grain_without_threads,
    "mosaicml-streaming": mosaicml_streaming,
}


def measure(batches: Batches, seconds: float) -> float:
    """Tokens a second, after a warm-up."""
    began = time.perf_counter()
    while time.perf_counter() - began < WARM_SECONDS:
        batch = next(batches)
        assert batch.shape == (ROWS, LENGTH + 1), batch.shape
        assert batch.dtype == torch.int64
    count, began = 0, time.perf_counter()
    while (took := time.perf_counter() - began) < seconds:
        count += next(batches)[:, 1:].numel()
    return count / took


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=[*OURS, *BARE, *PEERS])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=3.0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tokens_file(args.corpus).open("rb") as file:  # into the page cache, for whoever maps it
        while file.read(1 << 24):
            pass
    rate = measure((OURS | BARE | PEERS)[args.name](args.corpus), args.seconds)
    assert rate < TOKENS * 1000
    print(rate)
    return 0


if __name__ == "__main__":
    sys.exit(main())
