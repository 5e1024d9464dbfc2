"""The checks of ``everstep doctor``: each asks AWS one thing and says what it means."""

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Literal, NamedTuple

from botocore.exceptions import ClientError

from everstep import __version__
from everstep.cli.cloud import Cloud, error_code
from everstep.cli.deploy import ROOT
from everstep.contracts import names
from everstep.contracts.instances import INSTANCE_TYPES
from everstep.contracts.payloads import HANDLER_STATES, RULE_HANDLERS, State, Team
from everstep.contracts.run_spec import RunSpec
from everstep.policy.images import lookup
from everstep.policy.quota import Room, judge, needs_of
from lambdas.aws.quotas import Quotas

FIRST = "account"
CLOCK_WARN, CLOCK_FAIL = 30.0, 240.0
"""Seconds. AWS refuses signatures that are five minutes off."""


class Finding(NamedTuple):
    """What one check says. ``fix`` where there is something to do."""

    check: str
    state: Literal["ok", "warn", "fail"]
    said: str
    fix: str = ""


class Look(NamedTuple):
    """What the checks are given. ``config``: the environment's file; empty where it is not here."""

    cloud: Cloud
    config: Mapping[str, Any]
    spec: RunSpec | None = None


Check = Callable[[Look], Iterator[Finding]]


def config_of(env: str) -> dict[str, Any]:
    file = ROOT / "config" / f"{env}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def account(look: Look) -> Iterator[Finding]:
    """Who asks, and whether the two clocks agree."""
    answer = look.cloud.client("sts").get_caller_identity()
    wanted, found = look.config.get("account"), answer["Account"]
    where = "the emulator" if look.cloud.emulated else "AWS"
    if wanted not in (None, found):
        yield Finding(
            FIRST,
            "fail",
            f"{found} on {where}; config/{look.cloud.env}.toml says {wanted}",
            "credentials of that account (AWS_PROFILE), or another --env",
        )
    else:
        yield Finding(FIRST, "ok", f"{found} on {where}, as {answer['Arn']}")
    if not look.config:
        yield Finding(
            "config",
            "warn",
            f"no config/{look.cloud.env}.toml here: account, region and zones are not compared",
            "run it in the repository that was deployed from",
        )
    yield from _clock(answer, look.cloud.clock())


def _clock(answer: Mapping[str, Any], now: float) -> Iterator[Finding]:
    said = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    if said is None:
        return
    off = now - parsedate_to_datetime(said).timestamp()
    state: Literal["ok", "warn", "fail"] = "ok"
    if abs(off) > CLOCK_WARN:
        state = "fail" if abs(off) > CLOCK_FAIL else "warn"
    fix = "" if state == "ok" else "set this machine's clock (NTP): signatures hold five minutes"
    yield Finding("clock", state, f"{off:+.0f} s from AWS's", fix)


def region(look: Look) -> Iterator[Finding]:
    wanted, found = look.config.get("region"), look.cloud.region
    if wanted in (None, found):
        yield Finding("region", "ok", str(found))
    else:
        yield Finding(
            "region",
            "fail",
            f"{found}; config/{look.cloud.env}.toml says {wanted}",
            f"AWS_DEFAULT_REGION={wanted}",
        )


def stacks(look: Look) -> Iterator[Finding]:
    client, env = look.cloud.client("cloudformation"), look.cloud.env
    for part in names.STACKS:
        stack = names.stack_name(env, part)
        try:
            status = client.describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"]
        except ClientError as error:
            if error_code(error) != "ValidationError":
                raise
            yield Finding(
                "stack", "fail", f"{stack} is not there", f"cdk deploy --all -c env={env}"
            )
            continue
        if status in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
            yield Finding("stack", "ok", f"{stack}: {status}")
        elif status.endswith("_IN_PROGRESS") or status == "UPDATE_ROLLBACK_COMPLETE":
            yield Finding(
                "stack", "warn", f"{stack}: {status}", "wait for the deploy; deploy again"
            )
        else:
            yield Finding("stack", "fail", f"{stack}: {status}", "look at its events, deploy again")


def version(look: Look) -> Iterator[Finding]:
    found = look.cloud.outputs.get(names.OUTPUT_VERSION)
    if found == __version__:
        yield Finding("version", "ok", f"{found}, here and deployed")
    else:
        yield Finding(
            "version",
            "warn",
            f"deployed is {found or 'an older one, which does not say'}, here is {__version__}",
            f"cdk deploy --all -c env={look.cloud.env}",
        )


