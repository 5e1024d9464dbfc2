"""Broken checkpoints are passed over aloud; retention; S3; failed saves."""

import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import boto3
import pytest
import torch
from botocore.exceptions import ClientError, EndpointConnectionError
from moto import mock_aws
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from everstep.contracts.manifest import MANIFEST_NAME, CheckpointName, Manifest
from tests.trainer.forked import start_ranks
from tests.trainer.harness import Alone, Lines, losses, of_kind, weights
from trainer.checkpoint.catalogue import Catalogue
from trainer.errors import CheckpointError
from trainer.store import FolderStore, S3Store, hash_file, open_store
from trainer.verify import main as verify

NEWEST = "step-00000012.00001"


def _flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


def _tear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


FILES = ("__0_0.distcp", "__0_scalars_0.distcp", ".metadata", "loop.json", MANIFEST_NAME)


@pytest.fixture(scope="module")
def trained(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Lines]:
    """A run's folder, to be copied, and its progress lines."""
    base = tmp_path_factory.mktemp("trained")
    job = start_ranks(base, dataset)
    assert job.wait() == [0], job.text
    folder = base / "checkpoints"
    assert {path.name for path in (folder / NEWEST).iterdir()} == set(FILES)
    return folder, job.lines


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["flipped bit", "torn", "missing"])
def test_any_damaged_file_leads_to_the_older_checkpoint_aloud(
    alone: Alone, trained: tuple[Path, Lines], tmp_path: Path, name: str, damage: str
) -> None:
    folder, whole = trained
    shutil.copytree(folder, tmp_path / "checkpoints")
    path = tmp_path / "checkpoints" / NEWEST / name
    {"flipped bit": _flip, "torn": _tear, "missing": Path.unlink}[damage](path)
    resumed = alone(env={"launch": 2})
    skipped = of_kind(resumed, "skip_checkpoint")
    assert [line["checkpoint"] for line in skipped] == [NEWEST]
    assert name in skipped[0]["reason"], "it says which file"
    assert of_kind(resumed, "resume")[0]["step"] == 9
    assert losses(resumed) == {s: v for s, v in losses(whole).items() if s > 9}
    assert weights(tmp_path / "checkpoints")["checkpoint"] == "step-00000012.00002"


def test_plain_dcp_reads_a_checkpoint(trained: tuple[Path, Lines], tmp_path: Path) -> None:
    """torch's own converter, which knows nothing of us, and ``verify`` see the same tensors."""
    folder = trained[0] / NEWEST
    dcp_to_torch_save(folder, tmp_path / "plain.pt")
    plain = torch.load(tmp_path / "plain.pt")
    digest = sha256()
    names = sorted(name for name in plain if name.startswith("model."))
    for name in names:
        tensor = plain[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().data)
    assert digest.hexdigest() == weights(folder)["weights_sha256"]
    steps = [value.item() for name, value in plain.items() if name.endswith(".step")]
    assert steps == [12.0] * len(names)


