"""The training loop: everything that happens between the first step and the last."""

import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from everstep.contracts.env import TrainerEnv
from everstep.contracts.progress import Phase
from trainer.callbacks import Launched, Readings
from trainer.checkpoint.catalogue import Catalogue
from trainer.checkpoint.pace import Pace
from trainer.checkpoint.restore import Finder, load
from trainer.checkpoint.saver import Saver
from trainer.checkpoint.state import LoopState, live_tensors, seed_rng
from trainer.config import TrainerConfig
from trainer.control import Control
from trainer.data import Samples, rank_positions
from trainer.guard import Guard
from trainer.health import check_room
from trainer.host import Worker
from trainer.import_weights import import_weights
from trainer.lora import lora_identity
from trainer.optim import build_optimizer, learning_rate
from trainer.parallel import build_model, layout_of
from trainer.pulse import Timeouts
from trainer.replicas import Replicas
from trainer.report import Reporter
from trainer.reporting import reporting
from trainer.restarted import Moved
from trainer.skips import Skips
from trainer.sources import open_samples, open_validation
from trainer.step import optimizer_step, places_of, valid_targets
from trainer.store import open_store
from trainer.straggler import OwnTime, Stragglers
from trainer.validation import Validation

SAVE_TIMEOUT = 3600.0


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
    report = Reporter(worker.rank)
    layout = layout_of(
        config.shape,
        config.parallelism,
        config.train,
        worker.world_size,
        worker.local_world_size,
    )
    # for checkpoints: one rank may upload for long while the others wait
    patience = timedelta(seconds=max(SAVE_TIMEOUT, worker.collective_timeout))
    group = dist.new_group(backend="gloo", timeout=patience)
    recipe, steps = config.train, config.stop.steps
    samples = open_samples(config, data_root, verify=worker.local_rank == 0)
    model = build_model(config.shape, layout, recipe, device, config.model.lora)
    optimizer = build_optimizer(model, recipe)
    held_out = open_validation(config, data_root, verify=worker.local_rank == 0)
    validation = Validation(held_out, model, layout, recipe, device, report)
    seed_rng(recipe.seed, 0, worker.rank)

    store = open_store(env.checkpoint_uri)
    state = LoopState(
        mesh=str(layout),
        identity=_identity(config, samples)
        | {"lora": lora_identity(config.model.lora, weights, group)},
    )
    finder = Finder(store, group, worker, report)
    tensors = live_tensors(model, optimizer)
    folder, nodes = store.local(""), worker.world_size // worker.local_world_size
    check_room(folder or worker.node_dir, tensors.values(), 1 if folder else nodes)
    found = finder.find(tensors, state.mesh)
    if found is not None:
        state = load(found, tensors, state, group, worker, report, recipe.seed)
    if weights is not None and (found is None or config.model.lora):
        import_weights(model, config.shape, weights)  # of LoRA: what no checkpoint holds
    report.line("resume", step=state.step, checkpoint=str(found.name) if found else None)
    if worker.rank == 0:
        Catalogue(store).remove_abandoned(env.launch)
    complete = found is not None and (found.manifest.final or state.step < steps)
    saver = Saver(
        store,
        group,
        worker,
        report,
        launch=env.launch,
        checkpoint=config.checkpoint,
        broken=finder.broken,
        last_step=state.step if complete else 0,
    )

    pace = Pace(config.checkpoint, worker, report)
    limit = env.max_runtime_seconds
    deadline = None if limit is None else worker.started_epoch + limit
    control = Control(worker, deadline, pace)
    own = OwnTime(device, config.guard.straggler_every)
    skips = Skips.read(store)
    guard = Guard(
        config.guard,
        skips,
        state.losses,
        store=store,
        saver=saver,
        group=group,
        report=report,
        batch=recipe.global_batch,
    )
    timeouts = Timeouts(worker.collective_timeout, [group])
    replicas = Replicas(model, config.guard.replica_every)
    moved = Moved(worker, report)
    stragglers = Stragglers(own, config.guard.straggler_every, report)
    # a GPU works while the host reads the step before; on a CPU there is nothing to wait for
    beside = reporting(config, env, worker, report)
    callbacks = [guard, *beside, stragglers, replicas, timeouts, moved]
    readings = Readings(callbacks, behind=1 if device.type == "cuda" else 0)
    every, seconds = config.checkpoint.every_steps, 0.0
    model.train()
    report.phase(Phase.WARMUP, state.step)
    while True:
        began = time.monotonic()
        where.step = state.step
        last = state.step >= steps
        start = skips.after(state.samples, recipe.global_batch)
        positions = rank_positions(
            start,
            0 if last else recipe.global_batch,
            layout.data_rank(worker.rank),
            layout.data_ranks,
        )
        drawn = None if last else samples.batch(positions)
        batch = None if drawn is None else torch.from_numpy(drawn.tokens)
        data_seconds, save_seconds = time.monotonic() - began, 0.0
        agreed = control.agree(
            valid_targets(batch) if batch is not None and layout.counts(worker.rank) else 0,
            seconds,
            saver.last_seconds,
        )
        due = agreed.save or bool(every and state.step % every == 0)
        if batch is None or agreed.stop or (due and state.step > saver.last_step):
            readings.drain()
        if drawn is None or batch is None or agreed.stop:
            break
        if due and state.step > saver.last_step:
            before = time.monotonic()
            replicas.compare(state.step)
            saver.save(tensors, state.model_copy(update={"losses": guard.losses}))
            save_seconds = time.monotonic() - before
            pace.saved(save_seconds)
            began += save_seconds

        lr = learning_rate(recipe, state.step, steps)
        with own.compute(state.step + 1, data_seconds):
            result = optimizer_step(
                model,
                optimizer,
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
        pace.stepped(seconds, saver.in_flight, saver.last_seconds)
        readings.add(
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
        validation.after_step(state.step, state.step >= steps)
    if not last:
        report.phase(Phase.STOPPING, state.step)
    readings.close()
    saver.settle()
    if state.step > saver.last_step:
        saver.save(tensors, state.model_copy(update={"losses": guard.losses}), final=last)
    saver.finish()
    samples.close()
    if last:
        loss = readings.latest and readings.latest.loss
        report.line("done", step=state.step, loss=loss, tokens=state.tokens)
    else:
        report.line("stopped", step=state.step, reason=agreed.stop)


def _identity(config: TrainerConfig, samples: Samples) -> dict[str, object]:
    """What must stay as it is within a run. Dropout, rates and the mesh may change."""
    train = config.train
    return {
        "model": config.shape.model_dump(exclude={"dropout"}, exclude_none=True),
        "sequence_length": train.sequence_length,
        "global_batch": train.global_batch,
        "seed": train.seed,
        **samples.identity,
    }
