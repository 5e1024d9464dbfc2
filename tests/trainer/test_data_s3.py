"""Datasets read from S3: the same batches, few GETs, every trouble waited for or named."""

import concurrent.futures
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from botocore.exceptions import ClientError, IncompleteReadError

from tests.trainer.faulty_s3 import AWS, FaultyS3, serve
from tests.trainer.harness import Alone, losses
from trainer.data import Dataset, Samples, rank_positions
from trainer.errors import DataError
from trainer.prepare import write_dataset
from trainer.ranges import CONNECTIONS, S3Dataset

VOCAB = 90_000
"""Needs uint32."""
LENGTH, BATCH = 16, 8
SHARD = 7_001


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyS3]:
    yield from serve()


@pytest.fixture
def s3(server: FaultyS3, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyS3]:
    """The server without faults; no dataset of a test reads on in the next one."""
    opened_datasets: list[S3Dataset] = []
    honest = S3Dataset.__init__

    def remember(self: S3Dataset, *args: Any, **more: Any) -> None:
        honest(self, *args, **more)
        opened_datasets.append(self)

    monkeypatch.setattr(S3Dataset, "__init__", remember)
    for name, value in (AWS | {"AWS_ENDPOINT_URL": server.uri}).items():
        monkeypatch.setenv(name, value)
    server.faults = lambda key, number: None
    server.gets.clear()
    server.at_once = 0
    yield server
    for given in opened_datasets:
        given.close()
        given._threads.shutdown(wait=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_dataset(folder, np.arange(80_000), VOCAB, SHARD, folders=3)
    return folder


@pytest.fixture
def uri(s3: FaultyS3, folder: Path) -> str:
    return upload(s3, folder)


def upload(s3: FaultyS3, folder: Path) -> str:
    client, bucket = s3.client(), f"data-{uuid4()}"
    client.create_bucket(Bucket=bucket)
    for path in folder.rglob("*"):
        if path.is_file():
            key = f"team/{path.relative_to(folder).as_posix()}"
            client.put_object(Bucket=bucket, Key=key, Body=path.read_bytes())
    return f"s3://{bucket}/team"


def opened(uri: str, verify: bool = True, patience: float = 20) -> Samples:
    return samples(S3Dataset(uri, verify=verify, patience=patience))


def samples(*datasets: Any, weights: list[float] | None = None) -> Samples:
    return Samples(list(datasets), LENGTH, 3, VOCAB, BATCH, weights)


def batches(given: Samples, steps: range, rank: int = 0, ranks: int = 1) -> np.ndarray:
    return np.stack(
        [given.batch(rank_positions(s * BATCH, BATCH, rank, ranks)).tokens for s in steps]
    )


def test_the_same_batches_as_from_a_folder_at_any_number_of_ranks(uri: str, folder: Path) -> None:
    local = samples(Dataset(folder))
    assert local.run > 1
    end = local.count // BATCH + 30  # into the second epoch
    wanted = batches(local, range(end))
    assert (batches(opened(uri), range(end)) == wanted).all()
    halves = [batches(opened(uri), range(300, 400), rank, 2) for rank in (0, 1)]
    assert (np.concatenate(halves, axis=1) == wanted[300:400]).all()


def test_a_mixture_is_the_same_too(s3: FaultyS3, uri: str, folder: Path, tmp_path: Path) -> None:
    write_dataset(tmp_path, np.arange(9_000), VOCAB, 1_000)
    other = upload(s3, tmp_path)
    ours = samples(S3Dataset(uri), S3Dataset(other), weights=[2, 1])
    theirs = samples(Dataset(folder), Dataset(tmp_path), weights=[2, 1])
    assert ours.identity == theirs.identity
    assert (batches(ours, range(200)) == batches(theirs, range(200))).all()


def test_an_epoch_is_few_gets_and_little_more_than_the_corpus(s3: FaultyS3, uri: str) -> None:
    given = opened(uri, verify=False)
    steps = given.count // BATCH
    batches(given, range(steps))
    # the last plan reads ahead into the next epoch; a run that crosses shards is two GETs
    ahead = max(24, 2 * given.run) * BATCH // given.run + BATCH
    runs, crossings = given.count / given.run, 80_000 // SHARD
    assert len(s3.gets) <= runs + crossings + ahead
    assert len(s3.gets) < given.count / 4
    spans = [tuple(map(int, part.removeprefix("bytes=").split("-"))) for _, part in s3.gets]
    read = sum(last - first + 1 for first, last in spans)
    assert read < (80_000 + ahead * (given.run + 1) * LENGTH) * 4 * 1.1
    assert s3.at_once <= CONNECTIONS
    assert len({key for key, _ in s3.gets[: BATCH * 4]}) > 4, "all at one object"


def test_two_ranks_share_the_gets(s3: FaultyS3, uri: str) -> None:
    counted = []
    for ranks in (1, 2):
        s3.gets.clear()
        for rank in range(ranks):
            dataset = S3Dataset(uri, verify=False)
            batches(samples(dataset), range(200), rank, ranks)
            concurrent.futures.wait(list(dataset._spans.values()))
        counted.append(len(set(s3.gets)))
        assert len(s3.gets) == len(set(s3.gets)), "a rank read what another one had read"
    assert counted[0] == counted[1]


def test_it_is_read_ahead_of_the_step(s3: FaultyS3, uri: str) -> None:
    dataset = S3Dataset(uri)
    given = samples(dataset)
    first = batches(given, range(1))
    concurrent.futures.wait(list(dataset._spans.values()))
    s3.faults = lambda key, number: "403 AccessDenied"
    ahead = batches(given, range(1, max(24, 2 * given.run) * 3 // 4))
    assert len(ahead) == 17
    assert (ahead[0] != first[0]).any()


def test_what_failed_ahead_of_the_step_is_read_when_it_is_needed(
    s3: FaultyS3, uri: str, folder: Path
) -> None:
    dataset = S3Dataset(uri, verify=False, patience=0)
    given, failed = samples(dataset), 0
    s3.faults = lambda key, number: None if len(s3.gets) <= CONNECTIONS else "503 SlowDown"
    first = batches(given, range(1))
    for future in dataset._spans.values():
        failed += future.exception() is not None
    assert failed > BATCH / 2
    s3.faults = lambda key, number: None
    later = batches(given, range(1, 17))
    assert (np.concatenate([first, later]) == batches(samples(Dataset(folder)), range(17))).all()


def test_only_what_is_coming_is_kept(uri: str) -> None:
    dataset = S3Dataset(uri)
    given = samples(dataset)
    for step in range(300):
        given.batch(range(step * BATCH, (step + 1) * BATCH))
        assert len(dataset._spans) <= BATCH * (max(24, 2 * given.run) // given.run + 2)


@pytest.mark.parametrize("fault", ["503 SlowDown", "500 InternalError", "cut", "short"])
def test_trouble_that_passes_changes_no_batch(
    s3: FaultyS3, uri: str, folder: Path, fault: str
) -> None:
    s3.faults = lambda key, number: fault if number % 3 == 0 else None
    assert (batches(opened(uri), range(60)) == batches(samples(Dataset(folder)), range(60))).all()
    spent = len(s3.gets) - len(set(s3.gets))
    assert spent > 10, "nothing went wrong"


@pytest.mark.parametrize(
    ("fault", "error"), [("503 SlowDown", ClientError), ("short", IncompleteReadError)]
)
def test_trouble_that_stays_ends_the_patience(
    s3: FaultyS3, uri: str, fault: str, error: type[Exception]
) -> None:
    given = opened(uri, verify=False, patience=0.5)
    s3.faults = lambda key, number: fault
    with pytest.raises(error):
        batches(given, range(1))


def _delete(s3: FaultyS3, bucket: str, key: str) -> None:
    s3.client().delete_object(Bucket=bucket, Key=key)


def _replace(s3: FaultyS3, bucket: str, key: str, less: int = 0) -> None:
    size = s3.client().head_object(Bucket=bucket, Key=key)["ContentLength"]
    s3.client().put_object(Bucket=bucket, Key=key, Body=b"\1\0\0\0" * ((size - less) // 4))


def _deny(s3: FaultyS3, bucket: str, key: str) -> None:
    s3.faults = lambda path, number: "403 AccessDenied" if path.endswith(key) else None


def _newer(s3: FaultyS3, bucket: str, key: str) -> None:
    s3.client().put_object(Bucket=bucket, Key="team/index.json", Body=b'{"schema": 2}')


def _no_list(s3: FaultyS3, bucket: str, key: str) -> None:
    s3.faults = lambda path, number: "403 AccessDenied" if path == f"/{bucket}" else None


OPENING = {
    "no index": (lambda s, b, k: _delete(s, b, "team/index.json"), "no dataset at s3://"),
    "newer schema": (_newer, "schema 2 is not 1 .hint: a newer trainer"),
    "missing": (_delete, r"01/shard-00001.bin: shard is missing"),
    "truncated": (lambda s, b, k: _replace(s, b, k, 400), "shard is truncated"),
    "foreign": (_replace, "foreign shard"),
    "index denied": (lambda s, b, k: _deny(s, b, "index.json"), r"index.json: access denied"),
    "shard denied": (_deny, r"shard-00001.bin: access denied .*s3:GetObject"),
    "list denied": (_no_list, r"access denied .*s3:ListBucket"),
}


@pytest.mark.parametrize("damage", OPENING)
def test_a_damaged_dataset_is_refused_when_it_is_opened(
    s3: FaultyS3, uri: str, damage: str
) -> None:
    break_it, words = OPENING[damage]
    break_it(s3, uri.split("/")[2], "team/01/shard-00001.bin")
    with pytest.raises(DataError, match=words) as caught:
        opened(uri)
    assert "hint: " in str(caught.value)


def test_no_such_bucket(s3: FaultyS3) -> None:
    with pytest.raises(DataError, match="no such bucket"):
        opened(f"s3://nothing-{uuid4()}/team")


READING = {
    "deleted": (_delete, "shard is missing"),
    "replaced": (_replace, "was replaced while it was read"),
    "truncated": (lambda s, b, k: _replace(s, b, k, 27_000), "shard is truncated|was replaced"),
    "denied": (_deny, "access denied"),
}


@pytest.mark.parametrize("damage", READING)
def test_damage_after_the_start_is_named(s3: FaultyS3, uri: str, damage: str) -> None:
    given = opened(uri)  # hashed: every object's ETag is known
    break_it, words = READING[damage]
    break_it(s3, uri.split("/")[2], "team/01/shard-00001.bin")
    with pytest.raises(DataError, match=words):
        batches(given, range(given.count // BATCH))


@pytest.mark.parametrize("less", [4, 27_000])
def test_a_rank_that_does_not_verify_notices_a_truncated_shard(
    s3: FaultyS3, uri: str, less: int
) -> None:
    _replace(s3, uri.split("/")[2], "team/01/shard-00001.bin", less)
    given = opened(uri, verify=False)
    with pytest.raises(DataError, match="shard is truncated"):
        batches(given, range(given.count // BATCH))


def test_a_run_may_change_its_data_mode(
    alone: Alone, s3: FaultyS3, dataset: Path, tmp_path: Path
) -> None:
    whole = alone(str(tmp_path / "whole"))
    uri = str(tmp_path / "changed")
    first = alone(uri, stop__steps=6, train__schedule="constant")
    streamed = alone(
        uri,
        env={"launch": 2},
        data__mode="s3",
        data__path=upload(s3, dataset),
        train__schedule="constant",
    )
    constant = alone(str(tmp_path / "constant"), train__schedule="constant")
    assert losses(first) | losses(streamed) == losses(constant)
    assert sorted(losses(streamed)) == list(range(7, 13))
    assert losses(whole) != losses(constant)
