"""An exporter that is not ours, for ``finish.command``: the foreign trainers' state, manifest last.

CHECKPOINT_URI OUT_URI --dtype DTYPE --dataset URI, as docs/trainer-contract.md says.
"""

import argparse
import hashlib
import json
import sys

from tests.chaos.lean import S3, parse


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoint")
    parser.add_argument("out")
    parser.add_argument("--dtype")
    parser.add_argument("--dataset")
    args = parser.parse_args()
    bucket, prefix = parse(args.checkpoint)
    s3 = S3(bucket)
    manifest = json.loads(s3.get(f"{prefix}/manifest.json") or b"")
    state = s3.get(f"{prefix}/state.txt") or b""
    out_bucket, out = parse(args.out)
    there = S3(out_bucket)
    there.put(f"{out}/state.txt", state)
    digest = hashlib.sha256(state).hexdigest()
    done = {
        "checkpoint": prefix.rsplit("/", 1)[-1],
        "step": manifest["step"],
        "tokens": manifest["tokens"],
        "dtype": args.dtype,
        "parameters": 1,
        "entries": [{"path": "state.txt", "size": len(state), "sha256": digest}],
    }
    there.put(f"{out}/export.json", json.dumps(done).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
