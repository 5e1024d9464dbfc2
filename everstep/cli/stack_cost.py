"""``everstep plan --stack``: what an environment costs while nothing runs, by its templates."""

import json
import math
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from everstep.cli.cloud import default_env
from everstep.cli.deploy import ROOT, cdk_command, child, finish, with_node
from everstep.cli.errors import fail
from everstep.cli.output import emit, say
from everstep.cli.prices import environments
from everstep.policy.prices import LUSTRE_SCRATCH

HOURS = 730
PRICES_OF, PRICES_READ = "us-east-1", "2026-11"
"""Region and month of the figures below. Where they come from, and which were never confirmed:
docs/cost.md."""

NAT_HOUR = 0.045
PUBLIC_IPV4_HOUR = 0.005
"""Each address, in use or not, since 2024-02-01."""
ENDPOINT_HOUR = 0.01
KMS_KEY = 1.0
ALARM = 0.10
DASHBOARD = 3.0
REQUEST_METRIC = 0.30
REQUEST_METRICS = 16
LAMBDA_REQUEST = 0.20 / 1e6
LAMBDA_GB_SECOND = 0.0000166667
LOOK_GB_SECONDS = 0.5 * 0.5
"""512 MiB for half a second: a look with nothing to see."""
LUSTRE_SSD = {125: 0.145, 250: 0.210, 500: 0.340, 1000: 0.600}
LUSTRE_TIERED_MBPS = 0.52
"""USD per MB/s and month of provisioned throughput; storage and requests come on top, by use."""


class Line(NamedTuple):
    """Resources of one kind: how many, how they are charged, USD a month at rest."""

    kind: str
    number: int
    basis: str
    monthly_usd: float


Properties = Mapping[str, Any]


def _lustre(properties: Properties) -> tuple[float, str]:
    settings, capacity = properties["LustreConfiguration"], properties.get("StorageCapacity", 0)
    if settings["DeploymentType"] == "SCRATCH_2":
        return capacity * LUSTRE_SCRATCH, f"{LUSTRE_SCRATCH}/GiB"
    if properties.get("StorageType") == "INTELLIGENT_TIERING":
        throughput = settings["ThroughputCapacity"]
        return throughput * LUSTRE_TIERED_MBPS, f"{LUSTRE_TIERED_MBPS}/(MB/s), and storage by use"
    price = LUSTRE_SSD[settings["PerUnitStorageThroughput"]]
    return capacity * price, f"{price}/GiB"


def _endpoint(properties: Properties) -> tuple[float, str]:
    if properties.get("VpcEndpointType", "Gateway") != "Interface":
        return 0.0, "gateway: free"
    zones = len(properties["SubnetIds"])
    return zones * ENDPOINT_HOUR * HOURS, f"{ENDPOINT_HOUR}/h and zone ({zones}), and by GB"


def _bucket(properties: Properties) -> tuple[float, str]:
    if "MetricsConfigurations" not in properties:
        return 0.0, "by use"
    # Charged as custom metrics, by the hour in which they are reported: the most it can be.
    return REQUEST_METRICS * REQUEST_METRIC, "request metrics, while requests arrive; else by use"


def _schedule(properties: Properties) -> tuple[float, str]:
    expression = properties.get("ScheduleExpression")
    if expression is None:
        return 0.0, "by use"
    amount, unit = expression.removeprefix("rate(").rstrip(")").split()
    minutes = float(amount) * {"minute": 1, "hour": 60, "day": 1440}[unit.rstrip("s")]
    looks = HOURS * 60 / minutes
    cost = looks * (LAMBDA_REQUEST + LOOK_GB_SECONDS * LAMBDA_GB_SECOND)
    return cost, f"{looks:.0f} invocations"


