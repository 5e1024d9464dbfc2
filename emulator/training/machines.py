"""The hosts that a job asks for: one group, or the groups of a heterogeneous cluster."""

from typing import Any, NamedTuple

HOMOGENEOUS = "homogeneousCluster"
"""What SageMaker calls the group of a cluster that has none."""


class Machines(NamedTuple):
    group: str
    instance_type: str
    number: int


class Member(NamedTuple):
    """One host's place in its cluster."""

    host: str
    group: str
    instance_type: str


def machines(request: dict[str, Any]) -> list[Machines]:
    """In the order in which hosts are numbered."""
    resources = request["ResourceConfig"]
    groups = resources.get("InstanceGroups") or [resources]
    return [
        Machines(
            group.get("InstanceGroupName", HOMOGENEOUS),
            group.get("InstanceType", ""),
            int(group.get("InstanceCount", 1)),
        )
        for group in groups
    ]


def members(request: dict[str, Any]) -> list[Member]:
    """``algo-1`` and on, group by group."""
    found: list[Member] = []
    for group, kind, number in machines(request):
        found += [Member(f"algo-{len(found) + n + 1}", group, kind) for n in range(number)]
    return found