def functions(look: Look) -> Iterator[Finding]:
    client, missing = look.cloud.client("lambda"), []
    folders = [*(names.handler_folder(state) for state in HANDLER_STATES), *RULE_HANDLERS]
    for folder in folders:
        name = names.function_name(look.cloud.env, folder)
        try:
            client.get_alias(FunctionName=name, Name=names.HANDLER_ALIAS)
        except ClientError as error:
            if error_code(error) != "ResourceNotFoundException":
                raise
            missing.append(name)
    if missing:
        said = f"without alias {names.HANDLER_ALIAS!r}: {', '.join(missing)}"
        yield Finding("functions", "fail", said, f"cdk deploy --all -c env={look.cloud.env}")
    else:
        yield Finding("functions", "ok", f"{len(folders)}, each with its alias")


def machines(look: Look) -> Iterator[Finding]:
    for arn in look.cloud.machines().values():
        answer = look.cloud.client("stepfunctions").describe_state_machine(stateMachineArn=arn)
        if answer["status"] == "ACTIVE":
            yield Finding("machine", "ok", answer["name"])
        else:
            yield Finding(
                "machine", "fail", f"{answer['name']}: {answer['status']}", "deploy again"
            )


def queues(look: Look) -> Iterator[Finding]:
    """Events that no handler could take: a run may wait for one of them."""
    sqs, wanted = look.cloud.client("sqs"), "ApproximateNumberOfMessages"
    for key, arn in sorted(look.cloud.outputs.items()):
        if not key.startswith(names.OUTPUT_DEAD_LETTERS):
            continue
        queue = key.removeprefix(names.OUTPUT_DEAD_LETTERS)
        url = sqs.get_queue_url(QueueName=arn.rpartition(":")[2])["QueueUrl"]
        answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[wanted])
        count = int(answer["Attributes"][wanted])
        if count:
            fix = "read the handler's log, mend it, then everstep redrive-dlq"
            yield Finding("dead letters", "warn", f"{queue}: {count} messages", fix)
        else:
            yield Finding("dead letters", "ok", f"{queue}: none")


def endpoints(look: Look) -> Iterator[Finding]:
    stack = names.stack_name(look.cloud.env, "network")
    pages = look.cloud.client("cloudformation").get_paginator("list_stack_resources")
    ids = [
        one["PhysicalResourceId"]
        for page in pages.paginate(StackName=stack)
        for one in page["StackResourceSummaries"]
        if one["ResourceType"] == "AWS::EC2::VPCEndpoint"
    ]
    if not ids:
        yield Finding(
            "endpoints", "warn", "none in the VPC", "S3's gateway endpoint is free: deploy again"
        )
        return
    found = look.cloud.client("ec2").describe_vpc_endpoints(VpcEndpointIds=ids)["VpcEndpoints"]
    ill = [f"{x['ServiceName']}: {x['State']}" for x in found if x["State"].lower() != "available"]
    if ill:
        yield Finding("endpoints", "fail", ", ".join(ill), "look at them in the VPC console")
    else:
        short = sorted(x["ServiceName"].rpartition(".")[2] for x in found)
        yield Finding("endpoints", "ok", ", ".join(short))


def _team(cloud: Cloud) -> Team:
    """One as it is deployed. Registry and security groups are the same for every team."""
    machine = next(iter(cloud.machines().values()))
    answer = cloud.client("stepfunctions").describe_state_machine(stateMachineArn=machine)
    start = json.loads(answer["definition"])["States"][State.VALIDATE_SPEC]
    return Team.model_validate(start["Arguments"]["Payload"]["team"])


def image(look: Look) -> Iterator[Finding]:
    """Of the spec, in the environment's registry. Others' registries are not asked."""
    assert look.spec is not None
    named = look.spec.trainer.image
    if look.cloud.emulated:
        yield Finding("image", "ok", f"{named}: not needed, the emulator runs jobs on this machine")
        return
    wanted = lookup(named, _team(look.cloud))
    if wanted is None:
        said = f"{named}: of another registry, not looked at"
        yield Finding("image", "warn", said, "the launch itself will tell")
        return
    try:
        look.cloud.client("ecr").describe_images(
            repositoryName=wanted.repository,
            imageIds=[
                {"imageDigest": wanted.digest} if wanted.digest else {"imageTag": wanted.tag}
            ],
        )
    except ClientError as error:
        if error_code(error) not in ("ImageNotFoundException", "RepositoryNotFoundException"):
            raise
        project = names.image_project_of(wanted.repository)
        fix = f"aws codebuild start-build --project-name {project}; see containers/"
        yield Finding("image", "fail", f"{named} is not in the registry", fix)
        return
    yield Finding("image", "ok", named)


