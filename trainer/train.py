"""The training loop: everything that happens between the first step and the last."""

import time
from dataclasses import dataclass
from pathlib import Path

import torch

from everstep.contracts.env import TrainerEnv
from everstep.contracts.progress import Phase
from trainer.assembly import Training, assemble
from trainer.callbacks import Launched
from trainer.checkpoint.state import LoopState
from trainer.config import TrainerConfig
from trainer.data import rank_positions
from trainer.host import Worker
from trainer.optim import learning_rate
from trainer.step import optimizer_step, places_of, valid_targets


@dataclass
class Where:
    """The step being worked on, for the failure file."""

    step: int | None = None


def train(
    config: TrainerConfig,
    env: TrainerEnv,
    worker: Worker,
    data_root: str,
    device: torch.device,
    where: Where,
    weights: Path | None = None,
) -> None:
    """Trains from the newest good checkpoint to the last step, a stop request or the deadline.

    ``weights``: a Hugging Face checkpoint to start from where there is none of the run's own.

    The default process group must be there. Returns when the last checkpoint is durable.
    """
    run = assemble(config, env, worker, data_root, device, weights)
    recipe, steps, every = config.train, config.stop.steps, config.checkpoint.every_steps
    layout, state, seconds = run.layout, run.state, 0.0
    run.model.train()
    run.report.phase(Phase.WARMUP, state.step)
    while True:
        began = time.monotonic()
        where.step = state.step
        last = state.step >= steps
        start = run.skips.after(state.samples, recipe.global_batch)
        size = 0 if last else recipe.global_batch
        mine = rank_positions(start, size, layout.data_rank(worker.rank), layout.data_ranks)
        drawn = None if last else run.samples.batch(mine)
        batch = None if drawn is None else torch.from_numpy(drawn.tokens)
        data_seconds, save_seconds = time.monotonic() - began, 0.0

        counted = 0 if batch is None else valid_targets(batch)
        agreed = run.control.agree(
            counted if layout.counts(worker.rank) else 0, seconds, run.saver.last_seconds
        )
        if drawn is None or batch is None or agreed.stop:
            break
        due = agreed.save or bool(every and state.step % every == 0)
        if due and state.step > run.saver.last_step:
            save_seconds = _save(run, state)
            began += save_seconds

        lr = learning_rate(recipe, state.step, steps)
        with run.own.compute(state.step + 1, data_seconds):
            result = optimizer_step(
                run.model,
                run.optimizer,
                layout,
                recipe,
                batch.to(device),
                agreed.tokens,
                lr,
                places_of(drawn, device),
            )
        state = state.model_copy(
            update={
                "step": state.step + 1,
                "lr": lr,
                "tokens": state.tokens + agreed.tokens,
                "samples": start + recipe.global_batch,
            }
        )
        seconds = time.monotonic() - began
        run.pace.stepped(seconds, run.saver.in_flight, run.saver.last_seconds)
        run.readings.add(
            Launched(
                step=state.step,
                position=start,
                result=result,
                lr=lr,
                tokens=state.tokens,
                step_tokens=agreed.tokens,
                seconds=seconds,
                data_seconds=data_seconds,
                save_seconds=save_seconds,
            )
        )
        run.validation.after_step(state.step, state.step >= steps)
    _end(run, state, None if last else agreed.stop)


def _save(run: Training, state: LoopState) -> float:
    """Starts a save, once every step before it is read; seconds that the next step waited."""
    run.readings.drain()
    before = time.monotonic()
    run.replicas.compare(state.step)
    run.saver.save(run.tensors, state.model_copy(update={"losses": run.guard.losses}))
    waited = time.monotonic() - before
    run.pace.saved(waited)
    return waited


def _end(run: Training, state: LoopState, stopped: str | None) -> None:
    """Makes the last state durable, and says why the loop ended: None after the last step."""
    run.readings.drain()
    if stopped:
        run.report.phase(Phase.STOPPING, state.step)
    run.readings.close()
    run.saver.settle()
    if state.step > run.saver.last_step:
        last = state.model_copy(update={"losses": run.guard.losses})
        run.saver.save(run.tensors, last, final=stopped is None)
    run.saver.finish()
    run.samples.close()
    if stopped:
        run.report.line("stopped", step=state.step, reason=stopped)
    else:
        loss = run.readings.latest and run.readings.latest.loss
        run.report.line("done", step=state.step, loss=loss, tokens=state.tokens)
