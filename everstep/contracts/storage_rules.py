"""Moves between file system and S3 that a spec asks for where there is nothing to move."""

from collections.abc import Iterator, Mapping
from typing import Any

from everstep.contracts.problems import Problem

SCRATCH = "SCRATCH_2"
"""Deployment type of a run's own file system."""
SCRATCH_PRICE = f"fsx:{SCRATCH}"
"""Its key in ``prices_usd``: USD per GiB and month."""


def scratch_problems(sections: Mapping[str, Any]) -> Iterator[Problem]:
    data, checkpoint = sections.get("data"), sections.get("checkpoint")
    size = None if data is None else data.scratch_gib
    if data is None or size is None:
        return
    path = "data.scratch_gib"
    if size != 1200 and size % 2400:
        near = f"{max(1200, size // 2400 * 2400)} or {(size // 2400 + 1) * 2400}"
        message = "is no size of a scratch file system (1200, or a multiple of 2400)"
        yield Problem(path=path, value=size, message=message, hint=near)
    if data.mode != "fsx":
        message = f"nothing would be read from it where data.mode is {data.mode}"
        hint = 'set data.mode to "fsx", or leave scratch_gib out'
        yield Problem(path=path, value=size, message=message, hint=hint)
    if checkpoint is not None and checkpoint.storage == "fsx":
        message = "is deleted after the run, and checkpoints must not be"
        hint = 'set checkpoint.storage to "s3", or use the stack\'s file system for both'
        yield Problem(path=path, value=size, message=message, hint=hint)
    if data.preload:
        message = "imports its metadata anyway"
        yield Problem(path="data.preload", value=True, message=message, hint="leave preload out")
    zones = {target.zone for target in sections.get("compute") or [] if target.zone}
    if len(zones) > 1:
        message = f"lies in one zone, and compute names {', '.join(sorted(zones))}"
        hint = "name one zone, or none"
        yield Problem(path=path, value=size, message=message, hint=hint)


def storage_problems(sections: Mapping[str, Any]) -> Iterator[Problem]:
    yield from scratch_problems(sections)
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
