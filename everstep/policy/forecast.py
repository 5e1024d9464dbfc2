"""What a run will take, before it is started: pace, checkpoints, host memory. Arithmetic only."""

from collections.abc import Iterator
from typing import NamedTuple

from everstep.contracts.check import resolve_model
from everstep.contracts.flops import flops_per_token, peak_flops
from everstep.contracts.instances import INSTANCE_TYPES
from everstep.contracts.problems import Problem
from everstep.contracts.run_spec import RunSpec, Target, Trainer
from everstep.policy.checkpoint_interval import (
    FAILURES_PER_NODE_DAY,
    interval,
    mean_time_between_failures,
)
from everstep.policy.memory import trained_elements

MFU = 0.40
MFU_RANGE = (0.30, 0.45)
MFU_SOURCE = (
    "0.38 to 0.43 of bf16 peak: Llama 3 405B on 8,192 and 16,384 H100 (arXiv 2407.21783, table 4); "
    "0.30 to 0.45 is assumed for other models and meshes, not measured here. Say yours: --mfu"
)
GIB = 2**30
BYTES_A_WEIGHT = {"adamw": 12, "sgd": 4}
"""In a checkpoint: fp32 weights, and AdamW's two moments."""


class Pace(NamedTuple):
    """Of training alone: no failure, no save."""

    tokens: int
    """Of the whole run; of one that goes on from another's checkpoint, what is left."""
    tokens_per_s: float
    step_seconds: float
    train_seconds: float
    flops_per_token: float
    peak_flops: float | None
    """Of all GPUs together; None where the rate was given."""


class Saving(NamedTuple):
    bytes: int
    """Of one checkpoint, all files."""
    host_bytes: int
    """That one host keeps in memory for its copy, from the first save to the end."""
    interval_seconds: float
    reason: str


def of_ours(spec: RunSpec) -> bool:
    """The reference trainer: of another program nothing but its hosts is known."""
    return spec.trainer.command == Trainer().command


def pace(
    spec: RunSpec, target: Target, mfu: float, tokens_per_s: float | None = None
) -> Pace | None:
    """By ``mfu``, unless the rate is given. None where no rate can be told: accelerators without a
    known peak, CPUs, fp32 (the peaks are bf16's), and programs that are not the reference trainer.
    """
    shape, recipe = resolve_model(spec.model), spec.train
    each = flops_per_token(shape, recipe.sequence_length, frozen=spec.model.lora is not None)
    kind = INSTANCE_TYPES[target.instance_type]
    peak = peak_flops(kind.accelerator) if kind.gpus else None
    whole = None if peak is None else peak * kind.gpus * target.nodes
    if tokens_per_s is None:
        if whole is None or recipe.dtype == "fp32" or not of_ours(spec):
            return None
        tokens_per_s = whole * mfu / each
    step = recipe.global_batch * recipe.sequence_length
    tokens = step * (spec.stop.steps - spec.start.step)
    return Pace(
        tokens=tokens,
        tokens_per_s=tokens_per_s,
        step_seconds=step / tokens_per_s,
        train_seconds=tokens / tokens_per_s,
        flops_per_token=each,
        peak_flops=whole,
    )


def saving(
    spec: RunSpec, target: Target, stall: float, durable: float, step_seconds: float | None
) -> Saving:
    """``stall``: seconds of training that a save is taken to cost; ``durable``: until it is
    safe."""
    asked = spec.checkpoint
    if asked.every_steps is not None:
        seconds = asked.every_steps * (step_seconds or 0.0)
        reason = f"checkpoint.every_steps {asked.every_steps}"
    elif asked.every_minutes is not None:
        seconds, reason = (
            60 * asked.every_minutes,
            f"checkpoint.every_minutes {asked.every_minutes:g}",
        )
    else:
        rate = asked.failures_per_node_day or FAILURES_PER_NODE_DAY
        between = mean_time_between_failures(target.nodes, rate)
        seconds = interval(stall, durable, between)
        reason = (
            f"Daly's optimum of a {stall:g} s stall and a failure each {between / 3600:,.0f} h "
            f"({target.nodes} nodes × {rate:g} a day), within 1 to 60 min; measured anew in the run"
        )
    return Saving(checkpoint_bytes(spec), host_copy(spec, target), seconds, reason)


def checkpoint_bytes(spec: RunSpec) -> int:
    """Of all files of one checkpoint, but for a few kilobytes of bookkeeping."""
    return trained_elements(spec) * BYTES_A_WEIGHT[spec.train.optimizer]


def host_copy(spec: RunSpec, target: Target) -> int:
    """Bytes that one host keeps for the copy that is written in the background: each byte of a
    checkpoint is copied on one rank of the job, and the memory is kept for the next save."""
    return -(-checkpoint_bytes(spec) // target.nodes)


def host_problems(spec: RunSpec) -> Iterator[Problem]:
    """Refuses what a host's memory cannot hold whatever else it holds: the copy alone."""
    if not of_ours(spec):
        return
    for number, target in enumerate(spec.compute):
        copy, has = host_copy(spec, target), INSTANCE_TYPES[target.instance_type].host_gib
        if copy > has * GIB:
            yield Problem(
                path=f"compute.{number}",
                value=f"{target.nodes} × {target.instance_type}",
                message=f"a checkpoint's copy needs {copy / GIB:,.0f} GiB of host memory, "
                f"a host has {has}",
                hint="more nodes share the copy, or a type with more memory; see `everstep plan`",
            )
