"""Checkpoints in a folder that only the hosts mount: S3 is told, after it is true and before it is
not any more."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everstep.contracts.env import TrainerEnv
from everstep.contracts.manifest import MANIFEST_NAME
from tests.trainer.forked import Hold, start_ranks
from tests.trainer.harness import Alone, losses, of_kind, weights
from trainer.checkpoint.catalogue import Catalogue
from trainer.errors import ConfigError
from trainer.records import RecordedStore, open_checkpoints
from trainer.store import FolderStore, S3Store


def manifests(folder: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in folder.glob(f"*/{MANIFEST_NAME}")}


def test_every_manifest_has_its_copy_and_nothing_else_has_one(alone: Alone, tmp_path: Path) -> None:
    folder, told = tmp_path / "lustre", tmp_path / "told"
    lines = alone(str(folder), env={"checkpoint_record_uri": str(told)}, checkpoint__keep_last=2)
    committed = [line["checkpoint"] for line in of_kind(lines, "committed")]
    assert len(committed) == 4
    assert sorted(manifests(folder)) == committed[-2:], "retention"
    assert manifests(told) == manifests(folder)
    assert [path.name for path in told.rglob("*") if path.is_file()] == [MANIFEST_NAME] * 2


@pytest.mark.parametrize(
    ("calls", "told_before"),
    [(3, ["step-00000003.00001"]), (4, ["step-00000003.00001", "step-00000006.00001"])],
    ids=["before the copy", "after the copy"],
)
def test_killed_between_a_manifest_and_its_copy(
    dataset: Path, tmp_path: Path, calls: int, told_before: list[str]
) -> None:
    """The folder alone says where the run goes on; the copy is made good at the next start."""
    told = tmp_path / "told"
    given = {"EVERSTEP_CHECKPOINT_RECORD_URI": str(told)}
    whole = start_ranks(tmp_path / "whole", dataset, environment={})
    hold = Hold("trainer.store:FolderStore.write", calls, after=True)
    broken = start_ranks(tmp_path, dataset, environment=given, prepare={0: [hold]})
    broken.ranks[0].wait_until_held()
    broken.kill()
    assert sorted(manifests(told)) == told_before
    resumed = start_ranks(tmp_path, dataset, number=2, environment=given)
    assert whole.wait() == resumed.wait() == [0], resumed.text
    assert of_kind(resumed.lines, "resume")[0]["step"] == 6
    assert losses(resumed.lines) == {s: x for s, x in losses(whole.lines).items() if s > 6}
    saved = tmp_path / "checkpoints"
    assert manifests(told) == manifests(saved)
    assert weights(saved)["weights_sha256"] == weights(tmp_path / "whole/checkpoints")[
        "weights_sha256"
    ]  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> RecordedStore:
    found = open_checkpoints(
        TrainerEnv(
            checkpoint_uri=str(tmp_path / "lustre"), checkpoint_record_uri=str(tmp_path / "told")
        )
    )
    assert isinstance(found, RecordedStore)
    return found


def put(store: FolderStore, *steps: int) -> list[str]:
    keys = [f"step-{step:08d}.00001/{MANIFEST_NAME}" for step in steps]
    for key in keys:
        store.write(key, json.dumps({"key": key}).encode())
    return keys


def test_a_copy_goes_before_what_it_tells_of(
    store: RecordedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (key,) = put(store, 5)

    def lost(self: Any, keys: list[str]) -> None:
        if self.root == tmp_path / "lustre":
            raise OSError("the host is gone")
        honest(self, keys)

    honest = FolderStore.delete
    monkeypatch.setattr(FolderStore, "delete", lost)
    with pytest.raises(OSError, match="gone"):
        store.delete([key])
    assert manifests(tmp_path / "told") == {}
    assert list(manifests(tmp_path / "lustre")) == ["step-00000005.00001"]
    store.mend()
    assert manifests(tmp_path / "told") == manifests(tmp_path / "lustre")


def test_other_files_are_not_told_of(store: RecordedStore, tmp_path: Path) -> None:
    for key in ("skips.json", f"else/{MANIFEST_NAME}", "step-00000005.00001/loop.json"):
        store.write(key, b"1")
        store.delete([key])
    assert not (tmp_path / "told").exists()


def test_mending_makes_the_copies_those_of_the_folder(store: RecordedStore, tmp_path: Path) -> None:
    put(store, 5, 10)
    put(FolderStore(tmp_path / "lustre"), 15)
    put(FolderStore(tmp_path / "told"), 1)
    store.mend()
    assert manifests(tmp_path / "told") == manifests(tmp_path / "lustre")
    assert len(Catalogue(store).newest_first()) == 3


def test_another_file_system_is_not_a_run_that_begins(
    alone: Alone, store: RecordedStore, tmp_path: Path
) -> None:
    """Half a year of training must not start at step 0 because an empty folder is mounted."""
    told = FolderStore(tmp_path / "told")
    put(told, 5, 70)
    with pytest.raises(ConfigError, match=r"step-00000070\.00001 was committed.*lustre holds no"):
        store.mend()
    assert set(told.listing()) == {f"step-{n:08d}.00001/{MANIFEST_NAME}" for n in (5, 70)}
    with pytest.raises(ConfigError, match="remove the copies"):
        alone(str(tmp_path / "lustre"), env={"checkpoint_record_uri": str(tmp_path / "told")})


def test_records_are_for_folders(s3: dict[str, str], tmp_path: Path) -> None:
    uri = s3["EVERSTEP_CHECKPOINT_URI"]
    with pytest.raises(ConfigError, match="need no record"):
        open_checkpoints(TrainerEnv(checkpoint_uri=uri, checkpoint_record_uri=uri))
    assert isinstance(open_checkpoints(TrainerEnv(checkpoint_uri=uri)), S3Store)
    store = open_checkpoints(
        TrainerEnv(checkpoint_uri=str(tmp_path / "lustre"), checkpoint_record_uri=uri)
    )
    assert isinstance(store, RecordedStore)
    (key,) = put(store, 5)
    assert set(S3Store(*_split(uri)).listing()) == {key}
    store.delete([key])
    assert S3Store(*_split(uri)).listing() == {}


_split: Callable[[str], list[str]] = lambda uri: uri.removeprefix("s3://").split("/", 1)  # noqa: E731