def quotas(look: Look) -> Iterator[Finding]:
    """As CheckQuota will judge them. One target with room is enough."""
    assert look.spec is not None
    service = Quotas(look.cloud.client("service-quotas"), look.cloud.client("sagemaker"))
    values, used = service.values(), service.in_use()
    verdicts = [judge(needs_of(look.spec, t), values, used) for t in look.spec.compute]
    enough = any(v.room is Room.GO for v in verdicts)
    for target, verdict in zip(look.spec.compute, verdicts, strict=True):
        where = f"{target.nodes} × {target.instance_type}, {target.purchase}"
        unknown = [n.quota for n in needs_of(look.spec, target) if n.quota not in values]
        if verdict.room is Room.NEVER:
            state: Literal["warn", "fail"] = "warn" if enough else "fail"
            fix = "ask for more in Service Quotas, or set quota.request_increase in the spec"
            yield Finding("quota", state, f"{where}: {verdict.reason}", fix)
        elif verdict.room is Room.WAIT:
            yield Finding("quota", "warn", f"{where}: {verdict.reason}", "the run will wait for it")
        elif unknown:
            said = f"{where}: Service Quotas lists no {unknown[0]!r}"
            yield Finding("quota", "warn", said, "the launch itself will tell")
        else:
            yield Finding("quota", "ok", where)


def efa(look: Look) -> Iterator[Finding]:
    """Hosts reach each other over EFA only where a security group lets all traffic from and to
    itself through ("Create a security group to support EFA communications", PCS guide)."""
    assert look.spec is not None
    many = [target for target in look.spec.compute if target.nodes > 1]
    needing = [t for t in many if INSTANCE_TYPES[t.instance_type].efa_interfaces]
    without = [t for t in many if t not in needing and INSTANCE_TYPES[t.instance_type].gpus]
    for target in without:
        said = f"{target.nodes} × {target.instance_type} has no EFA: gradients go over TCP"
        yield Finding("efa", "warn", said, "one node, or a type with EFA")
    if not needing:
        if not without:
            yield Finding("efa", "ok", "not needed: no entry of compute has several GPU hosts")
        return
    groups = _team(look.cloud).security_groups
    pages = look.cloud.client("ec2").get_paginator("describe_security_group_rules")
    open_ways = {
        (rule["GroupId"], rule["IsEgress"])
        for page in pages.paginate(Filters=[{"Name": "group-id", "Values": groups}])
        for rule in page["SecurityGroupRules"]
        if rule["IpProtocol"] == "-1"
        and rule.get("ReferencedGroupInfo", {}).get("GroupId") == rule["GroupId"]
    }
    shut = {
        group: [
            way for way, out in (("from", False), ("to", True)) if (group, out) not in open_ways
        ]
        for group in groups
    }
    hosts = ", ".join(f"{t.nodes} × {t.instance_type}" for t in needing)
    if whole := [group for group, ways in shut.items() if not ways]:
        yield Finding("efa", "ok", f"{hosts}: {whole[0]} lets all of its own traffic through")
        return
    for group, ways in shut.items():
        said = f"{hosts}: {group} does not let all traffic {' and '.join(ways)} itself through"
        stack = names.stack_name(look.cloud.env, "network")
        yield Finding("efa", "fail", said, f"cdk deploy {stack}: its group has both rules")


def offering(look: Look) -> Iterator[Finding]:
    """Where EC2 offers the type. SageMaker's own list is not public: a hint, not a promise."""
    assert look.spec is not None
    zones = list(look.config.get("network", {}).get("zones", []))
    for target in look.spec.compute:
        pages = look.cloud.client("ec2").get_paginator("describe_instance_type_offerings")
        name = target.instance_type.removeprefix("ml.")
        offered = {
            one["Location"]
            for page in pages.paginate(
                LocationType="availability-zone",
                Filters=[{"Name": "instance-type", "Values": [name]}],
            )
            for one in page["InstanceTypeOfferings"]
        }
        wanted = [target.zone] if target.zone else zones or sorted(offered)
        there = [zone for zone in wanted if zone in offered]
        if there:
            yield Finding("zone", "ok", f"{name}: {', '.join(there)}")
        else:
            elsewhere = ", ".join(sorted(offered)) or "no zone of this region"
            said = f"{name}: EC2 does not offer it in {', '.join(wanted) or 'this region'}"
            yield Finding("zone", "warn", said, f"offered in {elsewhere}")


CHECKS: Mapping[str, Check] = {
    FIRST: account,
    "region": region,
    "stack": stacks,
    "version": version,
    "functions": functions,
    "machine": machines,
    "dead letters": queues,
    "endpoints": endpoints,
}
"""In the order in which they are done; the first must work for the others to mean anything."""
SPEC_CHECKS: Mapping[str, Check] = {
    "image": image,
    "quota": quotas,
    "efa": efa,
    "zone": offering,
}
