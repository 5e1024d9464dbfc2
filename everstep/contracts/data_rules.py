"""What a ``data`` section must not say: the control plane's check and the trainer's are one."""

from collections.abc import Iterator

from everstep.contracts.problems import Problem
from everstep.contracts.training_spec import Datasets

LEAST_SHARE = 1e-4
"""Of all weights: the resolution of the trainer's order."""


def data_problems(data: Datasets, vocab_size: int | None) -> Iterator[Problem]:
    """``vocab_size``: the model's, where it is known."""
    total = sum(part.weight for part in data.mixture)
    for i, part in enumerate(data.mixture):
        path = f"data.mixture.{i}"
        if part.prefix.strip("/") in {p.prefix.strip("/") for p in data.mixture[:i]}:
            yield Problem(
                path=f"{path}.prefix",
                value=part.prefix,
                message="is there twice",
                hint="add the weights up in one entry",
            )
        if part.weight < LEAST_SHARE * total:
            yield Problem(
                path=f"{path}.weight",
                value=part.weight,
                message=f"is less than {LEAST_SHARE:g} of all weights",
                hint="raise it, or leave the dataset out",
            )
    named = [(f"data.mixture.{i}.prefix", p.prefix) for i, p in enumerate(data.mixture)]
    for path, prefix in [*named, ("data.validation", data.validation or "")]:
        if ".." in prefix.split("/"):
            yield Problem(
                path=path,
                value=prefix,
                message="leads elsewhere",
                hint="a folder below data.prefix",
            )
    if data.validation in [prefix for _, prefix in named]:
        yield Problem(
            path="data.validation",
            value=data.validation,
            message="is also trained on",
            hint="hold a dataset out: a loss on seen text says little",
        )
    if (
        data.document_separator is not None
        and vocab_size is not None
        and data.document_separator >= vocab_size
    ):
        yield Problem(
            path="data.document_separator",
            value=data.document_separator,
            message=f"the model's vocabulary has {vocab_size} tokens",
            hint="the token that ends a document; trainer.prepare prints it",
        )
