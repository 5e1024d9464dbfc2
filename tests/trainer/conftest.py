"""A tiny dataset, a trainer in this process (one gloo rank), and real launches of several ranks."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest
import torch
import torch.distributed as dist
from moto.server import ThreadedMotoServer

from everstep.contracts.env import TrainerEnv
from tests.trainer.harness import HELD, SMALL, VOCAB, Alone, Job, Launch, Lines, progress, start_job
from trainer.config import TrainerConfig
from trainer.host import Worker
from trainer.prepare import write_dataset
from trainer.train import Where, train


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20,000 tokens of a noisy cycle (so that there is something to learn), in three shards."""
    folder = tmp_path_factory.mktemp("dataset")
    random = np.random.default_rng(0)
    tokens = (np.arange(20_000) + random.integers(0, 3, 20_000)) % VOCAB
    write_dataset(folder, tokens.tolist(), VOCAB, shard_tokens=7_000)
    return folder


@pytest.fixture
def held_out(tmp_path: Path) -> Path:
    """A folder with a dataset to train on, and a smaller one in it: ``held``."""
    folder = tmp_path / "data"
    random = np.random.default_rng(1)
    for path, count in ((folder, 20_000), (folder / "held", HELD * 32 + 5)):
        path.mkdir()
        tokens = (np.arange(count) + random.integers(0, 3, count)) % VOCAB
        write_dataset(path, tokens.tolist(), VOCAB, shard_tokens=7_000)
    return folder


@pytest.fixture(scope="session")
def one_rank() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture
def alone(
    one_rank: None, dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Alone:
    """Train in this process; ``changes`` are hyperparameters with ``__`` for the dot."""

    def run(uri: str | None = None, env: dict[str, Any] | None = None, **changes: Any) -> Lines:
        flat = SMALL | {k.replace("__", "."): str(v) for k, v in changes.items()}
        flat.setdefault("data.path", str(dataset))
        worker = Worker(node_dir=tmp_path / "node", started_epoch=time.time())
        worker.node_dir.mkdir(exist_ok=True)
        settings = {"checkpoint_uri": uri or str(tmp_path / "checkpoints")} | (env or {})
        capsys.readouterr()
        train(
            TrainerConfig.from_flat(flat),
            TrainerEnv.model_validate(settings),
            worker,
            flat["data.path"],
            torch.device("cpu"),
            Where(),
        )
        return progress(capsys.readouterr().out)

    return run


@pytest.fixture
def launch(dataset: Path, tmp_path: Path) -> Iterator[Launch]:
    """``launch(name, ranks=2, **hyperparameters)``: ``start_job`` below this test's folder."""
    jobs: list[Job] = []

    def start(name: str, **more: Any) -> Job:
        jobs.append(start_job(tmp_path / name, dataset, **more))
        return jobs[-1]

    yield start
    for job in jobs:
        job.process.kill()
        job.process.wait()


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """A server that outlives whom we kill; the environment that leads a rank to it."""
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    environment = {
        "AWS_ENDPOINT_URL": f"http://localhost:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "EVERSTEP_CHECKPOINT_URI": f"s3://runs/{tmp_path.name}",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3").create_bucket(Bucket="runs")
    yield environment
    server.stop()
