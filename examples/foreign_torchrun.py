"""A torchrun program of your own under Everstep: nothing of Everstep's is imported.

It keeps docs/trainer-contract.md by itself: finds the newest committed checkpoint at every start,
says each step in a line of JSON, writes data first and ``manifest.json`` last, stops on SIGTERM.
In the run spec: ``"trainer": {"launcher": "torchrun", "command": ["foreign_torchrun.py"], …}``.
"""

import hashlib
import io
import json
import os
import signal
import time

import boto3
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

URI = os.environ["EVERSTEP_CHECKPOINT_URI"].removeprefix("s3://")
BUCKET, _, PREFIX = URI.partition("/")
LAUNCH = int(os.environ["EVERSTEP_LAUNCH"])
with open(
    os.environ.get("EVERSTEP_ML_ROOT", "/opt/ml") + "/input/config/hyperparameters.json"
) as file:
    HYPERPARAMETERS = json.load(file)
STEPS, SAVE_EVERY = int(HYPERPARAMETERS["stop.steps"]), int(HYPERPARAMETERS.get("save_every", 10))
SLOWLY = float(HYPERPARAMETERS.get("step_seconds", 0))


def say(kind: str, **fields: object) -> None:
    if dist.get_rank() == 0:
        print(json.dumps({"everstep": kind, **fields}, separators=(",", ":")), flush=True)


def newest(s3) -> tuple[str | None, dict]:
    """Folder and content of the newest checkpoint that is committed and whole."""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=PREFIX + "/")
    keys = [item["Key"] for page in pages for item in page.get("Contents", [])]
    for key in sorted((k for k in keys if k.endswith("/manifest.json")), reverse=True):
        folder = key.rsplit("/", 1)[0]
        manifest = json.loads(s3.get_object(Bucket=BUCKET, Key=key)["Body"].read())
        data = s3.get_object(Bucket=BUCKET, Key=f"{folder}/state.pt")["Body"].read()
        if hashlib.sha256(data).hexdigest() == manifest["entries"][0]["sha256"]:
            return folder.rsplit("/", 1)[1], torch.load(io.BytesIO(data), weights_only=True)
        say("skip_checkpoint", checkpoint=folder, reason="state.pt is not what was written")
    return None, {}


def save(s3, step: int, state: dict, final: bool) -> None:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    data, name = buffer.getvalue(), f"step-{step:08d}.{LAUNCH:05d}"
    entry = {"path": "state.pt", "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    manifest = {"step": step, "launch": LAUNCH, "world_size": dist.get_world_size()}
    manifest |= {"tokens": step, "final": final, "entries": [entry]}
    s3.put_object(Bucket=BUCKET, Key=f"{PREFIX}/{name}/state.pt", Body=data)
    s3.put_object(Bucket=BUCKET, Key=f"{PREFIX}/{name}/manifest.json", Body=json.dumps(manifest))
    say("committed", step=step, checkpoint=name)


def main() -> None:
    dist.init_process_group()  # by torchrun's environment
    asked_to_stop = []
    signal.signal(signal.SIGTERM, lambda *_: asked_to_stop.append(True))
    s3, rank = boto3.client("s3"), dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Linear(32, 16))
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    name, state = newest(s3)
    step = state.get("step", 0)
    if state:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    say("resume", step=step, checkpoint=name)
    while step < STEPS:
        data = torch.randn(8, 16, generator=torch.Generator().manual_seed(1000 * step + rank))
        loss = (model(data) - data).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        words = torch.tensor([loss.item(), float(bool(asked_to_stop))])
        dist.all_reduce(words)
        say("step", step=step, loss=words[0].item() / dist.get_world_size())
        stop = bool(words[1])
        if (stop or step % SAVE_EVERY == 0 or step == STEPS) and rank == 0:
            state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save(s3, step, state, final=step == STEPS)
        if stop:
            break
        time.sleep(SLOWLY)  # so that there is a moment to break it in
    dist.barrier()  # rank 0 may still be writing
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
