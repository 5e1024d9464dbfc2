"""Addresses of a subnet that a job's hosts take: one for each EFA interface, one for the host.

Source: "Ensure That Subnets Have Enough IP Addresses" in SageMaker's guide on jobs in a VPC,
2026-11: five for a host with EFA, which is p4d's four interfaces and one. It advises two for a host
without, of which one is certain.
"""

from collections.abc import Iterator

from everstep.contracts.instances import INSTANCE_TYPES
from everstep.contracts.problems import Problem
from everstep.contracts.run_spec import RunSpec

AWS_ADDRESSES = 5
"""That AWS keeps of every subnet."""


def addresses_needed(instance_type: str, nodes: int) -> int:
    """Of a type that is in the table."""
    return (INSTANCE_TYPES[instance_type].efa_interfaces + 1) * nodes


def addresses_held(mask: int) -> int:
    """By a subnet of this prefix length."""
    return int(2 ** (32 - mask)) - AWS_ADDRESSES


def smallest_mask(addresses: int) -> int:
    """Prefix length of the smallest subnet that holds so many hosts' addresses."""
    return 32 - (addresses + AWS_ADDRESSES - 1).bit_length()


def address_problems(spec: RunSpec, held: int | None) -> Iterator[Problem]:
    """``held``: by each training subnet; a job lies in one of them. None: outside of any VPC, or by
    a stack that does not say. What other runs hold at the time is SageMaker's to tell."""
    if held is None:
        return
    for i, target in enumerate(spec.compute):
        hosts = [
            (target.instance_type, target.nodes),
            *((group.instance_type, group.count) for group in target.groups),
        ]
        needed = sum(addresses_needed(name, nodes) for name, nodes in hosts)
        if needed > held:
            terms = " + ".join(
                f"({INSTANCE_TYPES[name].efa_interfaces} EFA interfaces + 1) × {nodes}"
                for name, nodes in hosts
            )
            yield Problem(
                path=f"compute.{i}.nodes",
                value=target.nodes,
                message=f"{terms} = {needed} addresses are more than the {held} that a training "
                "subnet of this environment has for hosts",
                hint="fewer nodes, or an environment whose config has network.training_mask = "
                f"{smallest_mask(needed)} or less: changing it makes new subnets",
            )
