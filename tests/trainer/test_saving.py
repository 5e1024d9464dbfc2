"""What a save keeps for the next one; files that cannot be written; memory while loading."""

import errno
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.planner import SavePlan

from everstep.contracts.manifest import ManifestEntry
from tests.trainer.harness import Alone, losses, of_kind
from trainer.checkpoint.hashing import HashingWriter, _HashingStream
from trainer.checkpoint.planning import Planner
from trainer.checkpoint.state import capture_rng, copy_to_host, restore_rng
from trainer.errors import CheckpointError
from trainer.store import hash_file


def _no_space(monkeypatch: pytest.MonkeyPatch, times: float) -> None:
    """The disk of the data files is full for the next so many writes: DCP raises what is no
    ``Exception``."""
    honest, tries = _HashingStream.write, 0.0

    def full(self: _HashingStream, data: Any) -> int:
        nonlocal tries
        tries += 1
        if tries <= times:
            raise OSError(errno.ENOSPC, "no space left on device")
        return honest(self, data)

    monkeypatch.setattr(_HashingStream, "write", full)
    monkeypatch.setattr("trainer.checkpoint.saver.RETRY_SECONDS", 0.0)


@pytest.mark.parametrize(("times", "committed"), [(2, [3, 6, 9, 12]), (3, [6, 9, 12])])
def test_data_files_that_cannot_be_written_are_a_failed_save(
    alone: Alone, monkeypatch: pytest.MonkeyPatch, times: int, committed: list[int]
) -> None:
    _no_space(monkeypatch, times)
    lines = alone()
    assert [line["step"] for line in of_kind(lines, "committed")] == committed
    failed = of_kind(lines, "save_failed")
    assert [line["tries"] for line in failed] == list(range(1, times + 1))
    assert all("no space left on device" in line["reason"] for line in failed)
    assert sorted(losses(lines)) == list(range(1, 13))


def test_a_last_save_whose_data_cannot_be_written_is_an_error(
    alone: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    _no_space(monkeypatch, float("inf"))
    with pytest.raises(CheckpointError, match="no space left on device"):
        alone()


def _save(folder: Path, tensors: dict[str, torch.Tensor]) -> list[ManifestEntry]:
    writer = HashingWriter(folder, lambda: None)
    dcp.save(tensors, storage_writer=writer, planner=Planner(), no_dist=True)
    return writer.entries


def _state(rows: int) -> dict[str, torch.Tensor]:
    return {
        "large": torch.randn(rows, 1000),  # longer than the buffer, and no multiple of it
        "empty": torch.empty(0, 4),
        "half": torch.randn(33, dtype=torch.bfloat16),
        "step": torch.tensor(3.0),
    }


def test_a_kept_plan_saves_the_new_values_and_another_shape_is_planned_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[int] = []
    honest = Planner._dedup_save_plans

    def counted(self: Planner, plans: list[SavePlan]) -> list[SavePlan]:
        planned.append(len(plans))
        return honest(self, plans)

    monkeypatch.setattr(Planner, "_dedup_save_plans", counted)
    Planner.forget()
    for number, (rows, plans) in enumerate([(700, 1), (700, 1), (701, 2), (701, 2)]):
        saved = _state(rows)
        folder = tmp_path / str(number)
        for entry in _save(folder, saved):
            assert hash_file(folder / entry.path) == (entry.size, entry.sha256)
        into = {name: torch.zeros_like(tensor) for name, tensor in saved.items()}
        dcp.load(into, checkpoint_id=folder, no_dist=True)
        assert all(torch.equal(into[name], saved[name]) for name in saved)
        assert len(planned) == plans
    Planner.forget()


def test_a_plan_that_only_the_other_rank_keeps_is_refused() -> None:
    Planner.forget()
    planner = Planner()
    with pytest.raises(RuntimeError, match="the first rank has not"):
        planner.create_global_plan([SavePlan([]), SavePlan([], usable=False)])


def test_copies_reuse_their_memory_and_follow_a_change_of_shape() -> None:
    buffers: dict[str, torch.Tensor] = {}
    first = _state(5)
    copies = copy_to_host(first, buffers)
    places = {name: copy.data_ptr() for name, copy in copies.items()}
    second = _state(5)
    again = copy_to_host(second, buffers)
    assert {name: copy.data_ptr() for name, copy in again.items()} == places
    assert all(torch.equal(again[name], second[name]) for name in second)
    third = _state(6)
    other = copy_to_host(third, buffers)
    third_before = {name: tensor.clone() for name, tensor in third.items()}
    for tensor in third.values():
        tensor.zero_()
    assert all(torch.equal(other[name], third_before[name]) for name in third)


def test_generators_take_the_same_room_at_any_time() -> None:
    first = capture_rng()
    drawn = torch.rand(3)
    torch.manual_seed(7)
    assert capture_rng().shape == first.shape
    restore_rng(first)
    assert torch.equal(torch.rand(3), drawn)


_PROGRAM = """
import os, sys, time, torch
from pathlib import Path
import torch.distributed as dist
from everstep.contracts.models import ModelConfig
from everstep.contracts.training_spec import Checkpoint
from trainer.checkpoint.restore import Finder, load
from trainer.checkpoint.saver import Saver
from trainer.checkpoint.state import LoopState, live_tensors
from trainer.host import Worker
from trainer.model import Transformer
from trainer.report import Reporter
from trainer.store import open_store

what, folder = sys.argv[1], Path(sys.argv[2])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{folder}/{what}", rank=0, world_size=1)
heads = {"heads": 6, "kv_heads": 6}
model = Transformer(ModelConfig(dim=384, layers=7, ffn_dim=1024, vocab_size=4096, **heads))
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
tensors, loop = live_tensors(model, optimizer), LoopState(step=1)
store, report = open_store(str(folder / "checkpoints")), Reporter(-1)
worker = Worker(node_dir=folder, started_epoch=time.time())
if what == "train":
    for _ in range(2):
        model(torch.zeros(1, 8, dtype=torch.long)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
elif what == "load":
    found = Finder(store, dist.group.WORLD, worker, report).find(tensors, loop.mesh)
    load(found, tensors, loop, dist.group.WORLD, worker, report, 0)
else:
    saver = Saver(store, dist.group.WORLD, worker, report, launch=1, checkpoint=Checkpoint(),
                  broken=set(), last_step=0)
    saver.save(tensors, loop)
    assert saver.settle()
status = Path("/proc/self/status").read_text()
print(int(status.partition("VmHWM:")[2].split()[0]) >> 10)
"""


def test_loading_needs_no_more_memory_than_training(tmp_path: Path) -> None:
    """Peak of a whole process, MiB: some 60 MB of weights, twice that of optimizer."""

    def peak(what: str) -> int:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, what, str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return int(done.stdout.split()[-1])

    assert peak("save") > 0
    loading, training = peak("load"), peak("train")
    assert loading <= training, (loading, training)
