"""What must hold between the fields of a config. Each rule reads only sections that parsed."""

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from everstep.contracts.failures import RULES_BYTES, rules_problem
from everstep.contracts.problems import Problem
from stacks.debug_rules import remote_debug_problems
from stacks.dlc import images_problems
from stacks.existing_rules import existing_problems
from stacks.file_system_rules import file_system_problems
from stacks.layer_rules import layer_problems
from stacks.name_rules import price_problems, principal_problems, tag_problems
from stacks.planned_rules import planned_problems
from stacks.regions import NO_BUDGETS, REGIONS, partition_of
from stacks.team_rules import team_problems

Sections = Mapping[str, Any]

PRIVATE = tuple(
    map(ipaddress.IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"))
)
"""RFC 1918, and 6598's shared range: what the VPC guide recommends, and what works with FSx."""
TAKEN = ipaddress.IPv4Network("172.17.0.0/16")
"""Docker's, on SageMaker's hosts too: "to avoid conflicts, do not use it", says the VPC guide."""
PUBLIC_MASK = 28
"""Prefix length of a public subnet: it holds a NAT gateway and nothing else."""
HEARTBEAT_PERIODS = 5
LOG_RETENTION = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 3653)


TRAINING_ENDPOINTS = (
    "ecr.api",
    "ecr.dkr",
    "kms",
    "logs",
    "monitoring",
    "sagemaker.api",
    "sts",
)
"""What hosts and tools inside the VPC reach where there is no internet; S3 and DynamoDB have
gateway endpoints always."""
KNOWN_ENDPOINTS = (
    *TRAINING_ENDPOINTS,
    "codebuild",
    "events",
    "fsx",
    "lambda",
    "sagemaker.runtime",
    "secretsmanager",
    "servicequotas",
    "sns",
    "sqs",
    "ssm",
    "ssmmessages",
    "states",
    "xray",
)


def _region(sections: Sections) -> Iterator[Problem]:
    region = sections.get("region")
    if region is not None and region not in REGIONS:
        near = get_close_matches(region, REGIONS, n=1)
        yield Problem(
            path="region",
            value=region,
            message="is no region that has SageMaker",
            hint=f"did you mean {near[0]!r}?" if near else f"one of {', '.join(REGIONS)}",
        )
    budget = sections.get("budget")
    if budget is not None and region and partition_of(region) in NO_BUDGETS:
        yield Problem(
            path="budget",
            value=budget.monthly_usd,
            message=f"AWS Budgets cannot be used from {region}",
            hint="leave the section out, and set a budget in the console of that partition",
        )
    if budget is not None and "alarm_email" in sections and not sections["alarm_email"]:
        yield Problem(
            path="alarm_email",
            message="is needed by the budget, which tells someone",
            hint='alarm_email = "oncall@example.com", or no [budget]',
        )
    if budget is not None and len(set(budget.alert_percent)) < len(budget.alert_percent):
        yield Problem(
            path="budget.alert_percent",
            value=budget.alert_percent,
            message="names a percentage twice, which AWS Budgets refuses",
            hint="each once",
        )
    if budget is not None and not sections.get("tags", {}).get("environment"):
        yield Problem(
            path="tags.environment",
            message="is needed by the budget, which counts what has this tag",
            hint='[tags] environment = "prod", and activate the tag in the billing console',
        )


def _zones(sections: Sections) -> Iterator[Problem]:
    network, region = sections.get("network"), sections.get("region")
    if network is None:
        return
    for i, zone in enumerate(network.zones):
        if region in REGIONS and not re.fullmatch(re.escape(region) + r"[a-f]", zone):
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
    if not 16 <= vpc.prefixlen <= 24 or not any(vpc.subnet_of(one) for one in PRIVATE):
        yield Problem(
            path="network.cidr",
            value=network.cidr,
            message="is not a private /16 to /24",
            hint="for example 10.40.0.0/16: AWS takes no VPC larger than /16",
        )
        return
    if vpc.overlaps(TAKEN):
        yield Problem(
            path="network.cidr",
            value=network.cidr,
            message=f"overlaps {TAKEN}, which services of AWS use inside their hosts",
            hint="for example 10.40.0.0/16",
        )
    if network.vpc_id is not None:
        return  # its subnets are there already
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
    given = network.interface_endpoints if network else []
    for i, name in enumerate(given):
        if name in given[:i]:
            yield Problem(
                path=f"network.interface_endpoints.{i}",
                value=name,
                message="is given twice",
                hint="each once",
            )
        elif name in ("s3", "dynamodb"):
            yield Problem(
                path=f"network.interface_endpoints.{i}",
                value=name,
                message="has a gateway endpoint already, which is free",
                hint="leave it out",
            )
        elif name not in KNOWN_ENDPOINTS:
            near = get_close_matches(name, KNOWN_ENDPOINTS, n=1, cutoff=0.5)
            yield Problem(
                path=f"network.interface_endpoints.{i}",
                value=name,
                message="is no service name that Everstep has a use for",
                hint=f"did you mean {near[0]!r}?" if near else f"of {', '.join(KNOWN_ENDPOINTS)}",
            )


def _no_internet(sections: Sections) -> Iterator[Problem]:
    network = sections.get("network")
    if network is None or not network.no_internet:
        return
    if network.nat_gateways:
        yield Problem(
            path="network.nat_gateways",
            value=network.nat_gateways,
            message="a NAT gateway is a way to the internet, and network.no_internet is true",
            hint="nat_gateways = 0, or no_internet = false",
        )
    missing = [name for name in TRAINING_ENDPOINTS if name not in network.interface_endpoints]
    if missing and network.vpc_id is None:
        yield Problem(
            path="network.interface_endpoints",
            value=network.interface_endpoints,
            message=f"without internet, {', '.join(missing)} cannot be reached",
            hint=f"add {', '.join(missing)}",
        )


def _imported(sections: Sections) -> Iterator[Problem]:
    """An imported VPC: what we would make is then its owner's."""
    network = sections.get("network")
    if network is None:
        return
    if network.vpc_id is None:
        if network.subnet_ids:
            yield Problem(
                path="network.subnet_ids",
                value=network.subnet_ids,
                message="names subnets of no VPC",
                hint="give network.vpc_id too, or leave both out: then the stack makes them",
            )
        return
    if set(network.subnet_ids) != set(network.zones):
        yield Problem(
            path="network.subnet_ids",
            value=network.subnet_ids,
            message=f"does not name one subnet for each of {', '.join(network.zones)}",
            hint='[network.subnet_ids] us-east-1a = "subnet-…"',
        )
    if len(set(network.subnet_ids.values())) < len(network.subnet_ids):
        yield Problem(
            path="network.subnet_ids",
            value=network.subnet_ids,
            message="names a subnet twice, and a subnet lies in one zone",
            hint="aws ec2 describe-subnets: one of each zone",
        )
    for field in ("nat_gateways", "interface_endpoints", "no_internet"):
        if getattr(network, field):
            yield Problem(
                path=f"network.{field}",
                value=getattr(network, field),
                message=f"VPC {network.vpc_id} is not ours to change",
                hint="leave it out; its owner adds endpoints and NAT",
            )


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
    _region,
    _zones,
    _addresses,
    _endpoints,
    _no_internet,
    _imported,
    remote_debug_problems,
    file_system_problems,
    existing_problems,
    planned_problems,
    team_problems,
    tag_problems,
    principal_problems,
    price_problems,
    _watchdog,
    layer_problems,
    _retention,
    _failure_rules,
    images_problems,
)
