"""What the loader bench reads: a corpus in memory's size, and one of 10¹² tokens without bytes."""

import json
from pathlib import Path

import numpy as np

from trainer.prepare import write_dataset
from trainer.shards import INDEX_NAME, SCHEMA, Index, Shard

LENGTH, ROWS = 2048, 64
TOKENS = 1 << 27
VOCAB = 32_000
_LARGE_SHARDS, _LARGE_SHARD = 1000, 10**9


def tokens_file(corpus: Path) -> Path:
    """All tokens, uint16, in one file: the only shard of ours, and what bare loops map."""
    return corpus / "ours" / "shard-00000.bin"


def make_corpus(corpus: Path) -> None:
    """Random tokens, so that nothing compresses. A document ends every 700 or so."""
    if not (corpus / "ours" / INDEX_NAME).exists():
        tokens = np.random.default_rng(0).integers(1, VOCAB, TOKENS, dtype=np.uint16)
        tokens[::700] = 0
        write_dataset(corpus / "ours", tokens, VOCAB, TOKENS)


def make_large(folder: Path) -> Path:
    """10¹² tokens in sparse files: position restore does not read what it skips."""
    folder.mkdir(parents=True, exist_ok=True)
    shards = []
    for number in range(_LARGE_SHARDS):
        name = f"shard-{number:05d}.bin"
        with (folder / name).open("wb") as file:
            file.truncate(_LARGE_SHARD * 2)
        shards.append(Shard(file=name, tokens=_LARGE_SHARD, sha256=f"{number:064x}"))
    index = Index(
        dtype="uint16",
        vocab_size=VOCAB,
        total_tokens=_LARGE_SHARDS * _LARGE_SHARD,
        shards=shards,
        fingerprint="",
    )
    index = index.model_copy(update={"fingerprint": index.computed_fingerprint()})
    (folder / INDEX_NAME).write_text(json.dumps({"schema": SCHEMA, **index.model_dump()}))
    return folder