def test_every_bit_of_a_manifest_counts(trained: tuple[Path, Lines]) -> None:
    raw = (trained[0] / NEWEST / MANIFEST_NAME).read_bytes()
    assert Manifest.unseal(raw).step == 12
    for place in range(8 * len(raw)):
        flipped = bytearray(raw)
        flipped[place // 8] ^= 1 << place % 8
        assert not _opens(bytes(flipped)), place


def _opens(raw: bytes) -> bool:
    try:
        Manifest.unseal(raw)
    except ValueError:
        return False
    return True


def test_nothing_is_unpickled_before_it_is_verified(
    alone: Alone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone()
    _flip(tmp_path / "checkpoints" / NEWEST / ".metadata")
    import pickle

    opened: list[str] = []
    honest = pickle.load
    monkeypatch.setattr(pickle, "load", lambda f: (opened.append(str(f.name)), honest(f))[1])
    alone(env={"launch": 2})
    assert opened
    assert not [name for name in opened if NEWEST in name]


def test_verify_says_what_is_wrong(
    alone: Alone, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone()
    folder = tmp_path / "checkpoints" / NEWEST
    assert verify([str(folder)]) == 0
    assert NEWEST in capsys.readouterr().out
    _flip(folder / "__0_0.distcp")
    assert verify([str(folder)]) == 1
    assert "__0_0.distcp has sha256" in capsys.readouterr().err
    assert verify([str(tmp_path / "checkpoints" / "step-00000999.00001")]) == 1


def test_manifest_tells_what_was_written(alone: Alone, tmp_path: Path) -> None:
    alone()
    folder = tmp_path / "checkpoints" / NEWEST
    manifest = Manifest.model_validate_json((folder / MANIFEST_NAME).read_bytes())
    assert {e.path for e in manifest.entries} | {MANIFEST_NAME} == {
        p.name for p in folder.iterdir()
    }
    for entry in manifest.entries:
        assert hash_file(folder / entry.path) == (entry.size, entry.sha256)
    assert (manifest.step, manifest.launch, manifest.world_size) == (12, 1, 1)
    assert (manifest.final, manifest.tokens) == (True, 12 * 8 * 32)


def test_retention_counts_only_durable_ones(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    for step, committed in ((1, True), (2, False), (3, True), (4, True), (5, False)):
        _fake(store, step, committed=committed)
    catalogue = Catalogue(store)
    broken = {CheckpointName(step=4, launch=1)}
    assert catalogue.retain(2, broken) == []
    _fake(store, 6, committed=True)
    gone = catalogue.retain(2, broken)
    assert [name.step for name in gone] == [1]
    assert [name.step for name in catalogue.remove_abandoned(launch=1)] == [5, 2]
    assert [item.name.step for item in catalogue.newest_first()] == [6, 4, 3]


def test_every_so_many_steps_one_is_kept_for_ever(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    catalogue = Catalogue(store)
    broken = {CheckpointName(step=20, launch=1)}
    for step in (4, 8, 12, 20, 24, 28, 32, 36, 40):
        _fake(store, step, committed=True)
        catalogue.retain(2, broken, keep_every=10)
    # 12 of 10–19, 24 of 20–29 (20 is broken), 32 of 30–39; the last two; nothing of 0–9
    assert [item.name.step for item in catalogue.newest_first()] == [40, 36, 32, 24, 12]


def test_another_launchs_folder_is_never_touched_by_abandoned_cleanup(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    _fake(store, 5, committed=False, launch=3)
    assert Catalogue(store).remove_abandoned(launch=2) == []


def test_manifest_goes_first_when_removing(tmp_path: Path) -> None:
    class Watched(FolderStore):
        def delete(self, keys: list[str]) -> None:
            order.append(keys)
            super().delete(keys)

    order: list[list[str]] = []
    store = Watched(tmp_path)
    _fake(store, 1, committed=True)
    catalogue = Catalogue(store)
    catalogue.remove(catalogue.newest_first()[0])
    assert order == [[f"step-00000001.00001/{MANIFEST_NAME}"], ["step-00000001.00001/data"]]
    assert list(tmp_path.iterdir()) == []


def _refuse(monkeypatch: pytest.MonkeyPatch, times: float) -> None:
    """A store that cannot write the next so many times."""
    honest, tries = FolderStore.write, 0.0

    def flaky(self: FolderStore, key: str, data: bytes) -> None:
        nonlocal tries
        tries += 1
        if tries <= times:
            raise OSError("no space left on device")
        honest(self, key, data)

    monkeypatch.setattr(FolderStore, "write", flaky)
    monkeypatch.setattr("trainer.checkpoint.saver.RETRY_SECONDS", 0.0)


@pytest.mark.parametrize(
    ("refusals", "committed"), [(2, [3, 6, 9, 12]), (3, [6, 9, 12]), (4, [6, 9, 12])]
)
def test_a_failed_save_is_tried_again_and_training_goes_on(
    alone: Alone, monkeypatch: pytest.MonkeyPatch, refusals: int, committed: list[int]
) -> None:
    _refuse(monkeypatch, refusals)
    lines = alone()
    assert [line["step"] for line in of_kind(lines, "committed")] == committed
    failed = of_kind(lines, "save_failed")
    assert [line["tries"] for line in failed] == [1, 2, 3, 1][:refusals]
    assert all("no space left on device" in line["reason"] for line in failed)
    assert sorted(losses(lines)) == list(range(1, 13))
    assert lines[-1]["everstep"] == "done"


def test_a_last_save_that_fails_for_good_is_an_error(
    alone: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    _refuse(monkeypatch, float("inf"))
    with pytest.raises(CheckpointError, match="no space left on device"):
        alone()


def test_the_copy_is_real(alone: Alone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights overwritten as soon as ``save`` returns must not reach the checkpoint."""
    import trainer.checkpoint.saver as module

    alone(str(tmp_path / "honest"), checkpoint__every_steps=100)
    honest = module.Saver.save

    def save_and_spoil(self: Any, tensors: Any, loop: Any, *, final: bool = False) -> None:
        honest(self, tensors, loop, final=final)
        for tensor in tensors.values():
            tensor.zero_()

    monkeypatch.setattr(module.Saver, "save", save_and_spoil)
    alone(str(tmp_path / "spoilt"), checkpoint__every_steps=100)
    for key in ("weights_sha256", "optimizer_sha256"):
        assert weights(tmp_path / "spoilt")[key] == weights(tmp_path / "honest")[key]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        s3 = boto3.client("s3")
        s3.create_bucket(Bucket="runs")
        yield s3


def test_checkpoints_on_s3(alone: Alone, bucket: Any, tmp_path: Path) -> None:
    uri = "s3://runs/team/run-1"
    whole = alone(uri)
    assert [line["step"] for line in of_kind(whole, "committed")] == [3, 6, 9, 12]
    keys = {o["Key"] for o in bucket.list_objects_v2(Bucket="runs")["Contents"]}
    assert f"team/run-1/{NEWEST}/{MANIFEST_NAME}" in keys
    assert not [key for key in keys if "step-00000003" in key], "keep_last is 3"
    copies = [path.parent.name for path in (tmp_path / "node").rglob("__0_0.distcp")]
    assert copies == [NEWEST], "staged files are removed, but for the newest checkpoint's"
    head = bucket.head_object(
        Bucket="runs", Key=f"team/run-1/{NEWEST}/__0_0.distcp", ChecksumMode="ENABLED"
    )
    assert head["ChecksumSHA256"]

    body = bucket.get_object(Bucket="runs", Key=f"team/run-1/{NEWEST}/.metadata")["Body"].read()
    bucket.put_object(Bucket="runs", Key=f"team/run-1/{NEWEST}/.metadata", Body=body[::-1])
    shutil.rmtree(tmp_path / "node")  # another host
    resumed = alone(uri, env={"launch": 2})
    assert ".metadata has sha256" in of_kind(resumed, "skip_checkpoint")[0]["reason"]
    assert losses(resumed) == {s: v for s, v in losses(whole).items() if s > 9}
    assert len(list((tmp_path / "node").rglob("__0_0.distcp"))) == 1, "one copy at most"

    on_disk = str(tmp_path / "disk")
    alone(on_disk)
    assert weights(uri)["weights_sha256"] == weights(on_disk)["weights_sha256"]


def test_both_stores_behave_alike(bucket: Any, tmp_path: Path) -> None:
    for store in (open_store("s3://runs/a/b"), open_store(str(tmp_path / "a"))):
        assert isinstance(store, S3Store | FolderStore)
        assert store.listing() == {}
        assert store.read("x/1") is None
        store.write("x/1", b"one")
        assert store.write_once("x/2", b"first")
        assert not store.write_once("x/2", b"second")
        assert store.read("x/2") == b"first"
        store.write("xy/3", b"three")
        assert store.listing("x") == {"x/1": 3, "x/2": 5}
        assert set(store.listing()) == {"x/1", "x/2", "xy/3"}
        size, digest = store.download("x/1", tmp_path / "copy")
        assert (size, digest) == hash_file(tmp_path / "copy")
        store.upload("x/4", tmp_path / "copy", digest)
        assert store.read("x/4") == b"one"
        store.delete(["x/1", "x/2", "x/4", "no/such"])
        assert store.listing() == {"xy/3": 5}


class Busy:
    """An S3 client that refuses its next calls."""

    def __init__(self, client: Any, refusals: int) -> None:
        self._client, self.left = client, refusals

    def __getattr__(self, name: str) -> Any:
        known = getattr(self._client, name)
        if name == "exceptions":
            return known

        def call(**request: Any) -> Any:
            if self.left:
                self.left -= 1
                answer = {
                    "Error": {"Code": "SlowDown", "Message": "reduce your request rate"},
                    "ResponseMetadata": {"HTTPStatusCode": 503},
                }
                raise ClientError(answer, name)  # type: ignore[arg-type]
            return known(**request)

        return call


def test_a_busy_s3_is_waited_for_in_place(
    bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer.store.random.random", lambda: 0.0)
    store = open_store("s3://runs/busy")
    assert isinstance(store, S3Store)
    for act in (
        lambda: store.write("x/1", b"one"),
        lambda: store.write_once("x/2", b"two"),
        lambda: store.read("x/1"),
        lambda: store.read("none"),
        lambda: store.listing(),
        lambda: store.download("x/1", tmp_path / "copy"),
        lambda: store.upload("x/3", tmp_path / "copy", hash_file(tmp_path / "copy")[1]),
        lambda: store.delete(["x/3"]),
    ):
        store._s3 = busy = Busy(bucket, 40)
        act()
        assert busy.left == 0
    assert store.listing() == {"x/1": 3, "x/2": 3}


def test_patience_ends_and_a_refusal_for_good_is_told_at_once(bucket: Any) -> None:
    store = S3Store("runs", "busy", patience=0.0)
    store._s3 = Busy(bucket, 40)
    with pytest.raises(ClientError, match="SlowDown"):
        store.read("x")
    with pytest.raises(ClientError, match="NoSuchBucket"):
        S3Store("nowhere", "busy").listing()


def _fake(store: FolderStore, step: int, *, committed: bool, launch: int = 1) -> None:
    name = CheckpointName(step=step, launch=launch)
    store.write(f"{name}/data", b"x")
    if committed:
        manifest = Manifest(step=step, launch=launch, world_size=1, tokens=0, entries=[])
        store.write(f"{name}/{MANIFEST_NAME}", manifest.sealed())


def test_verify_says_what_it_cannot_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert verify(["s3://"]) == 1
    assert "s3:// names no bucket" in capsys.readouterr().err

    def unreachable(self: object) -> None:
        raise EndpointConnectionError(endpoint_url="http://localhost:9")

    monkeypatch.setattr(Catalogue, "newest_first", unreachable)
    assert verify(["s3://bucket/prefix"]) == 1
    assert "cannot read s3://bucket/prefix: Could not connect" in capsys.readouterr().err
