"""``python -m trainer.verify URI [--digest]``: is this checkpoint the one that was written?

URI is a checkpoint's folder, or a run's checkpoint prefix (its newest committed one is meant).
Exit 0: every file has the size and SHA-256 of the manifest. Exit 1: words on standard error say
what does not. ``--digest`` also prints hashes over whole tensors, which do not depend on how
they were sharded: two runs ended with the same weights if these are equal.
"""

import argparse
import json
import sys
import tempfile
import warnings
from hashlib import sha256
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from everstep.contracts.manifest import CheckpointName, Manifest
from trainer.checkpoint.catalogue import (
    BrokenCheckpoint,
    Catalogue,
    Listed,
    describe_difference,
)
from trainer.errors import TrainerError
from trainer.store import Store, open_store


def main(argv: list[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="everstep-verify-") as scratch:
        try:
            store, listed = locate(args.uri)
            manifest = Catalogue(store).manifest(listed)
            folder = fetch(store, listed, manifest, Path(scratch))
        except BrokenCheckpoint as error:
            print(f"broken: {args.uri}: {error}", file=sys.stderr)
            return 1
        except (OSError, TrainerError, BotoCoreError, ClientError) as error:
            print(
                f"error: cannot read {args.uri}: {error}\nhint: a folder, or s3://bucket/prefix; "
                "credentials, region and AWS_ENDPOINT_URL are read as the AWS CLI reads them",
                file=sys.stderr,
            )
            return 1
        summary: dict[str, object] = {
            "checkpoint": str(listed.name),
            "ok": True,
            "step": manifest.step,
            "tokens": manifest.tokens,
            "world_size": manifest.world_size,
            "final": manifest.final,
            "files": len(manifest.entries),
            "bytes": sum(entry.size for entry in manifest.entries),
        }
        if args.digest:
            summary |= {
                "weights_sha256": tensor_digest(folder, "model."),
                "optimizer_sha256": tensor_digest(folder, "optimizer."),
            }
    if args.digest or args.json:
        print(json.dumps(summary))
    else:
        print(f"{listed.name}: whole ({summary['files']} files, {summary['bytes']} bytes)")
    return 0


def locate(uri: str) -> tuple[Store, Listed]:
    """The checkpoint that ``uri`` names. Raises ``BrokenCheckpoint`` where there is none."""
    root, _, last = uri.rstrip("/").rpartition("/")
    name = CheckpointName.parse(last)
    store = open_store((root or ".") if name else uri)
    for listed in Catalogue(store).newest_first():
        if listed.name == name or (name is None and listed.committed):
            return store, listed
    raise BrokenCheckpoint("no such checkpoint" if name else "no committed checkpoint")


def fetch(store: Store, listed: Listed, manifest: Manifest, scratch: Path) -> Path:
    """The verified files' folder. Raises ``BrokenCheckpoint`` at the first that differs."""
    folder = store.local(str(listed.name)) or scratch / str(listed.name)
    for entry in manifest.entries:
        size, digest = store.download(f"{listed.name}/{entry.path}", folder / entry.path)
        if reason := describe_difference(entry, size, digest):
            raise BrokenCheckpoint(reason)
    return folder


def tensor_digest(folder: Path, prefix: str) -> str:
    """Hex SHA-256 over name, type, shape and bytes of every whole tensor below ``prefix``.

    One tensor is in memory at a time. Call it on verified files only: it unpickles.
    """
    import torch
    from torch.distributed.checkpoint.filesystem import FileSystemReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata
    from torch.distributed.checkpoint.state_dict_loader import load

    reader = FileSystemReader(folder)
    saved = reader.read_metadata().state_dict_metadata
    warnings.filterwarnings("ignore", message="torch.distributed is disabled")
    digest = sha256()
    for name in sorted(key for key in saved if key.startswith(prefix)):
        about = saved[name]
        if not isinstance(about, TensorStorageMetadata):
            continue
        tensor = torch.empty(about.size, dtype=about.properties.dtype)
        load({name: tensor}, storage_reader=FileSystemReader(folder), no_dist=True)
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m trainer.verify", description=__doc__)
    parser.add_argument("uri", help="folder or s3:// URI of a checkpoint, or of a run's prefix")
    parser.add_argument("--digest", action="store_true", help="hashes over the whole tensors")
    parser.add_argument("--json", action="store_true", help="the summary as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
