"""``python -m trainer.export CHECKPOINT_URI OUT_URI``: a checkpoint as Hugging Face Llama weights.

The checkpoint is verified first, file by file. Weights are then written shard after shard: memory
holds one shard, disk the checkpoint and one shard. ``export.json`` comes last; an export without
it is none. Run again, it writes the same files.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load

from everstep.contracts.env import TrainerEnv
from everstep.contracts.exports import EXPORT_MANIFEST, ExportManifest
from everstep.contracts.manifest import Manifest, ManifestEntry
from everstep.contracts.models import ModelConfig
from everstep.contracts.progress import Phase
from trainer.checkpoint.catalogue import Catalogue, Listed
from trainer.checkpoint.state import LOOP_NAME, LoopState
from trainer.errors import ConfigError
from trainer.failure import FailureRecorder
from trainer.host import MlRoot
from trainer.import_weights import weights_folder
from trainer.llama_names import llama_config, theirs
from trainer.merge import Merged
from trainer.parallel import DTYPES
from trainer.prepare import END
from trainer.report import Reporter
from trainer.store import Store, hash_file, open_store
from trainer.verify import fetch, locate

ALONE = TrainerEnv().run_id
MODEL = "model."
TOKENIZER = "tokenizer.json"
WRITTEN = re.compile(
    rf"model(-\d+-of-\d+)?\.safetensors(\.index\.json)?|(tokenizer_)?config\.json|{TOKENIZER}"
)
"""What an earlier try may have left: nothing else in the folder is touched."""
SHARD_BYTES = 4_000_000_000
"""Below S3's largest single PUT, so that every object carries its checksum."""


class Weight(NamedTuple):
    """One tensor of the checkpoint: its names there and here, its shape."""

    saved: str
    name: str
    size: torch.Size


