"""Validation loss: what it is, when it is said, and that it changes nothing."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F

from tests.trainer.harness import HELD, SMALL, VOCAB, Alone, Lines, losses, of_kind
from trainer.config import TrainerConfig
from trainer.data import Samples
from trainer.parallel import build_model, layout_of
from trainer.report import Reporter
from trainer.shards import Dataset
from trainer.validation import Validation


def run(alone: Alone, folder: Path, **more: object) -> Lines:
    return alone(
        data__path=folder, data__validation="held", train__validation_every_steps=5, **more
    )


def test_said_every_few_steps_and_at_the_end(alone: Alone, held_out: Path, tmp_path: Path) -> None:
    lines = run(alone, held_out)
    said = of_kind(lines, "validation")
    assert [line["step"] for line in said] == [5, 10, 12]
    assert all(line["tokens"] == HELD * 32 for line in said)
    assert said[0]["loss"] > said[2]["loss"]
    phases = [line["step"] for line in of_kind(lines, "phase") if line["phase"] == "validation"]
    assert phases == [5, 10, 12]
    # dropout's generator included: the training is the one without validation
    without = alone(str(tmp_path / "other"), data__path=held_out)
    assert losses(lines) == losses(without)


def test_the_loss_is_that_of_every_sample_once(one_rank: None, held_out: Path) -> None:
    flat = SMALL | {"data.path": str(held_out), "train.validation_batches": "9"}
    config = TrainerConfig.from_flat(flat)
    device = torch.device("cpu")
    layout = layout_of(config.shape, config.parallelism, config.train, 1, 1)
    model = build_model(config.shape, layout, config.train, device)
    samples = Samples([Dataset(held_out / "held")], 32, 0, VOCAB, 8)
    found, tokens = Validation(samples, model, layout, config.train, device, Reporter(0)).loss(
        samples
    )
    model.eval()
    tokens_of = torch.from_numpy(samples.batch(range(HELD)).tokens)
    with torch.no_grad():
        logits = model(tokens_of[:, :-1])
    wanted = F.cross_entropy(logits.flatten(0, 1), tokens_of[:, 1:].flatten())
    assert (found, tokens) == (pytest.approx(wanted.item(), rel=1e-6), HELD * 32)
    assert dist.get_world_size() == 1
    few = config.train.model_copy(update={"validation_batches": 1})
    assert Validation(samples, model, layout, few, device, Reporter(0)).loss(samples)[1] == 8 * 32
