"""Everything that a training needs, put together: model, data, checkpoint, and who looks on."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

from everstep.contracts.env import TrainerEnv
from trainer.callbacks import Readings
from trainer.checkpoint.begin import begin_from
from trainer.checkpoint.catalogue import Catalogue
from trainer.checkpoint.pace import Pace
from trainer.checkpoint.restore import Finder, load
from trainer.checkpoint.saver import Saver
from trainer.checkpoint.state import LoopState, live_tensors, seed_rng
from trainer.config import TrainerConfig
from trainer.control import Control
from trainer.data import Samples
from trainer.guard import Guard
from trainer.health import check_room
from trainer.host import Worker
from trainer.import_weights import import_weights
from trainer.lora import lora_identity
from trainer.optim import build_optimizer
from trainer.parallel import Layout, build_model, layout_of
from trainer.pulse import Timeouts
from trainer.records import RecordedStore, open_checkpoints
from trainer.replicas import Replicas
from trainer.report import Reporter
from trainer.reporting import reporting
from trainer.restarted import Moved
from trainer.skips import Skips
from trainer.sources import open_samples, open_validation
from trainer.straggler import OwnTime, Stragglers
from trainer.validation import Validation

SAVE_TIMEOUT = 3600.0


@dataclass
class Training:
    """One rank's training, where its newest good checkpoint left it."""

    state: LoopState
    layout: Layout
    model: nn.Module
    optimizer: torch.optim.Optimizer
    tensors: dict[str, Tensor]
    """What a checkpoint holds, by name: the training's own, not copies."""
    samples: Samples
    skips: Skips
    validation: Validation
    saver: Saver
    pace: Pace
    control: Control
    guard: Guard
    replicas: Replicas
    own: OwnTime
    readings: Readings
    report: Reporter


def assemble(
    config: TrainerConfig,
    env: TrainerEnv,
    worker: Worker,
    data_root: str,
    device: torch.device,
    weights: Path | None,
) -> Training:
    """Called by all ranks; the default process group must be there. Loads what it resumes from."""
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
    recipe = config.train
    samples = open_samples(config, data_root, verify=worker.local_rank == 0)
    model = build_model(config.shape, layout, recipe, device, config.model.lora)
    optimizer = build_optimizer(model, recipe)
    held_out = open_validation(config, data_root, verify=worker.local_rank == 0)
    validation = Validation(held_out, model, layout, recipe, device, report)
    seed_rng(recipe.seed, 0, worker.rank)

    store = open_checkpoints(env)
    if isinstance(store, RecordedStore) and worker.rank == 0:
        store.mend()
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
    origin = found
    if found is None and env.start_from is not None:
        origin, state = begin_from(env, tensors, state, group, worker, report, recipe.seed)
    if weights is not None and (origin is None or config.model.lora):
        import_weights(model, config.shape, weights)  # of LoRA: what no checkpoint holds
    report.line("resume", step=state.step, checkpoint=str(origin.name) if origin else None)
    if worker.rank == 0:
        Catalogue(store).remove_abandoned(env.launch)
    complete = found is not None and (found.manifest.final or state.step < config.stop.steps)
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
    return Training(
        state=state,
        layout=layout,
        model=model,
        optimizer=optimizer,
        tensors=tensors,
        samples=samples,
        skips=skips,
        validation=validation,
        saver=saver,
        pace=pace,
        control=control,
        guard=guard,
        replicas=replicas,
        own=own,
        readings=readings,
        report=report,
    )


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
