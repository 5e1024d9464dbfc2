"""What must hold between the fields of a config. Each rule reads only sections that parsed."""

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from everstep.contracts.failures import RULES_BYTES, rules_problem
from everstep.contracts.problems import Problem

Sections = Mapping[str, Any]

PUBLIC_MASK = 28
"""Prefix length of a public subnet: it holds a NAT gateway and nothing else."""
THROUGHPUTS = (125, 250, 500, 1000)
EFA_CAPACITY_STEP = {125: 38_400, 250: 19_200, 500: 9_600, 1000: 4_800}
"""GiB; FSx takes EFA only on multiples of these."""
MAX_ASSOCIATIONS = 8
HEARTBEAT_PERIODS = 5
LOG_RETENTION = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 3653)


def _zones(sections: Sections) -> Iterator[Problem]:
    network, region = sections.get("network"), sections.get("region")
    if network is None:
        return
    for i, zone in enumerate(network.zones):
        if region and not re.fullmatch(re.escape(region) + r"[a-z]", zone):
            yield Problem(
                path=f"network.zones.{i}",
                value=zone,
                message=f"is not a zone of {region}",
                hint=f"for example {region}a; local zones are not supported",
            )
    if len(set(network.zones)) < len(network.zones):
        yield Problem(
            path="network.zones",
            value=network.zones,
            message="names a zone twice",
            hint="each zone once; the first one holds the file system",
        )
    if network.nat_gateways > len(network.zones):
        yield Problem(
            path="network.nat_gateways",
            value=network.nat_gateways,
            message=f"more NAT gateways than the {len(network.zones)} zones",
            hint="0, 1 (cheap), or one a zone (survives the loss of a zone)",
        )


def _addresses(sections: Sections) -> Iterator[Problem]:
    network = sections.get("network")
    if network is None:
        return
    try:
        vpc = ipaddress.IPv4Network(network.cidr)
    except ValueError as error:
        yield Problem(
            path="network.cidr",
            value=network.cidr,
            message=f"is not an IPv4 network: {error}",
            hint="for example 10.40.0.0/16",
        )
        return
    if not 16 <= vpc.prefixlen <= 24 or not vpc.is_private:
        yield Problem(
            path="network.cidr",
            value=network.cidr,
            message="is not a private /16 to /24",
            hint="for example 10.40.0.0/16: AWS takes no VPC larger than /16",
        )
        return
    needed = len(network.zones) * 2 ** (32 - network.training_mask)
    needed += len(network.zones) * 2 ** (32 - PUBLIC_MASK) if network.nat_gateways else 0
    if needed > vpc.num_addresses:
        yield Problem(
            path="network.training_mask",
            value=network.training_mask,
            message=f"{len(network.zones)} zones need {needed} addresses, {network.cidr} has "
            f"{vpc.num_addresses}",
            hint="a longer mask, a larger network, or fewer zones",
        )


def _endpoints(sections: Sections) -> Iterator[Problem]:
    network = sections.get("network")
    for i, name in enumerate(network.interface_endpoints if network else []):
        if name in ("s3", "dynamodb"):
            yield Problem(
                path=f"network.interface_endpoints.{i}",
                value=name,
                message="has a gateway endpoint already, which is free",
                hint="leave it out",
            )
        elif not re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)*", name):
            yield Problem(
                path=f"network.interface_endpoints.{i}",
                value=name,
                message="is no service name",
                hint='what follows "com.amazonaws.{region}.", for example "ecr.api"',
            )


