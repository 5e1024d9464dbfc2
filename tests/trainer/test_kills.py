"""SIGKILL from outside at every point of a rank's life; what resumes is the same run."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from everstep.contracts.manifest import MANIFEST_NAME, CheckpointName
from tests.trainer.forked import Hold, Ranks, start_ranks
from tests.trainer.harness import VOCAB, losses, of_kind, weights
from trainer.checkpoint.catalogue import Catalogue
from trainer.prepare import write_dataset
from trainer.store import open_store

SEQUENCE, BATCH, STEPS, EPOCH = 32, 8, 12, 6
MICRO_BATCHES = 4
"""Of a step on one rank: ``SMALL`` takes its 8 samples two at a time."""

Unbroken = tuple[dict[int, float], dict[str, Any]]


@pytest.fixture(scope="module")
def two_epochs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six steps are one epoch, exactly."""
    folder = tmp_path_factory.mktemp("two-epochs")
    count = EPOCH * BATCH * SEQUENCE + 1
    random = np.random.default_rng(1)
    tokens = (np.arange(count) + random.integers(0, 3, count)) % VOCAB
    write_dataset(folder, tokens.tolist(), VOCAB, shard_tokens=1000)
    write_dataset(folder / "held", tokens[:400].tolist(), VOCAB, shard_tokens=1000)
    return folder


@pytest.fixture(scope="module")
def unbroken(
    two_epochs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[int], Unbroken]:
    """By number of ranks: losses by step, and digests, of the run that nothing happens to."""
    known: dict[int, Unbroken] = {}

    def run(ranks: int) -> Unbroken:
        if ranks not in known:
            base = tmp_path_factory.mktemp("unbroken")
            job = start_ranks(base, two_epochs, ranks=ranks)
            assert job.wait() == [0] * ranks, job.text
            known[ranks] = losses(job.lines), weights(base / "checkpoints")
            assert sorted(known[ranks][0]) == list(range(1, STEPS + 1))
        return known[ranks]

    return run


Start = Callable[..., Ranks]


@pytest.fixture
def start(two_epochs: Path, tmp_path: Path) -> Iterator[Start]:
    jobs: list[Ranks] = []

    def run(number: int, **more: Any) -> Ranks:
        jobs.append(start_ranks(tmp_path, two_epochs, number=number, **more))
        return jobs[-1]

    yield run
    for job in jobs:
        job.kill()


# where it is held, and the step that must be the newest committed then (checkpoints at 3, 6, 9,
# 12); None: the save in flight may or may not have been committed
POINTS: dict[str, tuple[Hold, int | None]] = {
    "start-up": (Hold("trainer.checkpoint.restore:Finder.find"), 0),
    "first step": (Hold("torch.optim:AdamW.step", 1), 0),
    "mid-step": (Hold("torch:Tensor.backward", 7 * MICRO_BATCHES + 2, after=True), None),
    "staging": (Hold("trainer.checkpoint.state:_copy", 100), 3),
    "writing": (Hold("trainer.checkpoint.hashing:_HashingStream.write", 2), 0),
    "between data and manifest": (Hold("trainer.checkpoint.saver:Saver._commit", 2), 3),
    "manifest just written": (Hold("trainer.store:FolderStore.write", 2, after=True), 6),
    "retention": (Hold("trainer.store:FolderStore.delete", 2), 12),
    "last step": (Hold("torch.optim:AdamW.step", STEPS), None),
    "final save": (Hold("trainer.checkpoint.saver:Saver._commit", 4), 9),
    "end of an epoch": (Hold("torch.optim:AdamW.step", EPOCH, after=True), None),
    "saved at the end of an epoch": (Hold("trainer.store:FolderStore.write", 2, after=True), 6),
}
"""``retention``: the oldest manifest is gone, its data are not."""


@pytest.mark.parametrize("point", POINTS)
def test_killed_and_resumed_is_the_same_run(
    start: Start, tmp_path: Path, unbroken: Callable[[int], Unbroken], point: str
) -> None:
    hold, step = POINTS[point]
    before = _kill(start, hold)
    newest = max(_committed(tmp_path / "checkpoints"), default=0)
    assert step in (None, newest)
    resumed = start(2)
    assert resumed.wait() == [0], resumed.text
    assert of_kind(resumed.lines, "resume")[0]["step"] == newest
    _assert_same(unbroken(1), before, resumed, tmp_path / "checkpoints")
    assert not _uncommitted(tmp_path / "checkpoints"), "leftovers of the killed launch"


def test_killed_in_validation(
    start: Start, tmp_path: Path, unbroken: Callable[[int], Unbroken]
) -> None:
    """The unbroken run has none: validation changes nothing, cut short or not."""
    held = {"data__validation": "held", "train__validation_every_steps": 5}
    before = _kill(start, Hold("trainer.validation:Validation._micro_batch", 2), **held)
    assert max(_committed(tmp_path / "checkpoints")) == 3
    resumed = start(2, **held)
    assert resumed.wait() == [0], resumed.text
    said = of_kind(resumed.lines, "validation")
    assert [line["step"] for line in said] == [5, 10, STEPS]
    _assert_same(unbroken(1), before, resumed, tmp_path / "checkpoints")


