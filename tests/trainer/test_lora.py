"""LoRA: only adapters learn, exactly as by hand; and a run's promises hold for them too."""

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from everstep.contracts.mesh import Mesh
from everstep.contracts.training_spec import Lora, Parallelism, Sharding, Train
from everstep.policy.memory_peak import memory_plan
from tests.trainer.forked import run_ranks
from tests.trainer.harness import Job, Launch, Lines, losses, of_kind, weights
from tests.trainer.test_import_weights import GOLDEN, SHAPES, shape_words
from trainer.checkpoint.state import live_tensors
from trainer.errors import ConfigError
from trainer.export import main as export_main
from trainer.import_weights import import_weights
from trainer.lora import digests, weight_files
from trainer.model import Transformer, initial_values
from trainer.optim import BETAS, EPS, build_optimizer, local
from trainer.parallel import Layout, build_model
from trainer.step import optimizer_step

CASE = "llama31"
BASE, SHAPE = GOLDEN / CASE, SHAPES[CASE]
LORA = Lora(rank=4, alpha=8, targets=["wq", "wo", "w2"])
RECIPE = Train(
    dtype="fp32", sequence_length=16, global_batch=4, micro_batch=2, grad_clip=0.05, lr=0.01
)
WORDS: dict[str, Any] = {
    **shape_words(CASE),
    "model__weights": BASE,
    "model__dropout": 0,
    "model__lora__rank": LORA.rank,
    "model__lora__alpha": LORA.alpha,
    "model__lora__dropout": 0.1,
    "model__lora__targets": json.dumps(LORA.targets),
    "train__sequence_length": 64,
    "train__global_batch": 32,
    "stop__steps": 20,
}


def adapted(seed: int = 0) -> Any:
    layout, device = Layout(Sharding.FULL_SHARD, 1, 1), torch.device("cpu")
    recipe = RECIPE.model_copy(update={"seed": seed})
    model = build_model(SHAPE, layout, recipe, device, LORA)
    import_weights(model, SHAPE, BASE)
    return model, layout, recipe


def plain() -> Transformer:
    model = Transformer(SHAPE)
    import_weights(model, SHAPE, BASE)
    return model


def batch() -> Tensor:
    tokens: Tensor = (torch.arange(4).unsqueeze(1) * 7 + torch.arange(17) * 3) % SHAPE.vocab_size
    return tokens