def _file_system(sections: Sections) -> Iterator[Problem]:
    fsx, teams = sections.get("file_system"), sections.get("teams") or []
    if fsx is None:
        return
    known = fsx.throughput_mbps_per_tib in THROUGHPUTS
    if not known:
        yield Problem(
            path="file_system.throughput_mbps_per_tib",
            value=fsx.throughput_mbps_per_tib,
            message="is no throughput of PERSISTENT_2",
            hint=f"one of {', '.join(map(str, THROUGHPUTS))}",
        )
    if fsx.capacity_gib != 1200 and fsx.capacity_gib % 2400:
        below = max(1200, fsx.capacity_gib // 2400 * 2400)
        yield Problem(
            path="file_system.capacity_gib",
            value=fsx.capacity_gib,
            message="is no size of PERSISTENT_2 (1200, or a multiple of 2400)",
            hint=f"{below} or {(fsx.capacity_gib // 2400 + 1) * 2400}",
        )
    if fsx.efa and known and fsx.capacity_gib % EFA_CAPACITY_STEP[fsx.throughput_mbps_per_tib]:
        step = EFA_CAPACITY_STEP[fsx.throughput_mbps_per_tib]
        yield Problem(
            path="file_system.efa",
            value=True,
            message=f"EFA at {fsx.throughput_mbps_per_tib} MB/s/TiB needs a multiple of {step} GiB",
            hint=f"capacity_gib = {-(-fsx.capacity_gib // step) * step}, or efa = false",
        )
    if len(teams) > MAX_ASSOCIATIONS:
        yield Problem(
            path="file_system",
            value=len(teams),
            message=f"a file system holds {MAX_ASSOCIATIONS} associations, one a team",
            hint="fewer teams, or a second environment",
        )


def _teams(sections: Sections) -> Iterator[Problem]:
    names = [team.name for team in sections.get("teams") or []]
    for i, name in enumerate(names):
        if name in names[:i]:
            yield Problem(
                path=f"teams.{i}.name",
                value=name,
                message="is given twice",
                hint="a team is a state machine, a job role and a prefix: names are unique",
            )
    given: dict[str, str] = {}
    for i, team in enumerate(sections.get("teams") or []):
        for j, role in enumerate(team.adopt_job_roles):
            path = f"teams.{i}.adopt_job_roles.{j}"
            if role in given:
                yield Problem(
                    path=path,
                    value=role,
                    message=f"is already named by team {given[role]}",
                    hint="a failed job is taken over by one team",
                )
            account = sections.get("account")
            if account and role.split(":")[4] != account:
                yield Problem(
                    path=path,
                    value=role,
                    message=f"is not a role of account {account}",
                    hint="SageMaker takes a role of the account that the job runs in",
                )
            given.setdefault(role, team.name)


def _watchdog(sections: Sections) -> Iterator[Problem]:
    watchdog = sections.get("watchdog")
    if watchdog is None:
        return
    least = HEARTBEAT_PERIODS * watchdog.period_seconds
    if watchdog.heartbeat_seconds < least:
        yield Problem(
            path="watchdog.heartbeat_seconds",
            value=watchdog.heartbeat_seconds,
            message=f"is less than {HEARTBEAT_PERIODS} periods of {watchdog.period_seconds} s: one "
            "slow watchdog would look like many",
            hint=f"{least} or more",
        )


def _layer(sections: Sections) -> Iterator[Problem]:
    lambdas = sections.get("lambdas")
    if lambdas is None:
        return
    names = set(re.findall(r"{(.*?)}", lambdas.powertools_layer))
    for name in sorted(names - {"partition", "region"}):
        yield Problem(
            path="lambdas.powertools_layer",
            value=lambdas.powertools_layer,
            message=f"{{{name}}} is not known",
            hint="{partition} and {region} are",
        )


def _retention(sections: Sections) -> Iterator[Problem]:
    days = sections.get("log_retention_days")
    if days is not None and days not in LOG_RETENTION:
        near = min(LOG_RETENTION, key=lambda known: abs(known - days))
        yield Problem(
            path="log_retention_days",
            value=days,
            message="CloudWatch Logs has no such retention",
            hint=f"{near} is the nearest",
        )


def _failure_rules(sections: Sections) -> Iterator[Problem]:
    message = rules_problem(sections.get("rules") or [])
    if message is not None:
        yield Problem(
            path="rules",
            message=message,
            hint=f"ids once each, {RULES_BYTES} bytes in all: a Lambda's environment holds 4 KB",
        )


RULES: tuple[Callable[[Sections], Iterator[Problem]], ...] = (
    _zones,
    _addresses,
    _endpoints,
    _file_system,
    _teams,
    _watchdog,
    _layer,
    _retention,
    _failure_rules,
)
