"""Which machines go together with what: types, purchases, warm pools, groups.

Sources: botocore 1.44's model of CreateTrainingJob; AWS's guide to SageMaker, "Managed Warm Pools",
"Reserve training plans" and "heterogeneous cluster", read 2026-11.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from everstep.contracts.instances import INSTANCE_TYPES, RESERVABLE, similar_types
from everstep.contracts.problems import Problem
from everstep.contracts.run_spec import TRAIN_GROUP, Target, Trainer

PLAN_ARN = re.compile(r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]*:[0-9]{12}:training-plan/.+")


def compute_problems(sections: Mapping[str, Any]) -> Iterator[Problem]:
    """Each reads only sections that parsed."""
    trainer, data = sections.get("trainer"), sections.get("data")
    for i, target in enumerate(sections.get("compute") or []):
        path = f"compute.{i}"
        yield from _known(path, target)
        yield from _pool(path, target)
        yield from _plan(path, target)
        yield from _groups(path, target)
        if trainer is not None:
            yield from _trainer(path, target, trainer)
        if data is not None and target.data_groups and data.mode not in ("file", "fastfile"):
            yield Problem(
                path=f"{path}.data_groups",
                value=target.data_groups,
                message=f"data.mode {data.mode} has no channel that could go to some groups only",
                hint="data.mode file or fastfile, or leave data_groups out",
            )


def is_reference(trainer: Trainer) -> bool:
    """Everstep's own trainer, not a program that was brought."""
    return trainer.command == Trainer().command


def _known(path: str, target: Target) -> Iterator[Problem]:
    named = [(f"{path}.instance_type", target.instance_type)]
    named += [
        (f"{path}.groups.{n}.instance_type", x.instance_type) for n, x in enumerate(target.groups)
    ]
    for where, name in named:
        if name not in INSTANCE_TYPES:
            yield Problem(
                path=where,
                value=name,
                message="unknown instance type",
                hint=f"did you mean {', '.join(similar_types(name))}?",
            )


def _pool(path: str, target: Target) -> Iterator[Problem]:
    path, seconds = f"{path}.warm_pool_seconds", target.warm_pool_seconds
    if not seconds:
        return
    if target.purchase == "spot":
        yield Problem(
            path=path,
            value=seconds,
            message="SageMaker keeps no warm pool for a spot job",
            hint="set it to 0, or purchase to on_demand",
        )
    if target.purchase == "training_plan":
        yield Problem(
            path=path,
            value=seconds,
            message="a training plan's machines are yours until it ends: there is no pool to keep",
            hint="leave warm_pool_seconds out; the next attempt finds them in the plan",
        )
    if target.groups:
        yield Problem(
            path=path,
            value=seconds,
            message="SageMaker keeps no warm pool for a heterogeneous cluster",
            hint="set it to 0, or leave groups out",
        )


def _plan(path: str, target: Target) -> Iterator[Problem]:
    arn = target.training_plan_arn
    if (target.purchase == "training_plan") != (arn is not None):
        yield Problem(
            path=f"{path}.training_plan_arn",
            value=arn,
            message="purchase training_plan and training_plan_arn go together",
            hint="give both, or neither",
        )
    if arn is not None and not PLAN_ARN.fullmatch(arn):
        yield Problem(
            path=f"{path}.training_plan_arn",
            value=arn,
            message="is not the ARN of a training plan",
            hint="arn:aws:sagemaker:REGION:ACCOUNT:training-plan/NAME",
        )
    if target.purchase != "training_plan":
        return
    if target.instance_type in INSTANCE_TYPES and target.instance_type not in RESERVABLE:
        yield Problem(
            path=f"{path}.instance_type",
            value=target.instance_type,
            message="no training plan holds this type",
            hint=f"one of {', '.join(sorted(RESERVABLE))}; or purchase on_demand or spot",
        )
    if target.groups:
        yield Problem(
            path=f"{path}.groups",
            value=[group.name for group in target.groups],
            message="a training plan reserves machines of one type, and a job takes all from it",
            hint="purchase on_demand for a job of several groups",
        )


def _groups(path: str, target: Target) -> Iterator[Problem]:
    names = [group.name for group in target.groups]
    for n, name in enumerate(names):
        if name == TRAIN_GROUP or name in names[:n]:
            yield Problem(
                path=f"{path}.groups.{n}.name",
                value=name,
                message="names a second group of this job",
                hint=f"another name: {TRAIN_GROUP!r} is the group of instance_type and nodes",
            )
    for name in target.data_groups:
        if name not in [TRAIN_GROUP, *names] or not names:
            yield Problem(
                path=f"{path}.data_groups",
                value=name,
                message="is no group of this job",
                hint=f"of {', '.join([TRAIN_GROUP, *names])}" if names else "give groups too",
            )


def _trainer(path: str, target: Target, trainer: Trainer) -> Iterator[Problem]:
    kind = INSTANCE_TYPES.get(target.instance_type)
    if kind is not None and kind.neuron_cores and is_reference(trainer):
        yield Problem(
            path=f"{path}.instance_type",
            value=target.instance_type,
            message="the reference trainer runs on CUDA GPUs and CPUs, not on Trainium: its "
            "collectives, kernels and checkpoints are not built on Neuron's XLA",
            hint="a GPU type, or a program of your own in trainer.command and trainer.image",
        )
    if not target.groups:
        return
    if is_reference(trainer):
        yield Problem(
            path=f"{path}.groups",
            value=[f"{x.count} × {x.instance_type}" for x in target.groups],
            message=_why_not(target),
            hint="leave groups out, or give a program of your own in trainer.command",
        )
    elif trainer.launcher != "none":
        yield Problem(
            path="trainer.launcher",
            value=trainer.launcher,
            message="every host of every group starts the same command, and a "
            f"{trainer.launcher} before it would wait for hosts that do not train",
            hint='"launcher": "none", and start it in your program on the group "train" alone',
        )


def _why_not(target: Target) -> str:
    """For the reference trainer: all of a mesh's ranks do equal work on equal hosts."""
    kinds = [INSTANCE_TYPES.get(group.instance_type) for group in target.groups]
    if any(kind is not None and not kind.accelerators for kind in kinds):
        return (
            "the reference trainer reads its data on the hosts that train: CPU hosts beside "
            "them would have nothing to do"
        )
    if any(group.instance_type != target.instance_type for group in target.groups):
        return (
            "the reference trainer's ranks do equal work in one mesh: GPUs of several types "
            "would all wait for the slowest, and fit what the smallest holds"
        )
    return "hosts of the same type are more nodes, not another group"
