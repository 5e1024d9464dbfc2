"""Where ``train.dtype: fp8`` cannot be: the control plane's check and the trainer's are one."""

from collections.abc import Iterator

from everstep.contracts.instances import has_fp8
from everstep.contracts.models import ModelConfig
from everstep.contracts.problems import Problem
from everstep.contracts.run_spec import Target
from everstep.contracts.training_spec import Parallelism, Train

TILE = 16
"""Every side of an FP8 matrix product is a multiple of this (cuBLASLt's ``_scaled_mm``)."""


def fp8_target_problems(train: Train, compute: list[Target]) -> Iterator[Problem]:
    """Instance types whose GPUs have no FP8 unit."""
    for i, target in enumerate(compute):
        if train.dtype == "fp8" and not has_fp8(target.instance_type):
            yield Problem(
                path=f"compute.{i}.instance_type",
                value=target.instance_type,
                message="has no FP8 hardware, which train.dtype fp8 needs",
                hint="train.dtype bf16, or GPUs of compute capability 8.9 and up: "
                "ml.g6, ml.g6e, ml.p5, ml.p6",
            )


def fp8_shape_problems(
    shape: ModelConfig, parallelism: Parallelism, train: Train
) -> Iterator[Problem]:
    """Shapes that FP8 matrix products do not take, and what they are not combined with."""
    if train.dtype != "fp8":
        return
    if parallelism.tensor > 1:
        yield Problem(
            path="parallelism.tensor",
            value=parallelism.tensor,
            message="FP8 matrices are not cut over tensor ranks in this version",
            hint="parallelism.tensor 1 with sharding and pipeline, or train.dtype bf16",
        )
    tokens = train.micro_batch * train.sequence_length
    for path, size, what in (
        ("model.dim", shape.dim, "it"),
        ("model.kv_heads", shape.kv_heads * shape.head_dim, "kv_heads × head size"),
        ("model.ffn_dim", shape.ffn_dim, "it"),
        ("train.micro_batch", tokens, "micro_batch × sequence_length"),
    ):
        if size % TILE:
            yield Problem(
                path=path,
                value=size,
                message=f"{what} is not a multiple of {TILE}: an FP8 matrix product takes no other",
                hint="another size, or train.dtype bf16",
            )
