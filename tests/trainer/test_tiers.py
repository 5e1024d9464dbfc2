"""What a start brings from S3: no file that lies on the node, none that its ranks do not read."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.forked import Ranks, start_ranks
from tests.trainer.harness import losses, of_kind, weights

HEADS = {".metadata", "loop.json"}
NEWEST = "step-00000006.00001"
STEPS = {"checkpoint__every_steps": 3, "stop__steps": 6, "train__schedule": "constant"}


@pytest.fixture
def job(dataset: Path, tmp_path: Path, s3: dict[str, str]) -> Iterator[Any]:
    jobs: list[Ranks] = []

    def run(number: int, **more: Any) -> Ranks:
        jobs.append(start_ranks(tmp_path, dataset, number=number, environment=s3, **STEPS | more))
        assert set(jobs[-1].wait()) == {0}, jobs[-1].text
        return jobs[-1]

    yield run
    for one in jobs:
        one.kill()


def _copies(folder: Path) -> dict[str, set[str]]:
    return {path.name: {file.name for file in path.iterdir()} for path in folder.glob("copy/*")}


def _brought(job: Ranks) -> tuple[int, int]:
    """Bytes that the first rank took from S3, and those of the whole checkpoint."""
    found = re.search(r"brought (\d+) of (\d+) bytes", job.ranks[0].output.read_text())
    assert found, job.text
    return int(found[1]), int(found[2])


def test_each_node_brings_only_what_its_ranks_read(job: Any, tmp_path: Path) -> None:
    job(1, ranks=2, nodes=2)
    own = {node: _copies(tmp_path / f"node-{node}-of-launch-1") for node in (0, 1)}
    assert own[0] == {NEWEST: {"__0_0.distcp", "__0_scalars_0.distcp"} | HEADS}
    assert own[1] == {NEWEST: {"__1_0.distcp"}}

    # the last step was saved: the copies are those that were brought
    again = job(2, ranks=2, nodes=2)
    brought = [_copies(tmp_path / f"node-{node}-of-launch-2")[NEWEST] for node in (0, 1)]
    assert brought[0] == own[0][NEWEST]
    assert brought[1] == own[0][NEWEST] - {"__0_0.distcp"} | {"__1_0.distcp"}
    first, whole = _brought(again)
    assert first < 0.75 * whole

    after = job(3, ranks=2, nodes=2, stop__steps=7)
    assert of_kind(after.lines, "resume")[0]["step"] == 6
    kept = [_copies(tmp_path / f"node-{node}-of-launch-3") for node in (0, 1)]
    assert [list(copies) for copies in kept] == [["step-00000007.00003"]] * 2, "of the newest"


def test_another_mesh_brings_what_it_reads(job: Any, tmp_path: Path) -> None:
    job(1, ranks=2, nodes=2)
    one = job(2, stop__steps=7)
    brought, whole = _brought(one)
    assert brought == whole, "one rank reads both ranks' files"
    assert of_kind(one.lines, "resume")[0]["step"] == 6


def test_a_restart_on_the_same_node_brings_nothing(
    job: Any, tmp_path: Path, s3: dict[str, str]
) -> None:
    first = job(1)
    node, again = tmp_path / "node-0-of-launch-1", tmp_path / "node-0-of-launch-2"
    shutil.copytree(node, again)
    second = job(2, stop__steps=9)
    assert of_kind(second.lines, "resume")[0]["step"] == 6
    assert _brought(second)[0] == 0

    # a copy that is not what was written is replaced from S3; the checkpoint itself is whole
    spoilt = tmp_path / "node-0-of-launch-3"
    shutil.copytree(again, spoilt)
    (path,) = spoilt.rglob("__0_0.distcp")
    raw = bytearray(path.read_bytes())
    raw[-200] ^= 1
    path.write_bytes(raw)
    third = job(3, stop__steps=12)
    assert not of_kind(third.lines, "skip_checkpoint")
    assert of_kind(third.lines, "resume")[0]["step"] == 9
    assert 0 < _brought(third)[0] < _brought(third)[1]

    shutil.rmtree(tmp_path / "ml")
    s3["EVERSTEP_CHECKPOINT_URI"] += "-whole"
    whole = job(4, stop__steps=12)
    seen = losses(first.lines) | losses(second.lines) | losses(third.lines)
    assert seen == losses(whole.lines)
    uri = s3["EVERSTEP_CHECKPOINT_URI"]
    ours, theirs = weights(uri.removesuffix("-whole")), weights(uri)
    assert ours["weights_sha256"] == theirs["weights_sha256"]