@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_equal_to_lora_by_hand(one_rank: None, kind: Any) -> None:
    """Loss, norm before the clip (which binds) and adapters, ten steps; the base bit for bit."""
    model, layout, recipe = adapted()
    recipe = recipe.model_copy(update={"optimizer": kind})
    optimizer = build_optimizer(model, recipe)

    base = plain().requires_grad_(False)
    frozen = {name: p.clone() for name, p in base.named_parameters()}
    hands: dict[str, tuple[Tensor, Tensor]] = {}
    for name, parameter in frozen.items():
        if name.split(".")[-2] in LORA.targets:
            stem = name.removesuffix(".weight")
            shapes = ((LORA.rank, parameter.shape[1]), (parameter.shape[0], LORA.rank))
            a, b = (
                initial_values(SHAPE, f"{stem}.lora_{word}", torch.Size(size), 0)
                for word, size in zip("ab", shapes, strict=True)
            )
            assert not b.any()
            assert a.any()
            hands[name] = a.requires_grad_(), b.requires_grad_()
    assert len(hands) == 2 * 3
    leaves = [leaf for pair in hands.values() for leaf in pair]
    by_hand: torch.optim.Optimizer = torch.optim.SGD(leaves, recipe.lr, weight_decay=0.1)
    if kind == "adamw":
        by_hand = torch.optim.AdamW(leaves, recipe.lr, BETAS, EPS, weight_decay=0.1)

    tokens = batch()
    for _ in range(10):
        whole = {n: frozen[n] + LORA.alpha / LORA.rank * b @ a for n, (a, b) in hands.items()}
        logits = torch.func.functional_call(base, frozen | whole, (tokens[:, :-1],))
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        by_hand.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(leaves, recipe.grad_clip)
        by_hand.step()
        assert norm > recipe.grad_clip
        done = optimizer_step(model, optimizer, layout, recipe, tokens, 4 * 16, recipe.lr)
        torch.testing.assert_close(done.loss.float(), loss, rtol=1e-5, atol=0)
        torch.testing.assert_close(done.grad_norm.float(), norm, rtol=1e-4, atol=0)
    ours = dict(model.named_parameters())
    for name, (a, b) in hands.items():
        stem = name.removesuffix(".weight")
        torch.testing.assert_close(local(ours[f"{stem}.lora_a"].data), a.data, rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(local(ours[f"{stem}.lora_b"].data), b.data, rtol=1e-3, atol=1e-5)
    for name, parameter in frozen.items():
        assert torch.equal(local(ours[name].data), parameter)
        assert ours[name].grad is None


def test_a_checkpoint_holds_adapters_alone(one_rank: None) -> None:
    model, _, recipe = adapted()
    names = live_tensors(model, build_optimizer(model, recipe))
    assert {name.rsplit(".", 1)[-1] for name in names if name.startswith("model.")} == {
        "lora_a",
        "lora_b",
    }
    assert len(names) == 4 * 2 * 2 * 3  # itself and three slots, A and B, two layers, targets


def test_the_memory_plan_counts_what_lies_there(one_rank: None) -> None:
    model, _, recipe = adapted()
    plan = memory_plan(SHAPE, Parallelism(), Mesh(1, 1, 1, 1), recipe, LORA)
    parameters = list(model.parameters())
    assert plan.parameters == 4 * sum(p.numel() for p in parameters)
    assert plan.optimizer == 8 * sum(p.numel() for p in parameters if p.requires_grad)


@pytest.fixture(scope="module")
def unbroken(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Lines]:
    base = tmp_path_factory.mktemp("lora")
    job = run_ranks(base, dataset, **WORDS)
    return base / "checkpoints", job.lines


def test_killed_and_resumed_is_bit_equal(
    launch: Launch, tmp_path: Path, unbroken: tuple[Path, Lines]
) -> None:
    broken = launch("broken", **WORDS, guard__in_job_restarts=0)
    broken.wait_for(lambda line: line["everstep"] == "committed")
    os.kill(broken.ranks()[1], signal.SIGKILL)
    assert broken.wait() != 0
    assert not of_kind(broken.lines, "done"), "it was over before it was killed"
    resumed: Job = launch("broken", number=2, **WORDS)
    assert resumed.wait() == 0, resumed.text
    start = of_kind(resumed.lines, "resume")[0]["step"]
    assert start >= 3
    whole = losses(unbroken[1])
    assert losses(resumed.lines) == {step: loss for step, loss in whole.items() if step > start}
    ours, theirs = weights(tmp_path / "broken" / "checkpoints"), weights(unbroken[0])
    assert ours["weights_sha256"] == theirs["weights_sha256"]
    assert ours["optimizer_sha256"] == theirs["optimizer_sha256"]


@pytest.mark.parametrize("sharding", ["FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"])
def test_two_ranks_learn_as_one(
    dataset: Path, tmp_path: Path, one_curve: dict[int, float], sharding: str
) -> None:
    few = WORDS | {"model__lora__dropout": 0, "stop__steps": 6}
    two = run_ranks(tmp_path, dataset, **few, parallelism__sharding=sharding)
    assert losses(two.lines) == pytest.approx(one_curve, rel=1e-5)


@pytest.fixture(scope="module")
def one_curve(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
    few = WORDS | {"model__lora__dropout": 0, "stop__steps": 6}
    return losses(run_ranks(tmp_path_factory.mktemp("one"), dataset, ranks=1, **few).lines)


def test_the_merged_export_has_the_adapted_models_logits(
    one_rank: None, tmp_path: Path, unbroken: tuple[Path, Lines]
) -> None:
    checkpoints, out = unbroken[0], tmp_path / "out"
    arguments = [str(checkpoints), str(out), "--dtype", "fp32"]
    assert export_main(arguments) == 1, "without the base"
    assert export_main([*arguments, "--weights", str(BASE)]) == 0

    model, _, _ = adapted(seed=5)
    newest = max(checkpoints.glob("step-*"))
    live = {f"model.{n}": p.detach() for n, p in model.named_parameters() if p.requires_grad}
    dcp.load(live, checkpoint_id=newest)
    merged = Transformer(SHAPE)
    import_weights(merged, SHAPE, out)
    tokens = batch()[:, :-1]
    model.eval()
    with torch.no_grad():
        torch.testing.assert_close(merged(tokens), model(tokens), rtol=0, atol=1e-5)
        assert (merged(tokens) - plain()(tokens)).abs().max() > 1e-3, "the adapters did nothing"

    wanted: dict[str, Tensor] = {}
    for file in BASE.glob("model-*.safetensors"):
        wanted |= load_file(file)
    found = load_file(out / "model.safetensors")
    assert found.keys() == wanted.keys()
    changed = {n.split(".")[-2] for n in wanted if not torch.equal(found[n], wanted[n])}
    assert changed == {"q_proj", "o_proj", "down_proj"}


def test_other_base_weights_are_refused(
    launch: Launch, tmp_path: Path, unbroken: tuple[Path, Lines]
) -> None:
    """One bit: at the next start, and at the export."""
    shutil.copytree(unbroken[0], tmp_path / "other" / "checkpoints")
    folder = tmp_path / "base"
    shutil.copytree(BASE, folder)
    file = folder / "model-00002-of-00005.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    job = launch("other", ranks=1, number=2, **(WORDS | {"model__weights": folder}))
    assert job.wait() != 0
    assert "was trained with lora=" in job.text
    assert not of_kind(job.lines, "step")
    out = str(tmp_path / "out")
    assert export_main([str(unbroken[0]), out, "--weights", str(folder)]) == 1
    file.unlink()
    with pytest.raises(ConfigError, match=r"model-00002-of-00005.safetensors.*hint"):
        digests(folder, weight_files(folder))
