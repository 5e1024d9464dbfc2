"""Whether hosts that people may look into can reach Session Manager."""

from collections.abc import Iterator, Mapping
from typing import Any

from everstep.contracts.problems import Problem


def remote_debug_problems(sections: Mapping[str, Any]) -> Iterator[Problem]:
    """The agent beside the container dials out, and nothing else lets a person in."""
    network = sections.get("network")
    if network is None or network.nat_gateways or network.vpc_id is not None:
        return
    for i, team in enumerate(sections.get("teams") or []):
        if team.remote_debug and "ssmmessages" not in network.interface_endpoints:
            yield Problem(
                path=f"teams.{i}.remote_debug",
                value=True,
                message="hosts cannot reach Session Manager: neither NAT nor an endpoint",
                hint='add "ssmmessages" to network.interface_endpoints',
            )
