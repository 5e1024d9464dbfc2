"""Moves between file system and S3 that a spec asks for where there is nothing to move."""

from collections.abc import Iterator, Mapping
from typing import Any

from everstep.contracts.problems import Problem


def storage_problems(sections: Mapping[str, Any]) -> Iterator[Problem]:
    data, checkpoint = sections.get("data"), sections.get("checkpoint")
    if data is not None and data.preload and data.mode != "fsx":
        yield Problem(
            path="data.preload",
            value=True,
            message=f"there is no file system to prepare where data.mode is {data.mode}",
            hint='set data.mode to "fsx", or leave preload out',
        )
    if checkpoint is not None and checkpoint.export and checkpoint.storage != "fsx":
        yield Problem(
            path="checkpoint.export",
            value=True,
            message=f"checkpoints are in {checkpoint.storage} already",
            hint='set checkpoint.storage to "fsx", or leave export out',
        )
