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
from typing import Any

AT = int(os.environ.get("SABOTAGE_AT", "0"))
ON = int(os.environ.get("SABOTAGE_LAUNCHES", "1")) >= int(os.environ["EVERSTEP_LAUNCH"])
RANK = os.environ.get("SABOTAGE_RANK", "0")
SLOWER = 0.2
CUDA = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB "
    "of which 1.21 GiB is free. Including non-PyTorch memory, this process has 77.93 GiB memory "
    "in use."
)


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


STEPS = {"raise": raise_, "nan": nan, "gpu_memory": gpu_memory}
SLOW = {"slow_sleep": sleep, "slow_work": work}
"""At every step."""


def rank() -> None:
    """One rank: patched, then as ever."""
    from trainer import data, main, train
    from trainer.checkpoint import saver

    kind = os.environ["SABOTAGE"]
    if ON and kind in STEPS | SLOW and os.environ["RANK"] == RANK:
        whole, rate = train.optimizer_step, train.learning_rate
        coming = [0]

        def rate_of(recipe: Any, step: int, steps: int) -> float:
            coming[0] = step + 1
            return rate(recipe, step, steps)

        def step(model: Any, *rest: Any) -> Any:
            if kind in SLOW or coming[0] == AT:
                (STEPS | SLOW)[kind](AT, model)
            return whole(model, *rest)

        train.learning_rate, train.optimizer_step = rate_of, step
    if ON and kind == "slow_data" and os.environ["RANK"] == RANK:
        fetch = data.Samples.batch

        def slowly(*arguments: Any) -> Any:
            time.sleep(SLOWER)
            return fetch(*arguments)

        data.Samples.batch = slowly  # type: ignore[method-assign]
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

    launch.subprocess = type("Patched", (), {"Popen": staticmethod(patched)})  # type: ignore
    return launch.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(rank() if sys.argv[1:2] == ["rank"] else launcher())