WRITING = Hold("trainer.checkpoint.saver:save_tensors", 2)
WRITTEN = Hold("trainer.checkpoint.saver:Saver._commit", 2)


@pytest.mark.parametrize(
    ("victims", "hold"),
    [([1], WRITING), ([0], WRITTEN), ([0, 1], WRITTEN)],
    ids=["rank 1 writing", "rank 0 before the manifest", "both before the manifest"],
)
def test_two_ranks_killed_in_a_save(
    start: Start,
    tmp_path: Path,
    unbroken: Callable[[int], Unbroken],
    victims: list[int],
    hold: Hold,
) -> None:
    """One that outlives the other neither commits what they were saving nor goes on."""
    broken = start(1, ranks=2, prepare={rank: [hold] for rank in victims})
    for rank in victims:
        broken.ranks[rank].wait_until_held()
    for rank in victims:
        broken.ranks[rank].process.kill()
    assert all(broken.wait()), broken.text
    assert _committed(tmp_path / "checkpoints") == [3]
    resumed = start(2, ranks=2)
    assert resumed.wait() == [0, 0], resumed.text
    _assert_same(unbroken(2), broken, resumed, tmp_path / "checkpoints")


@pytest.mark.parametrize(
    "hold",
    [
        Hold("trainer.store:S3Store.upload", 5, after=True),
        Hold("trainer.store:S3Store.write", 2),
    ],
    ids=["upload", "between upload and manifest"],
)
def test_killed_while_uploading(
    start: Start, unbroken: Callable[[int], Unbroken], s3: dict[str, str], hold: Hold
) -> None:
    """The uploader goes with its rank: nothing is committed after the kill."""
    before = _kill(start, hold, environment=s3)
    listed = Catalogue(open_store(s3["EVERSTEP_CHECKPOINT_URI"])).newest_first()
    assert [(item.name.step, item.committed) for item in listed] == [(6, False), (3, True)]
    resumed = start(2, environment=s3)
    assert resumed.wait() == [0], resumed.text
    assert of_kind(resumed.lines, "resume")[0]["step"] == 3
    _assert_same(unbroken(1), before, resumed, s3["EVERSTEP_CHECKPOINT_URI"])


def _shift_data(news: Any) -> None:
    import trainer.assembly as module

    honest = module.load

    def load(*args: Any) -> Any:
        state = honest(*args)
        return state.model_copy(update={"samples": state.samples + BATCH})

    module.load = load


def _drop_optimizer(news: Any) -> None:
    import trainer.checkpoint.restore as module

    honest = module.load_tensors

    def load(tensors: dict[str, Tensor], **more: Any) -> None:
        honest({k: v for k, v in tensors.items() if not k.startswith("optimizer.")}, **more)

    module.load_tensors = load


def _drop_generators(news: Any) -> None:
    import trainer.checkpoint.restore as module

    module.restore_rng = lambda saved: None


@pytest.mark.parametrize("mutate", [_shift_data, _drop_optimizer, _drop_generators])
def test_the_comparison_notices_a_wrong_resume(
    start: Start, tmp_path: Path, unbroken: Callable[[int], Unbroken], mutate: Any
) -> None:
    before = _kill(start, POINTS["between data and manifest"][0])
    resumed = start(2, prepare={0: [mutate]})
    assert resumed.wait() == [0], resumed.text
    assert sorted(losses(resumed.lines)) == list(range(4, STEPS + 1))
    with pytest.raises(AssertionError):
        _assert_same(unbroken(1), before, resumed, tmp_path / "checkpoints")
    curve, digests = unbroken(1)
    assert losses(resumed.lines) != {s: loss for s, loss in curve.items() if s > 3}
    assert weights(tmp_path / "checkpoints")["weights_sha256"] != digests["weights_sha256"]


def _kill(start: Start, hold: Hold, **more: Any) -> Ranks:
    broken = start(1, prepare={0: [hold]}, **more)
    broken.ranks[0].wait_until_held()
    broken.kill()
    assert broken.wait() == [-9]
    assert not of_kind(broken.lines, "done")
    return broken


def _assert_same(expected: Unbroken, before: Ranks, after: Ranks, uri: Path | str) -> None:
    curve, digests = expected
    step = of_kind(after.lines, "resume")[0]["step"]
    killed = losses(before.lines)
    assert killed == {s: loss for s, loss in curve.items() if s <= max(killed, default=0)}
    assert losses(after.lines) == {s: loss for s, loss in curve.items() if s > step}
    ours = weights(uri)
    for key in ("weights_sha256", "optimizer_sha256", "step", "tokens", "final"):
        assert ours[key] == digests[key], key


def _committed(folder: Path) -> list[int]:
    names = [CheckpointName.parse(p.parent.name) for p in folder.rglob(MANIFEST_NAME)]
    return sorted(name.step for name in names if name)


def _uncommitted(folder: Path) -> list[str]:
    return [p.name for p in folder.iterdir() if not (p / MANIFEST_NAME).exists()]
