"""FP8: refused where there is none, and it trains (emulated: no GPU here has it)."""

import sys
from functools import partial
from typing import Any

import pytest
import torch

import trainer.parallel
from everstep.contracts.models import ModelConfig
from everstep.contracts.training_spec import Sharding, Train
from tests.trainer.harness import Launch
from trainer.blocks import prepare
from trainer.errors import ConfigError
from trainer.fp8 import check_hardware
from trainer.optim import build_optimizer
from trainer.parallel import Layout, build_model
from trainer.step import optimizer_step

SHAPE = ModelConfig(dim=32, layers=2, heads=4, kv_heads=2, ffn_dim=64, vocab_size=64)


def test_a_cpu_refuses_before_the_first_step(launch: Launch) -> None:
    job = launch("cpu", ranks=1, train__dtype="fp8", train__micro_batch=1)
    assert job.wait() != 0
    assert "a cpu device has no FP8 hardware (hint: train.dtype bf16)" in job.text


@pytest.mark.parametrize(("capability", "refused"), [((8, 0), True), ((8, 9), False)])
def test_a_gpu_is_asked_for_its_capability(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], refused: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA A100-SXM4-40GB")
    cuda = torch.device("cuda", 0)
    check_hardware(Train(dtype="bf16"), cuda)
    if not refused:
        check_hardware(Train(dtype="fp8"), cuda)
        return
    with pytest.raises(ConfigError, match=r"A100-SXM4-40GB has no FP8.*capability 8.0.*8.9.*bf16"):
        check_hardware(Train(dtype="fp8"), cuda)


def curve(dtype: Any, checkpointing: Any = "none") -> list[float]:
    """Losses of 40 steps on one pattern, from the same weights."""
    recipe = Train(
        dtype=dtype,
        sequence_length=32,
        global_batch=4,
        micro_batch=2,
        activation_checkpointing=checkpointing,
    )
    layout, device = Layout(Sharding.FULL_SHARD, 1, 1), torch.device("cpu")
    model = build_model(SHAPE, layout, recipe, device)
    optimizer = build_optimizer(model, recipe)
    if dtype == "fp8":
        kinds = {type(m).__name__ for m in model.blocks["0"].modules()}
        assert "Float8Linear" in kinds
        assert "Linear" not in kinds
        assert type(model.output) is torch.nn.Linear
    batch = (torch.arange(4).unsqueeze(1) * 7 + torch.arange(33) * 3) % SHAPE.vocab_size
    return [
        optimizer_step(model, optimizer, layout, recipe, batch, 4 * 32, 3e-3).loss.item()
        for _ in range(40)
    ]


def test_it_trains_close_to_fp32(one_rank: None, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torchao", reason="optional: FP8 needs it, nothing else does")
    monkeypatch.setattr(trainer.parallel, "prepare", partial(prepare, emulate_fp8=True))
    wide, narrow, again = curve("fp32"), curve("fp8"), curve("fp8", "full")
    assert narrow[-1] < 0.5 * narrow[0]
    assert narrow != wide  # or nothing was rounded
    assert max(abs(a - b) for a, b in zip(wide, narrow, strict=True)) < 0.1 * wide[0]
    assert again == narrow


def test_without_torchao_it_says_so(one_rank: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchao.float8", None)
    with pytest.raises(ConfigError, match=r"needs torchao.*pip install torchao"):
        curve("fp8")
