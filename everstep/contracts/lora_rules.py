"""What ``model.lora`` must not be combined with: the control plane and the trainer ask alike."""

from collections.abc import Iterator

from everstep.contracts.problems import Problem
from everstep.contracts.training_spec import Model, Parallelism, Train


def lora_problems(model: Model, parallelism: Parallelism, train: Train) -> Iterator[Problem]:
    if model.lora is None:
        return
    if model.weights is None:
        yield Problem(
            path="model.lora",
            value=model.lora.model_dump(mode="json"),
            message="there are no weights to adapt: the frozen ones would be random",
            hint="give model.weights beside it",
        )
    for name, size in (("tensor", parallelism.tensor), ("pipeline", parallelism.pipeline)):
        if size > 1:
            yield Problem(
                path=f"parallelism.{name}",
                value=size,
                message="adapters are not cut so in this version",
                hint="shard instead: frozen weights have no gradients and no optimizer state",
            )
    if train.dtype == "fp8":
        yield Problem(
            path="train.dtype",
            value="fp8",
            message="is not combined with model.lora in this version",
            hint="train.dtype bf16",
        )
