"""Beginning from another run's checkpoint, where a run has none of its own."""

import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict_loader import load as load_tensors

from everstep.contracts.env import TrainerEnv
from everstep.contracts.manifest import CheckpointName
from trainer.checkpoint.restore import Finder, Found, load
from trainer.checkpoint.state import LOOP_NAME, LoopState
from trainer.errors import ConfigError
from trainer.host import Worker
from trainer.report import Reporter
from trainer.store import open_store


def begin_from(
    env: TrainerEnv,
    tensors: dict[str, Tensor],
    fresh: LoopState,
    group: dist.ProcessGroup,
    worker: Worker,
    report: Reporter,
    seed: int,
) -> tuple[Found, LoopState]:
    """The checkpoint, and where training stands. Called by all ranks.

    Raises ``ConfigError`` where it is gone or broken: never from nothing instead.
    """
    prefix, _, last = str(env.start_from).rstrip("/").rpartition("/")
    name = CheckpointName.parse(last)
    weights = env.start_with == "weights"
    into = {k: v for k, v in tensors.items() if k.startswith("model.")} if weights else tensors
    finder = Finder(open_store(prefix), group, worker, report)
    # no mesh is like none: of the weights alone no rank reads generators
    found = finder.find(into, "" if weights else fresh.mesh, only=name) if name else None
    if found is None:
        raise ConfigError(
            f"start.checkpoint: {env.start_from} is no whole checkpoint",
            "`everstep resume RUN --from STEP` names those that a run has",
        )
    if not weights:
        return found, load(found, tensors, fresh, group, worker, report, seed)
    saved = LoopState.model_validate_json((found.folder / LOOP_NAME).read_text()).identity
    for key in ("model", "lora"):
        if saved.get(key) != fresh.identity.get(key):
            raise ConfigError(
                f"start.checkpoint: {found.name} has {key}={saved.get(key)!r}, "
                f"this run has {fresh.identity.get(key)!r}",
                "weights fit a model of the same shape",
            )
    load_tensors(into, storage_reader=FileSystemReader(found.folder), process_group=group)
    return found, fresh
