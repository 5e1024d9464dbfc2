"""The reference trainer with one thing wrong: ``SABOTAGE`` at step ``SABOTAGE_AT``.

As a container's command it is the launcher, whose ranks are this module too. ``SABOTAGE_LAUNCHES``
(1): how many launches of the run are so; ``SABOTAGE_RANK`` (0): which rank. Nothing in ``trainer/``
knows of it.
"""

import errno
import os
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

AT = int(os.environ.get("SABOTAGE_AT", "0"))
ON = int(os.environ.get("SABOTAGE_LAUNCHES", "1")) >= int(os.environ["EVERSTEP_LAUNCH"])
FIRST = os.environ.get("EVERSTEP_GENERATION", "0") == "0"
RANK = os.environ.get("SABOTAGE_RANK", "0")
SLOWER, LATE = 0.2, 8.0
CUDA = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB "
    "of which 1.21 GiB is free. Including non-PyTorch memory, this process has 77.93 GiB memory "
    "in use."
)
NO_EFA = """algo-1:79:79 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so
algo-1:79:79 [0] NCCL INFO NET/IB : No device found.
algo-1:79:79 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.4.51<0>
algo-1:79:79 [0] NCCL INFO Using network Socket
"""


class DataLoaderBug(Exception):
    """What a program of a user raises."""


def raise_(step: int, model: Any) -> None:
    raise DataLoaderBug(f"sample {step} has no label")


def nan(step: int, model: Any) -> None:
    import torch

    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(float("nan"))


def gpu_memory(step: int, model: Any) -> None:
    import torch

    raise torch.OutOfMemoryError(CUDA)


def sleep(step: int, model: Any) -> None:
    time.sleep(SLOWER)


def work(step: int, model: Any) -> None:
    """A core that is busy with something else."""
    until = time.monotonic() + SLOWER
    while time.monotonic() < until:
        pass


def late(step: int, model: Any) -> None:
    """Alive, and not where the others wait for it."""
    time.sleep(LATE)


def flip(step: int, model: Any) -> None:
    """One bit of one weight, once."""
    import torch

    if FIRST:
        weight = next(model.parameters()).to_local().detach().reshape(-1)
        weight.view(torch.int32)[7] ^= 1


def poison(step: int, model: Any) -> None:
    """One batch whose loss is not a number; the weights are left alone."""
    _spoil(model, float("nan"))


def spike(step: int, model: Any) -> None:
    _spoil(model, 100.0)


def _spoil(model: Any, factor: float) -> None:
    def spoilt(module: Any, inputs: Any, logits: Any) -> Any:
        handle.remove()
        return logits * factor

    handle = model.register_forward_hook(spoilt)


STEPS = {"raise": raise_, "nan": nan, "gpu_memory": gpu_memory, "late": late, "flip": flip}
BATCHES = {"poison": poison, "spike": spike}
"""Belong to the batch that step AT takes in an unbroken run: one that skips it does not meet it."""
SLOW = {"slow_sleep": sleep, "slow_work": work}
"""At every step."""


def rank() -> None:
    """One rank: patched, then as ever."""
    from trainer import data, efa, health, main, skips, train
    from trainer.checkpoint import saver

    kind = os.environ["SABOTAGE"]
    if ON and kind in STEPS | SLOW | BATCHES and os.environ["RANK"] == RANK:
        whole, rate = train.optimizer_step, train.learning_rate
        coming, position = [0], [0, 1]
        places = train.rank_positions

        def positions_of(start: int, batch: int, *rest: Any) -> Any:
            position[:] = [start, batch]
            return places(start, batch, *rest)

        train.rank_positions = positions_of

        def rate_of(recipe: Any, step: int, steps: int) -> float:
            coming[0] = step + 1
            return rate(recipe, step, steps)

        def step(model: Any, *rest: Any) -> Any:
            start, batch = position
            if kind in SLOW or (start == (AT - 1) * batch if kind in BATCHES else coming[0] == AT):
                (STEPS | SLOW | BATCHES)[kind](AT, model)
            return whole(model, *rest)

        train.learning_rate, train.optimizer_step = rate_of, step
    if ON and kind == "slow_data" and os.environ["RANK"] == RANK:
        fetch = data.Samples.batch

        def slowly(*arguments: Any) -> Any:
            time.sleep(SLOWER)
            return fetch(*arguments)

        data.Samples.batch = slowly  # type: ignore[method-assign]
    if ON and os.environ.get("SABOTAGE_HOLD") == "ledger" and os.environ["RANK"] == "0":

        def held(*_: Any) -> None:
            print('{"everstep":"held"}', flush=True)
            time.sleep(600)

        skips.Skips.write = held  # type: ignore[method-assign]
    if ON and kind == "no_efa":
        # the lines in the forms of NVIDIA/nccl issues 959 and 229
        health.fabric_of = lambda *_: efa.read_log(NO_EFA.splitlines())
        health.instance_type = lambda ml: "ml.p5.48xlarge"
    if ON and kind == "disk_full":

        def full(*_: Any, **__: Any) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        saver.save_tensors = full
    main.main(sys.argv[2:])


def launcher() -> int:
    """``trainer.launch``, whose ranks are started as this module."""
    from trainer import launch

    start = subprocess.Popen

    def patched(command: list[str], **more: Any) -> Any:
        here = [*command[:2], "tests.chaos.sabotage", "rank", *command[3:]]
        return start(here, **more)

    launch.subprocess = SimpleNamespace(**{**vars(subprocess), "Popen": patched})  # type: ignore
    return launch.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(rank() if sys.argv[1:2] == ["rank"] else launcher())
