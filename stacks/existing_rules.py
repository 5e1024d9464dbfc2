"""What ``[existing]`` names must go together: half of it would be lost, or could not be read."""

from collections.abc import Iterator, Mapping
from typing import Any

from everstep.contracts.problems import Problem
from stacks.name_rules import bucket_reason
from stacks.regions import partition_of

TOGETHER = (
    ("data_bucket", "checkpoint_bucket", "output_bucket", "data_key"),
    ("table", "table_key"),
    ("file_system_id", "file_system_mount"),
)


def existing_problems(sections: Mapping[str, Any]) -> Iterator[Problem]:
    known = sections.get("existing")
    if known is None:
        return
    for group in TOGETHER:
        missing = [field for field in group if getattr(known, field) is None]
        if missing and len(missing) < len(group):
            yield Problem(
                path=f"existing.{missing[0]}",
                message=f"goes together with {', '.join(f for f in group if f not in missing)}",
                hint="`everstep destroy --env THE_FORMER` prints the whole section",
            )
    yield from _places(known, sections)
    yield from _buckets(known)


def _places(known: Any, sections: Mapping[str, Any]) -> Iterator[Problem]:
    region = sections.get("region")
    for field in ("data_key", "table_key"):
        arn = getattr(known, field)
        place = arn.split(":") if arn else []
        if arn and region and (place[1], place[3]) != (partition_of(region), region):
            yield Problem(
                path=f"existing.{field}",
                value=arn,
                message=f"is not in {region}: what a stack left can be used in its region alone",
                hint="copy the objects into buckets of this environment's own",
            )
    if known.file_system_id is None:
        return
    if "file_system" in sections and sections["file_system"] is None:
        yield Problem(
            path="existing.file_system_id",
            value=known.file_system_id,
            message="there is no [file_system]",
            hint="add the section as the former environment has it: zone, checkpoints",
        )
    network = sections.get("network")
    if network is not None and network.vpc_id is None:
        yield Problem(
            path="existing.file_system_id",
            value=known.file_system_id,
            message="lies in a VPC, and network.vpc_id does not name it",
            hint="import the former environment's VPC: network.vpc_id, network.subnet_ids",
        )


def _buckets(known: Any) -> Iterator[Problem]:
    named = {field: getattr(known, field) for field in TOGETHER[0] if field != "data_key"}
    seen: dict[str, str] = {}
    for field, name in named.items():
        reason = bucket_reason(name) if name else None
        if name and name in seen:
            reason = f"is {seen[name]} too: a lifecycle and a prefix each"
        if reason:
            yield Problem(
                path=f"existing.{field}",
                value=name,
                message=reason,
                hint="the name as `everstep destroy` printed it",
            )
        seen.setdefault(name or "", field)
