"""A run that begins from another run's checkpoint: exact, independent, and never from nothing."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.forked import start_ranks
from tests.trainer.harness import Alone, losses, of_kind, weights
from trainer.errors import ConfigError


@pytest.fixture
def source(alone: Alone, tmp_path: Path) -> tuple[Path, dict[int, float]]:
    """A finished run of twelve steps, and its losses."""
    lines = alone(str(tmp_path / "source"), checkpoint__keep_last=4)
    return tmp_path / "source", losses(lines)


def begin(folder: Path, name: str = "step-00000006.00001", **more: Any) -> dict[str, Any]:
    return {"start_from": str(folder / name), **more}


def test_it_goes_on_at_that_step_as_the_other_run_did(
    alone: Alone, source: tuple[Path, dict[int, float]], tmp_path: Path
) -> None:
    folder, former = source
    before = sorted(path for path in folder.rglob("*"))
    lines = alone(str(tmp_path / "new"), env=begin(folder))
    assert of_kind(lines, "resume")[0] == {
        "everstep": "resume", "step": 6, "checkpoint": "step-00000006.00001",
    }  # fmt: skip
    assert losses(lines) == {step: loss for step, loss in former.items() if step > 6}
    assert weights(tmp_path / "new")["weights_sha256"] == weights(folder)["weights_sha256"]
    assert sorted(path for path in folder.rglob("*")) == before


def test_its_own_checkpoint_comes_first_and_the_source_may_go(
    alone: Alone, source: tuple[Path, dict[int, float]], tmp_path: Path
) -> None:
    folder, _ = source
    alone(str(tmp_path / "new"), env=begin(folder), stop__steps=9)
    for one in (folder / "step-00000006.00001").iterdir():
        one.unlink()
    again = alone(str(tmp_path / "new"), env=begin(folder, launch=2))
    assert of_kind(again, "resume")[0]["step"] == 9
    assert (tmp_path / "new" / "step-00000006.00001").exists(), "its own copy, saved at the start"


def test_weights_alone_begin_at_step_0(
    alone: Alone, source: tuple[Path, dict[int, float]], tmp_path: Path
) -> None:
    folder, former = source
    new = begin(folder, "step-00000012.00001", start_with="weights")
    lines = alone(str(tmp_path / "new"), env=new, train__global_batch=16, stop__steps=2)
    assert of_kind(lines, "resume")[0]["step"] == 0
    first = losses(lines)[1]
    assert first < 0.5 * (former[1] + min(former.values())), (first, former)


@pytest.mark.parametrize("how", ["gone", "torn", "no name"])
def test_what_is_not_whole_is_refused(
    alone: Alone, source: tuple[Path, dict[int, float]], tmp_path: Path, how: str
) -> None:
    folder, _ = source
    name = {"gone": "step-00000007.00001", "no name": "latest"}.get(how, "step-00000006.00001")
    if how == "torn":
        file = next((folder / name).glob("*.distcp"))
        held = bytearray(file.read_bytes())
        held[len(held) // 2] ^= 1
        file.write_bytes(held)
    with pytest.raises(ConfigError, match="is no whole checkpoint"):
        alone(str(tmp_path / "new"), env=begin(folder, name))
    assert not list(tmp_path.glob("new/step-*"))


def test_another_shape_or_batch_is_refused(
    alone: Alone, source: tuple[Path, dict[int, float]], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"global_batch=8"):
        alone(str(tmp_path / "new"), env=begin(source[0]), train__global_batch=16)
    with pytest.raises(ConfigError, match=r"start\.checkpoint: .* has model="):
        alone(str(tmp_path / "new"), env=begin(source[0], start_with="weights"), model__layers=3)


def test_from_s3_two_nodes_bring_what_they_read(
    dataset: Path, tmp_path: Path, s3: dict[str, str]
) -> None:
    """The weights alone take no more bytes than all of it; both ways begin where they should."""
    steps = {"checkpoint__every_steps": 3, "stop__steps": 6, "train__schedule": "constant"}
    uri = s3["EVERSTEP_CHECKPOINT_URI"]
    source = {"EVERSTEP_START_FROM": f"{uri}/step-00000003.00001"}
    jobs = {
        "source": s3,
        "all": s3 | source | {"EVERSTEP_CHECKPOINT_URI": f"{uri}-all"},
        "weights": s3
        | source
        | {"EVERSTEP_CHECKPOINT_URI": f"{uri}-weights", "EVERSTEP_START_WITH": "weights"},
    }
    lines, brought = {}, {}
    for number, (name, environment) in enumerate(jobs.items(), 1):
        job = start_ranks(
            tmp_path, dataset, ranks=2, nodes=2, number=number, environment=environment, **steps
        )
        try:
            assert set(job.wait()) == {0}, job.text
        finally:
            job.kill()
        lines[name] = job.lines
        found = re.search(r"brought (\d+) of (\d+) bytes", job.ranks[0].output.read_text())
        brought[name] = int(found[1]) if found else 0
    assert [of_kind(lines[name], "resume")[0]["step"] for name in jobs] == [0, 3, 0]
    former = losses(lines["source"])
    assert losses(lines["all"]) == {step: loss for step, loss in former.items() if step > 3}
    assert 0 < brought["weights"] <= brought["all"]
    assert losses(lines["weights"])[1] < former[1]