def main(argv: list[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    report = Reporter(rank=0)
    try:
        with tempfile.TemporaryDirectory(prefix="everstep-export-", dir=args.scratch) as scratch:
            base = args.weights and weights_folder(args.weights, MlRoot.parse(os.environ))
            store, listed = locate(args.checkpoint)
            report.phase(Phase.DOWNLOADING, listed.name.step)
            manifest = Catalogue(store).manifest(listed)
            folder = fetch(store, listed, manifest, Path(scratch))
            report.phase(Phase.UPLOADING, manifest.step)
            export = Export(folder, listed, manifest, open_store(args.out), Path(scratch))
            done = export.run(args.dtype, args.max_shard_bytes, args.dataset, base)
    except Exception as error:  # noqa: BLE001 - said in the failure file, and in the log
        env = TrainerEnv.parse(os.environ)
        if env.run_id != ALONE:
            failures = FailureRecorder(env, MlRoot.parse(os.environ), host="", rank=0)
            failures.write(failures.from_exception(error, step=None))
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(json.dumps({"exported": args.out, **done.model_dump(exclude={"entries"})}))
    return 0


class Export:
    """One verified checkpoint on its way to ``out``."""

    def __init__(
        self, folder: Path, listed: Listed, manifest: Manifest, out: Store, scratch: Path
    ) -> None:
        self._folder, self._listed, self._manifest = folder, listed, manifest
        self._out, self._scratch = out, scratch
        self._entries: list[ManifestEntry] = []
        self._merged: Merged | None = None

    def run(
        self, dtype: str, shard_bytes: int, dataset: str | None, base: Path | None = None
    ) -> ExportManifest:
        """``base``: the weights that a LoRA run's adapters stand beside; they are merged."""
        loop = LoopState.model_validate_json((self._folder / LOOP_NAME).read_text())
        shape = ModelConfig.model_validate(loop.identity["model"])
        if lora := loop.identity.get("lora"):
            self._merged = Merged(base, shape, lora, self._saved)
        tokenizer = self._tokenizer(dataset)
        self._clear()
        weights = self._weights()
        self._write_shards(weights, DTYPES[dtype], shard_bytes)
        length = int(loop.identity["sequence_length"])
        end = None if tokenizer is None else self._write_tokenizer(tokenizer, length)
        kind = str(DTYPES[dtype]).removeprefix("torch.")
        self._write_json("config.json", llama_config(shape, length, kind, end))
        done = ExportManifest(
            checkpoint=str(self._listed.name),
            step=self._manifest.step,
            tokens=self._manifest.tokens,
            dtype=dtype,
            parameters=sum(weight.size.numel() for weight in weights),
            entries=sorted(self._entries, key=lambda entry: entry.path),
        )
        self._out.write(EXPORT_MANIFEST, done.model_dump_json(indent=1).encode())
        return done

    def _clear(self) -> None:
        """What an earlier try left: its manifest first, then the rest."""
        if self._out.read(EXPORT_MANIFEST) is not None:
            self._out.delete([EXPORT_MANIFEST])
        self._out.delete([key for key in sorted(self._out.listing()) if WRITTEN.fullmatch(key)])

    def _weights(self) -> list[Weight]:
        """In order of their names, which is the order of layers too."""
        if self._merged is not None:
            return [Weight(f"{MODEL}{n}", theirs(n), s) for n, s in self._merged.sizes()]
        saved = FileSystemReader(self._folder).read_metadata().state_dict_metadata
        return [
            Weight(key, theirs(key.removeprefix(MODEL)), about.size)
            for key, about in sorted(saved.items())
            if key.startswith(MODEL) and isinstance(about, TensorStorageMetadata)
        ]

    def _write_shards(self, weights: list[Weight], dtype: torch.dtype, shard_bytes: int) -> None:
        shards = list(_split(weights, dtype.itemsize, shard_bytes))
        index: dict[str, str] = {}
        for number, shard in enumerate(shards, 1):
            file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
            if len(shards) == 1:
                file = "model.safetensors"
            path = self._scratch / file
            save_file({w.name: self._read(w, dtype) for w in shard}, path, {"format": "pt"})
            self._upload(file, path)
            path.unlink()
            index |= {w.name: file for w in shard}
        if len(shards) > 1:
            total = sum(w.size.numel() * dtype.itemsize for w in weights)
            self._write_json(
                "model.safetensors.index.json",
                {"metadata": {"total_size": total}, "weight_map": index},
            )

    def _read(self, weight: Weight, dtype: torch.dtype) -> Tensor:
        if self._merged is not None:
            return self._merged.read(weight.saved.removeprefix(MODEL)).to(dtype)
        return self._saved(weight.saved, weight.size).to(dtype)

    def _saved(self, name: str, size: torch.Size) -> Tensor:
        whole = torch.empty(size, dtype=torch.float32)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")
            reader = FileSystemReader(self._folder)
            load({name: whole}, storage_reader=reader, no_dist=True)
        return whole

    def _tokenizer(self, dataset: str | None) -> bytes | None:
        """The dataset's own, if it has one: not every dataset does, and that is said."""
        if dataset is None:
            return None
        store = open_store(dataset)
        folder = store.local("")
        if folder is not None and not folder.is_dir():
            raise ConfigError(
                f"--dataset {dataset}: there is no such folder", "the folder that holds index.json"
            )
        # Listed first: a job role is told 403, not 404, of an object that is not there.
        if TOKENIZER in store.listing():
            return store.read(TOKENIZER)
        print(f"export: no {TOKENIZER} in {dataset}: none is written", file=sys.stderr)
        return None

    def _write_tokenizer(self, raw: bytes, length: int) -> int | None:
        """Itself, and a word on how to load it. Its end token's id."""
        self._write(TOKENIZER, raw)
        added = json.loads(raw).get("added_tokens", [])
        end = next((token["id"] for token in added if token["content"] == END), None)
        self._write_json(
            "tokenizer_config.json",
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "model_max_length": length,
                **({} if end is None else {"eos_token": END}),
            },
        )
        return end

    def _write_json(self, key: str, value: object) -> None:
        self._write(key, (json.dumps(value, indent=2) + "\n").encode())

    def _write(self, key: str, data: bytes) -> None:
        self._out.write(key, data)
        digest = sha256(data).hexdigest()
        self._entries.append(ManifestEntry(path=key, size=len(data), sha256=digest))

    def _upload(self, key: str, path: Path) -> None:
        size, digest = hash_file(path)
        self._out.upload(key, path, digest)
        self._entries.append(ManifestEntry(path=key, size=size, sha256=digest))


def _split(weights: list[Weight], itemsize: int, shard_bytes: int) -> Iterator[list[Weight]]:
    """In order, as many as fit; a tensor that is larger than a shard has one of its own."""
    shard: list[Weight] = []
    size = 0
    for weight in weights:
        more = weight.size.numel() * itemsize
        if shard and size + more > shard_bytes:
            yield shard
            shard, size = [], 0
        shard.append(weight)
        size += more
    if not shard:
        raise ConfigError("the checkpoint holds no model", "is it a checkpoint of this trainer?")
    yield shard


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m trainer.export", description=__doc__)
    parser.add_argument("checkpoint", help="folder or s3:// URI: a checkpoint, or a run's prefix")
    parser.add_argument("out", help="folder or s3:// URI; an earlier export in it is replaced")
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="bf16")
    parser.add_argument("--max-shard-bytes", type=int, default=SHARD_BYTES)
    parser.add_argument("--dataset", help="folder or s3:// URI whose tokenizer.json is copied")
    parser.add_argument(
        "--weights", help="of a LoRA run: what it started from, a folder (with a /) or a channel"
    )
    parser.add_argument("--scratch", help="folder for the checkpoint and one shard (default: tmp)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
