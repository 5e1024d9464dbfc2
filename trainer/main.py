"""``python -m trainer.main``: one rank. Started by ``trainer.launch``, or by torchrun alone.

Reads SageMaker's hyperparameters.json, or ``--config FILE.toml``; ``--set a.b=c`` changes
either. Imports torch only inside ``run``, so that even a failed import leaves a failure file.
"""

import argparse
import ctypes
import gc
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from everstep.contracts.env import TrainerEnv
from everstep.contracts.failures import FailureClass
from trainer.errors import ConfigError, DataError, TrainerError
from trainer.failure import FailureRecorder, is_victim
from trainer.flight import write_record
from trainer.host import MlRoot, Worker, env_of

if TYPE_CHECKING:
    from trainer.config import TrainerConfig

_PR_SET_PDEATHSIG = 1


def main(argv: list[str] | None = None) -> NoReturn:
    args = parser().parse_args(argv)
    ml = MlRoot.parse(os.environ)
    try:
        env, worker = env_of(os.environ), Worker.parse(os.environ)
    except ConfigError as error:  # no rank or no launch, so no failure file of one
        sys.exit(f"trainer: {error}")
    _die_with_launcher(worker)
    recorder = FailureRecorder(env, ml, worker.host, worker.rank, worker.started_epoch)
    where: list[Any] = []
    code = 0
    try:
        if worker.rank == 0 and worker.generation == 0:
            recorder.clear()
        run(args, env, ml, worker, where)
    except BaseException as error:  # noqa: BLE001 - every end leaves a failure file
        code = 1
        step = where[0].step if where else None
        failure = recorder.from_exception(error, step)
        if failure.failure_class == FailureClass.COMMUNICATION_HANG:
            write_record(worker)
        recorder.write(failure, victim=is_victim(error))
        print(f"trainer: rank {worker.rank} failed at step {step}:", file=sys.stderr)
        if isinstance(error, ConfigError | DataError):  # the sentence says it; the file has both
            sys.stderr.writelines(traceback.format_exception_only(error))
        else:
            traceback.print_exception(error, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    # not sys.exit: a save thread or a collective of a dead peer must not hold the process
    os._exit(code)


def read_config(args: argparse.Namespace, ml: MlRoot) -> "TrainerConfig":
    """Hyperparameters or the TOML file, with ``--set`` on top. Raises ``ConfigError``."""
    from trainer.config import TrainerConfig, flat_from_toml

    flat = flat_from_toml(args.config, args.set)
    if args.config is None:
        flat = {k: str(v) for k, v in ml.config("hyperparameters").items()} | flat
    return TrainerConfig.from_flat(flat)


def run(
    args: argparse.Namespace, env: TrainerEnv, ml: MlRoot, worker: Worker, where: list[Any]
) -> None:
    """Everything that can fail. ``where`` receives the loop's ``Where`` once there is one."""
    config = read_config(args, ml)
    gc.disable()  # a quarter of the imports' time: they make many objects and hardly any garbage

    from datetime import timedelta

    import torch
    import torch.distributed as dist

    from trainer.fp8 import check_hardware
    from trainer.health import check_hosts
    from trainer.import_weights import weights_folder
    from trainer.pulse import start_pulse
    from trainer.report import Reporter
    from trainer.sources import data_root
    from trainer.train import Where, train

    gc.freeze()  # nor do later collections look at them
    gc.enable()
    where.append(Where())
    root = data_root(config.data, env, ml)
    weights = config.model.weights and weights_folder(config.model.weights, ml)
    worker.node_dir.mkdir(parents=True, exist_ok=True)
    start_pulse(worker)
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", worker.local_rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    check_hardware(config.train, device)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if cuda else "gloo",
        init_method="env://",
        rank=worker.rank,
        world_size=worker.world_size,
        timeout=timedelta(seconds=max(worker.start_timeout, worker.collective_timeout)),
    )
    report = Reporter(worker.rank)
    try:
        if config.guard.health != "off":
            check_hosts(worker, ml, device, report)
    except TrainerError as error:
        if config.guard.health == "refuse":
            raise
        report.log(f"starts all the same (guard.health=warn): {error}")
    worker = worker.model_copy(update={"joined_epoch": time.time()})
    train(config, env, worker, root, device, where[0], weights or None)
    dist.barrier()  # nobody leaves, and takes the store with it, before all are done
    dist.destroy_process_group()


def _die_with_launcher(worker: Worker) -> None:
    """An orphaned rank would go on, and write: the kernel kills it with its launcher."""
    if worker.launcher_pid is None:
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != worker.launcher_pid:
        os._exit(1)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m trainer.main", description=__doc__)
    parser.add_argument("--config", type=Path, help="TOML file with the sections of a run spec")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.FIELD=VALUE",
        help="change one field; may be given many times",
    )
    # SageMaker calls a container's entry point with the word "train"; other words are errors
    parser.add_argument("train", nargs="?", choices=["train"], help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main()
