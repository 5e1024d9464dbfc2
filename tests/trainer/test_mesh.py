"""Every mesh trains the same: losses, gradient norms, what is kept, and what a resume loads.

Three launches (1, 2 and 4 ranks) do all the training; see ``mesh_program``.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.forked import run_ranks
from tests.trainer.harness import HELD, ROOT, free_port, losses, of_kind
from tests.trainer.mesh_program import ROWS, SHAPE, STEPS, Job, run
from trainer.verify import tensor_digest

MICRO_BATCHES = ROWS
GROUPS = SHAPE.layers + 1

TWO = {
    "FULL_SHARD 2": Job("FULL_SHARD", shard=2),
    "SHARD_GRAD_OP 2": Job("SHARD_GRAD_OP", shard=2),
    "NO_SHARD 2": Job("NO_SHARD", replicate=2),
    "TP 2": Job("FULL_SHARD", tensor=2),
    "PP 2": Job("FULL_SHARD", pipeline=2),
    "PP 2 interleaved": Job("FULL_SHARD", pipeline=2, virtual_stages=2),
}
FOUR = {
    "FULL_SHARD 4": Job("FULL_SHARD", shard=4),
    "HYBRID_SHARD 2×2": Job("HYBRID_SHARD", replicate=2, shard=2),
    "SHARD_GRAD_OP 4": Job("SHARD_GRAD_OP", shard=4),
    "NO_SHARD 4": Job("NO_SHARD", replicate=4),
    "FSDP 2 × TP 2": Job("FULL_SHARD", shard=2, tensor=2),
    "FSDP 2 × PP 2": Job("FULL_SHARD", shard=2, pipeline=2),
    "PP 2 × TP 2": Job("FULL_SHARD", pipeline=2, tensor=2),
}
HALF = {
    "bf16, TP 2, full": Job("FULL_SHARD", tensor=2),
    "bf16, PP 2, selective": Job("FULL_SHARD", pipeline=2),
    "bf16, PP 2 interleaved, full": Job("SHARD_GRAD_OP", pipeline=2, virtual_stages=2),
}
SAVED = ("FULL_SHARD 2", "TP 2", "PP 2")
CHANGES = {
    "1→2": ("one", Job("FULL_SHARD", shard=2)),
    "FULL→HYBRID": ("FULL_SHARD 2", Job("HYBRID_SHARD", replicate=2)),
    "PP 2→2": ("PP 2", Job("FULL_SHARD", pipeline=2)),
    "PP 2→PP 2 interleaved": ("PP 2", Job("FULL_SHARD", pipeline=2, virtual_stages=2)),
    "2→1": ("FULL_SHARD 2", Job("FULL_SHARD")),
    "TP 2→1": ("TP 2", Job("FULL_SHARD")),
    "PP 2→1": ("PP 2", Job("FULL_SHARD")),
}
Seen = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("meshes")


@pytest.fixture(scope="module")
def alone(one_rank: None, folder: Path) -> Seen:
    """One rank, with both optimizers; SGD on packed documents."""
    return {
        "adamw": run(Job("FULL_SHARD", save=str(folder / "one"))),
        "sgd": run(Job("FULL_SHARD", optimizer="sgd", packed=True)),
    }


@pytest.fixture(scope="module")
def seen(alone: Seen, folder: Path) -> Seen:
    """By name and optimizer, and by change of mesh."""
    two = {
        f"{name}, adamw": job._replace(
            watch=True, save=str(folder / name) if name in SAVED else None
        )
        for name, job in TWO.items()
    }
    four = {f"{name}, adamw": job._replace(watch=True) for name, job in FOUR.items()}
    for jobs, meshes in ((two, TWO), (four, FOUR)):
        for name, job in meshes.items():
            jobs[f"{name}, sgd"] = job._replace(optimizer="sgd", packed=True)
    half = {
        name: job._replace(dtype="bf16", steps=4, activation_checkpointing=name.split(", ")[-1])
        for name, job in HALF.items()
    }
    resumed = {name: _resumed(name, folder) for name in CHANGES}
    on_two = {name: job for name, job in resumed.items() if not name.endswith("→1")}
    found = _launch(folder, 2, two | on_two | half) | _launch(folder, 4, four)
    return found | {n: run(j) for n, j in resumed.items() if n not in on_two}


def _resumed(name: str, folder: Path) -> Job:
    source, job = CHANGES[name]
    return job._replace(
        start=10, steps=6, load=str(folder / source), again=str(folder / f"again {name}")
    )


def _launch(folder: Path, ranks: int, jobs: dict[str, Job]) -> Seen:
    (folder / "jobs.json").write_text(json.dumps([job._asdict() for job in jobs.values()]))
    out = folder / f"out{ranks}.json"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            f"--nproc-per-node={ranks}",
            f"--master-port={free_port()}",
            "-m",
            "tests.trainer.mesh_program",
            str(folder / "jobs.json"),
            str(out),
        ],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(zip(jobs, json.loads(out.read_text()), strict=True))


digest = cache(tensor_digest)


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
@pytest.mark.parametrize("mesh", [*TWO, *FOUR])
def test_loss_and_gradient_norm_are_those_of_one_rank(
    alone: Seen, seen: Seen, mesh: str, optimizer: str
) -> None:
    wanted, found = alone[optimizer]["curve"], seen[f"{mesh}, {optimizer}"]["curve"]
    assert len(found) == STEPS
    assert min(norm for _, norm in wanted) > 0.2  # the clip of 0.1 binds
    assert wanted[-1][0] < 0.95 * wanted[0][0]
    for one, many in zip(wanted, found, strict=True):
        assert many == pytest.approx(one, rel=1e-4)


@pytest.mark.parametrize("mesh", HALF)
def test_bf16_and_recomputation_go_with_any_mesh(alone: Seen, seen: Seen, mesh: str) -> None:
    for half, single in zip(seen[mesh]["curve"], alone["adamw"]["curve"][:4], strict=True):
        assert half == pytest.approx(single, rel=2e-2)
        assert half != pytest.approx(single, rel=1e-6)  # it is not fp32 by another name


@pytest.mark.parametrize("change", CHANGES)
def test_another_mesh_loads_bit_for_bit_and_goes_on(
    seen: Seen, alone: Seen, folder: Path, change: str
) -> None:
    source = CHANGES[change][0]
    for prefix in ("model.", "optimizer."):
        assert digest(folder / f"again {change}", prefix) == digest(folder / source, prefix)
    unbroken = (alone["adamw"] if source == "one" else seen[f"{source}, adamw"])["curve"]
    for now, then in zip(seen[change]["curve"], unbroken[10:16], strict=True):
        assert now == pytest.approx(then, rel=1e-5)


def test_a_checkpoint_of_any_mesh_has_the_same_names(seen: Seen, folder: Path) -> None:
    from torch.distributed.checkpoint.filesystem import FileSystemReader

    names = {
        source: set(FileSystemReader(folder / source).read_metadata().state_dict_metadata)
        for source in ("one", *SAVED)
    }
    assert len(names["one"]) == 4 * (9 * SHAPE.layers + 3)
    assert all(found == names["one"] for found in names.values())


@pytest.mark.parametrize("mesh", [*TWO, *FOUR])
def test_a_step_reads_nothing_and_a_bad_one_changes_nothing(seen: Seen, mesh: str) -> None:
    """The bad gradient is in the first block alone: the other stages must hear of it."""
    found = seen[f"{mesh}, adamw"]
    for counts in found["counts"]:
        assert counts["allreduce"] >= 1  # it did watch
        assert "local_scalar_dense" not in counts
        assert "is_nonzero" not in counts
    assert set(found["bad"]) == {1.0}
    assert all(found["kept"])
    assert all(found["moved"])
    assert set(found["good"]) == {0.0}


def test_collectives_are_those_of_the_mode(seen: Seen) -> None:
    """One all-reduce more than the mode's own: loss and norm of the step."""

    def of(mesh: str) -> dict[str, int]:
        first, *others = seen[f"{mesh}, adamw"]["counts"]
        assert all(other == first for other in others)
        return Counter(first)

    micro = MICRO_BATCHES // 2
    full = of("FULL_SHARD 2")
    assert full["allgather_base"] == 2 * GROUPS * micro
    assert full["reduce_scatter_base"] == GROUPS * micro
    assert full["allreduce"] == 1
    partly = of("SHARD_GRAD_OP 2")
    assert partly["allgather_base"] == GROUPS
    assert partly["reduce_scatter_base"] == GROUPS * micro
    assert partly["allreduce"] == 1
    assert of("NO_SHARD 2") == {"allreduce": GROUPS + 1}
    hybrid = of("HYBRID_SHARD 2×2")
    assert hybrid["reduce_scatter_base"] == GROUPS * (MICRO_BATCHES // 4)
    assert hybrid["allreduce"] == GROUPS + 1

    # in every block: attention and feed-forward gather tokens and scatter them again, forward
    # and backward; the same once for embedding and output
    tensor = of("TP 2")
    assert tensor["all_gather_into_tensor"] == 4 * SHAPE.layers + 2
    assert tensor["reduce_scatter_tensor"] == 4 * SHAPE.layers + 2
    assert tensor["allreduce"] == 3 + 1  # the loss over a cut vocabulary; loss and norm
    assert of("PP 2") == {"send": MICRO_BATCHES, "recv": MICRO_BATCHES, "allreduce": 1}


def test_local_sizes_are_those_of_the_mode(seen: Seen) -> None:
    whole = SHAPE.parameters()
    norms = SHAPE.dim * (2 * SHAPE.layers + 1)

    def shares(mesh: str) -> list[int]:
        return list(seen[f"{mesh}, adamw"]["local"])

    assert shares("FULL_SHARD 4") == shares("SHARD_GRAD_OP 4") == [whole // 4] * 4
    assert shares("HYBRID_SHARD 2×2") == [whole // 2] * 4
    assert shares("NO_SHARD 4") == [whole] * 4
    assert shares("TP 2") == [(whole - norms) // 2 + norms] * 2
    assert sum(shares("FSDP 2 × TP 2")) == whole + norms
    for mesh in ("PP 2", "PP 2 interleaved", "FSDP 2 × PP 2"):
        assert sum(shares(mesh)) == whole
        assert max(shares(mesh)) < 0.6 * whole / (len(shares(mesh)) / 2)


def test_a_stage_holds_its_own_layers_by_their_global_numbers(seen: Seen) -> None:
    def layers(mesh: str) -> list[set[int]]:
        return [
            {int(name.split(".")[1]) for name in names if name.startswith("blocks.")}
            for names in seen[f"{mesh}, adamw"]["names"]
        ]

    assert layers("PP 2") == [{0, 1}, {2, 3}]
    assert layers("PP 2 interleaved") == [{0, 2}, {1, 3}]


def test_microbatches_in_flight_are_bounded(seen: Seen) -> None:
    """A schedule that ran all forwards first (GPipe) would hold 8, interleaved 16."""
    assert seen["PP 2, adamw"]["in_flight"] == [2, 1]
    assert seen["PP 2 interleaved, adamw"]["in_flight"] == [5, 3]


def test_a_run_goes_on_without_its_pipeline(tmp_path: Path, held_out: Path) -> None:
    """The trainer itself: two stages, then one rank, then two again."""
    quiet = {
        "model__dropout": 0,
        "train__schedule": "constant",
        "data__validation": "held",
        "data__document_separator": 5,
        "train__validation_every_steps": 4,
    }
    go_on = partial(run_ranks, tmp_path / "run", held_out, **quiet)
    piped = go_on(parallelism__pipeline=2, stop__steps=6)
    whole = go_on(ranks=1, number=2, stop__steps=9)
    again = go_on(number=3, parallelism__pipeline=2)
    assert [of_kind(job.lines, "resume")[0]["step"] for job in (piped, whole, again)] == [0, 6, 9]
    assert of_kind(again.lines, "done")[0]["tokens"] == 12 * 8 * 32

    sharded = run_ranks(tmp_path / "sharded", held_out, **quiet)
    found = losses(piped.lines) | losses(whole.lines) | losses(again.lines)
    assert found == pytest.approx(losses(sharded.lines), rel=1e-5)
    lines = piped.lines + whole.lines + again.lines
    said = {line["step"]: line["loss"] for line in of_kind(lines, "validation")}
    assert sorted(said) == [4, 6, 8, 9, 12]  # a launch's last step, too
    for line in of_kind(sharded.lines, "validation"):
        assert said[line["step"]] == pytest.approx(line["loss"], rel=1e-5)
        assert line["tokens"] == HELD * 32
