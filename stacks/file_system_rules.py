"""What FSx for Lustre takes, said before it refuses. Figures: the FSx API's own documentation of
CreateFileSystem (botocore's model), and the Lustre guide's table of EFA-enabled capacities."""

from collections.abc import Iterator, Mapping
from typing import Any

from everstep.contracts.problems import Problem
from stacks.regions import NO_INTELLIGENT_TIERING, NO_SCRATCH, partition_of

SSD_THROUGHPUTS = (125, 250, 500, 1000)
"""MB/s per TiB of PERSISTENT_2 on SSD."""
EFA_CAPACITY_STEP = {125: 38_400, 250: 19_200, 500: 9_600, 1000: 4_800}
"""GiB; FSx takes EFA only on multiples of these."""
TIERED_THROUGHPUTS = "1000, 2000 or a multiple of 4000 up to 2000000"
TIERED_STEP = 4000
TIERED_MOST = 2_000_000
CACHE_GIB = (8, 32_768)
"""Least and most SSD read cache for each 1,000 MB/s."""
MAX_ASSOCIATIONS = 8
CHECKPOINTS = "/checkpoints"
EXPORTS = "/exports"
"""Folders of the file system beside the teams': no team may be called so."""

PATH = "file_system"


def file_system_problems(sections: Mapping[str, Any]) -> Iterator[Problem]:
    fsx = sections.get(PATH)
    if fsx is None:
        return
    if fsx.storage == "SSD":
        yield from _capacity(fsx)
        yield from _ssd_throughput(fsx)
    else:
        yield from _tiered(fsx)
    yield from _unused(fsx)
    if fsx.checkpoints and fsx.deployment == "SCRATCH_2":
        yield _problem(
            "checkpoints",
            True,
            "a scratch file system is not replicated: a checkpoint is what must not be lost",
            'deployment = "PERSISTENT_2", or checkpoints = false',
        )
    yield from _place(fsx, sections)
    yield from _associations(fsx, sections)


def _problem(field: str, value: Any, message: str, hint: str) -> Problem:
    return Problem(path=f"{PATH}.{field}", value=value, message=message, hint=hint)


def _capacity(fsx: Any) -> Iterator[Problem]:
    given = fsx.capacity_gib
    if given is None:
        yield _problem("capacity_gib", None, "is required on SSD", "1200, or a multiple of 2400")
    elif given < 1200 or (given != 1200 and given % 2400):
        below = max(1200, given // 2400 * 2400)
        choice = "1200" if given < 1200 else f"{below} or {(given // 2400 + 1) * 2400}"
        yield _problem(
            "capacity_gib",
            given,
            f"is no size of {fsx.deployment} (1200, or a multiple of 2400)",
            choice,
        )


def _ssd_throughput(fsx: Any) -> Iterator[Problem]:
    if fsx.deployment == "SCRATCH_2":
        if fsx.efa:
            yield _problem(
                "efa", True, "SCRATCH_2 has no EFA", 'deployment = "PERSISTENT_2", or efa = false'
            )
        return
    given = fsx.throughput_mbps_per_tib
    if given not in SSD_THROUGHPUTS:
        yield _problem(
            "throughput_mbps_per_tib",
            given,
            "is no throughput of PERSISTENT_2",
            f"one of {', '.join(map(str, SSD_THROUGHPUTS))}",
        )
    elif fsx.efa and fsx.capacity_gib and fsx.capacity_gib % EFA_CAPACITY_STEP[given]:
        step = EFA_CAPACITY_STEP[given]
        yield _problem(
            "efa",
            True,
            f"EFA at {given} MB/s/TiB needs a multiple of {step} GiB",
            f"capacity_gib = {-(-fsx.capacity_gib // step) * step}, or efa = false",
        )


def _tiered(fsx: Any) -> Iterator[Problem]:
    if fsx.deployment != "PERSISTENT_2":
        yield _problem(
            "deployment",
            fsx.deployment,
            "has no intelligent tiering",
            'deployment = "PERSISTENT_2", or storage = "SSD"',
        )
    given = fsx.throughput_mbps
    valid = given in (1000, 2000) or (
        given is not None and given > 0 and given % TIERED_STEP == 0 and given <= TIERED_MOST
    )
    if not valid:
        yield _problem(
            "throughput_mbps", given, "is no throughput of intelligent tiering", TIERED_THROUGHPUTS
        )
        return
    if fsx.efa and given % TIERED_STEP:
        yield _problem(
            "efa",
            True,
            f"EFA on intelligent tiering needs a multiple of {TIERED_STEP} MB/s",
            f"throughput_mbps = {TIERED_STEP}, or efa = false",
        )
    least, most = (bound * given // 1000 for bound in CACHE_GIB)
    if fsx.read_cache_gib is not None and not least <= fsx.read_cache_gib <= most:
        yield _problem(
            "read_cache_gib",
            fsx.read_cache_gib,
            f"is no read cache for {given} MB/s",
            f"{least} to {most}, or leave it out: it is then sized with the throughput",
        )


def _unused(fsx: Any) -> Iterator[Problem]:
    """A field that would do nothing was meant to do something."""
    tiered: tuple[str, ...] = ("throughput_mbps", "read_cache_gib")
    unused = tiered if fsx.storage == "SSD" else ("capacity_gib", "throughput_mbps_per_tib")
    if fsx.storage == "SSD" and fsx.deployment == "SCRATCH_2":
        unused = ("throughput_mbps_per_tib", *tiered)
    for field in unused:
        if getattr(fsx, field) is not None:
            yield _problem(
                field,
                getattr(fsx, field),
                f"means nothing for {fsx.deployment} on {fsx.storage}",
                "leave it out",
            )


def _place(fsx: Any, sections: Mapping[str, Any]) -> Iterator[Problem]:
    network, region = sections.get("network"), sections.get("region")
    if network is not None and fsx.zone is not None and fsx.zone not in network.zones:
        yield _problem(
            "zone",
            fsx.zone,
            "is in no zone that training uses: each read would cross zones, and be paid for",
            f"one of {', '.join(network.zones)}",
        )
    partition = partition_of(region or "")
    if fsx.deployment == "SCRATCH_2" and partition in NO_SCRATCH:
        yield _problem(
            "deployment",
            fsx.deployment,
            f"FSx has no SCRATCH_2 in {region}",
            'deployment = "PERSISTENT_2"',
        )
    if fsx.storage == "INTELLIGENT_TIERING" and partition in NO_INTELLIGENT_TIERING:
        yield _problem(
            "storage",
            fsx.storage,
            f"is not known to exist in {region}",
            'storage = "SSD"',
        )
    if sections.get("removal") == "retain" and fsx.deployment == "SCRATCH_2":
        yield _problem(
            "deployment",
            fsx.deployment,
            "a scratch file system is not replicated, and removal is retain",
            'deployment = "PERSISTENT_2", or removal = "destroy"',
        )


def _associations(fsx: Any, sections: Mapping[str, Any]) -> Iterator[Problem]:
    teams = sections.get("teams") or []
    if fsx.storage == "INTELLIGENT_TIERING":
        if fsx.export:
            yield _problem(
                "export",
                True,
                "intelligent tiering takes no link to a bucket",
                'export = false, or storage = "SSD"',
            )
        return
    each = 1 + fsx.export + fsx.checkpoints
    if each * len(teams) > MAX_ASSOCIATIONS:
        yield Problem(
            path=PATH,
            value=len(teams),
            message=f"a file system holds {MAX_ASSOCIATIONS} associations, {each} a team",
            hint="fewer teams, or a second environment",
        )
