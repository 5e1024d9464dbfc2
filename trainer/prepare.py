"""``python -m trainer.prepare --out DIR``: text files → tokenizer and token shards.

Without ``--source`` it reads the running interpreter's own standard library: real text that is
on every machine. Deterministic: sorted files, no clock, no random numbers.
"""

import argparse
import json
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from trainer.errors import DataError
from trainer.shards import INDEX_NAME, SCHEMA, Index, Shard

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SKIPPED = frozenset(
    {
        "site-packages",
        "dist-packages",
        "test",
        "tests",
        "__pycache__",
        "idle_test",
        "lib2to3",
        "turtledemo",
        "ensurepip",
    }
)
VOCABULARY_MB = 2.0
"""Text that the vocabulary is learnt from: more changes little and costs seconds."""
SHARD_TOKENS = 1 << 20
END = "<|end|>"
LEAST_VOCABULARY = 257
"""Every byte, and ``END``."""


def main(argv: list[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    try:
        summary = prepare(
            args.source,
            args.out,
            args.vocab_size,
            args.limit_mb,
            args.suffix,
            args.shard_tokens,
            args.folders,
        )
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(
            f"error: cannot write {args.out}: {error} (hint: a folder of yours with room)",
            file=sys.stderr,
        )
        return 1
    print(
        json.dumps(summary)
        if args.json
        else f"{summary['tokens']} tokens of {summary['files']} files in {args.out}; "
        f"data.document_separator = {summary['document_separator']}"
    )
    return 0


def prepare(
    source: Path,
    out: Path,
    vocab_size: int,
    limit_mb: float,
    suffix: str,
    shard_tokens: int = SHARD_TOKENS,
    folders: int = 1,
) -> dict[str, object]:
    """Writes ``out``/index.json, shard-NNNNN.bin, tokenizer.json; returns what was done.

    Raises ``DataError`` where there is no text. Files are taken in sorted order, up to
    ``limit_mb`` × 10⁶ bytes.
    """
    began = time.monotonic()
    texts = list(_texts(source, suffix, int(limit_mb * 1e6)))
    if not texts:
        raise DataError(f"no *{suffix} text below {source}", "check --source and --suffix")
    size = sum(map(len, texts))
    _say(f"read {len(texts)} files, {size / 1e6:.1f} MB")
    out.mkdir(parents=True, exist_ok=True)  # before the long part, where it cannot be made
    tokenizer = _train_tokenizer(texts, vocab_size)
    _say(f"vocabulary of {tokenizer.get_vocab_size()} in {time.monotonic() - began:.1f} s")
    end = tokenizer.token_to_id(END)
    assert end is not None
    tokens: list[int] = []
    for encoding in tokenizer.encode_batch(texts):
        tokens.extend(encoding.ids)
        tokens.append(end)
    # not its own save(), whose error of a full disk is a bare Exception
    (out / "tokenizer.json").write_text(tokenizer.to_str(pretty=True), encoding="utf-8")
    index = write_dataset(out, tokens, tokenizer.get_vocab_size(), shard_tokens, folders)
    _say(f"{index.total_tokens} tokens in {time.monotonic() - began:.1f} s")
    return {
        "out": str(out),
        "files": len(texts),
        "bytes": size,
        "tokens": index.total_tokens,
        "vocab_size": index.vocab_size,
        "shards": len(index.shards),
        "fingerprint": index.fingerprint,
        "document_separator": end,
        "seconds": round(time.monotonic() - began, 2),
    }


def write_dataset(
    out: Path,
    tokens: Sequence[int] | NDArray[Any],
    vocab_size: int,
    shard_tokens: int,
    folders: int = 1,
) -> Index:
    """Shards first, ``index.json`` last, so that a torn preparation is no dataset.

    ``folders`` > 1 spreads the shards: S3 scales by key prefix.
    """
    dtype: Literal["uint16", "uint32"] = "uint16" if vocab_size <= 1 << 16 else "uint32"
    data = np.asarray(tokens, dtype=np.dtype(dtype).newbyteorder("<"))
    out.mkdir(parents=True, exist_ok=True)
    (out / INDEX_NAME).unlink(missing_ok=True)
    shards = []
    for number, start in enumerate(range(0, len(data), shard_tokens)):
        part = data[start : start + shard_tokens]
        raw = part.tobytes()
        name = f"shard-{number:05d}.bin"
        if folders > 1:
            name = f"{number % folders:02x}/{name}"
            (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_bytes(raw)
        shards.append(Shard(file=name, tokens=len(part), sha256=sha256(raw).hexdigest()))
    index = Index(
        dtype=dtype, vocab_size=vocab_size, total_tokens=len(data), shards=shards, fingerprint=""
    )
    index = index.model_copy(update={"fingerprint": index.computed_fingerprint()})
    (out / INDEX_NAME).write_text(json.dumps({"schema": SCHEMA, **index.model_dump()}, indent=1))
    return index


def _texts(source: Path, suffix: str, limit: int) -> Iterator[str]:
    taken = 0
    for path in sorted(source.rglob(f"*{suffix}")):
        if SKIPPED.intersection(path.relative_to(source).parts[:-1]) or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if not text:
            continue
        taken += len(text.encode())
        if taken > limit:
            return
        yield text


def _train_tokenizer(texts: list[str], vocab_size: int) -> "Tokenizer":
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END],
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    learnt: list[str] = []
    size = 0
    # every k-th file, so that the sample is not just the names that begin with "a"
    step = max(1, int(sum(map(len, texts)) / (VOCABULARY_MB * 1e6)))
    for text in texts[::step]:
        learnt.append(text)
        size += len(text)
        if size > VOCABULARY_MB * 1e6:
            break
    tokenizer.train_from_iterator(learnt, trainer)
    return tokenizer


def _say(text: str) -> None:
    print(f"prepare: {text}", file=sys.stderr, flush=True)


def _whole(least: int, most: int) -> Callable[[str], int]:
    """An argument's type: a whole number in these bounds."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} to {most}")
        return value

    return parse


def _megabytes(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:  # NaN too
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return value


def _folder(text: str) -> Path:
    if "://" in text:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no folder of this machine; "
            "hint: prepare into one, then `aws s3 cp --recursive` it there"
        )
    return Path(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m trainer.prepare", description=__doc__)
    parser.add_argument(
        "--source",
        type=Path,
        default=Path(sysconfig.get_paths()["stdlib"]),
        help="folder of text files (default: Python's standard library)",
    )
    parser.add_argument("--out", type=_folder, required=True, help="a folder of this machine")
    parser.add_argument("--vocab-size", type=_whole(LEAST_VOCABULARY, 1 << 24), default=1024)
    parser.add_argument("--limit-mb", type=_megabytes, default=6.0)
    parser.add_argument("--suffix", default=".py")
    parser.add_argument("--shard-tokens", type=_whole(1, 1 << 40), default=SHARD_TOKENS)
    parser.add_argument(
        "--folders",
        type=_whole(1, 256),
        default=1,
        help="spread the shards (for data.mode s3 at scale)",
    )
    parser.add_argument("--json", action="store_true", help="summary as JSON on standard output")
    return parser


if __name__ == "__main__":
    sys.exit(main())