PRICED: dict[str, Callable[[Properties], tuple[float, str]]] = {
    "AWS::EC2::EIP": lambda _: (PUBLIC_IPV4_HOUR * HOURS, f"{PUBLIC_IPV4_HOUR}/h"),
    "AWS::EC2::NatGateway": lambda _: (NAT_HOUR * HOURS, f"{NAT_HOUR}/h, and by GB"),
    "AWS::EC2::VPCEndpoint": _endpoint,
    "AWS::KMS::Key": lambda _: (KMS_KEY, f"{KMS_KEY:.0f} each"),
    "AWS::CloudWatch::Alarm": lambda _: (ALARM, f"{ALARM} each"),
    "AWS::CloudWatch::Dashboard": lambda _: (DASHBOARD, f"{DASHBOARD:.0f} each"),
    "AWS::FSx::FileSystem": _lustre,
    "AWS::S3::Bucket": _bucket,
    "AWS::Events::Rule": _schedule,
}
BY_USE = (
    "AWS::CodeBuild::Project",
    "AWS::DynamoDB::Table",
    "AWS::EC2::FlowLog",
    "AWS::ECR::Repository",
    "AWS::Lambda::Function",
    "AWS::Logs::LogGroup",
    "AWS::SNS::Topic",
    "AWS::SQS::Queue",
    "AWS::StepFunctions::StateMachine",
)
"""Nothing while idle, but what is stored."""
FREE = (
    "AWS::Budgets::Budget",
    "AWS::CDK::Metadata",
    "AWS::CloudFormation::WaitConditionHandle",
    "AWS::EC2::InternetGateway",
    "AWS::EC2::Route",
    "AWS::EC2::RouteTable",
    "AWS::EC2::SecurityGroup",
    "AWS::EC2::SecurityGroupEgress",
    "AWS::EC2::SecurityGroupIngress",
    "AWS::EC2::Subnet",
    "AWS::EC2::SubnetRouteTableAssociation",
    "AWS::EC2::VPC",
    "AWS::EC2::VPCGatewayAttachment",
    "AWS::FSx::DataRepositoryAssociation",
    "AWS::IAM::ManagedPolicy",
    "AWS::IAM::Policy",
    "AWS::IAM::Role",
    "AWS::Lambda::Alias",
    "AWS::Lambda::EventSourceMapping",
    "AWS::Lambda::Permission",
    "AWS::Lambda::Version",
    "AWS::Logs::QueryDefinition",
    "AWS::S3::BucketPolicy",
    "AWS::SNS::Subscription",
    "AWS::SNS::TopicPolicy",
    "AWS::SQS::QueuePolicy",
    "AWS::SageMaker::ModelPackageGroup",
)
"""Never a line of a bill. A budget is while it has no action, as ours."""
UNKNOWN = "no price is known: not in the sum"


def at_rest(templates: Iterator[Mapping[str, Any]]) -> list[Line]:
    """One line a type and basis, the dearest first."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for template in templates:
        for resource in template["Resources"].values():
            kind = resource["Type"]
            if kind in PRICED:
                cost, basis = PRICED[kind](resource.get("Properties", {}))
            elif kind in FREE:
                continue
            else:
                cost, basis = 0.0, "by use" if kind in BY_USE else UNKNOWN
            found[(kind.removeprefix("AWS::"), basis)].append(cost)
    lines = [Line(kind, len(all_), basis, sum(all_)) for (kind, basis), all_ in found.items()]
    return sorted(lines, key=lambda line: (-line.monthly_usd, line.kind))


def show(env: str | None, as_json: bool) -> None:
    """What an environment costs a month while nothing runs, by resource."""
    name = env or default_env()
    known = environments()
    if name not in known:
        fail(f"environment {name!r} is not in config/", f"one of {', '.join(known)}")
    with tempfile.TemporaryDirectory(prefix="everstep-plan-") as folder:
        region, lines = _synthesised(name, Path(folder))
    total = math.fsum(line.monthly_usd for line in lines)
    if as_json:
        emit(
            {
                "environment": name,
                "region": region,
                "prices_of": PRICES_OF,
                "prices_read": PRICES_READ,
                "monthly_usd": round(total, 2),
                "lines": [line._asdict() for line in lines],
            }
        )
        return
    for line in lines:
        print(f"{line.monthly_usd:>10.2f}  {line.number:>3} × {line.kind:<32} {line.basis}")
    print(f"{total:>10.2f}  USD a month at rest, {name}")
    say(f"list prices of {PRICES_OF}, read {PRICES_READ}; sources and gaps: docs/cost.md")
    if region != PRICES_OF:
        say(f"{name} is in {region}, where prices differ: often 5 to 30 % more")


def _synthesised(env: str, folder: Path) -> tuple[str, list[Line]]:
    # Not in the folder, which is gone when the log is wanted.
    log = ROOT / ".everstep" / f"plan-{env}.log"
    log.parent.mkdir(exist_ok=True)
    command = [*cdk_command(), "synth", "--quiet", "--context", f"env={env}"]
    command += ["--output", str(folder / "out"), "--no-notices"]
    with child(command, with_node(os.environ), log) as ran:
        finish(ran, "cdk synth", log)
    log.unlink()
    out = folder / "out"
    manifest = json.loads((out / "manifest.json").read_text())
    region = next(
        artifact["environment"].rsplit("/", 1)[-1]
        for artifact in manifest["artifacts"].values()
        if artifact["type"] == "aws:cloudformation:stack"
    )
    return region, at_rest(json.loads(path.read_text()) for path in out.glob("*.template.json"))
