"""Every finding that stays, with its reason, on the resources that it is about: the one table.

A row is a rule of cdk-nag (AwsSolutions, NIST 800-53 R5, our own), of CDK's template checks, or of
checkov, for resources of one kind whose construct path matches. It is applied resource by resource,
never to a stack. Wildcards in policies have their own table, ``stacks.wildcards``. Both are written
out in docs/security.md; a test finds rows that no environment needs. Why: docs/adr/0017.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple, cast

from aws_cdk import (
    Acknowledgment,
    CfnResource,
    IResolvable,
    Reference,
    Stack,
    Tokenization,
    Validations,
)
from aws_cdk import aws_iam as iam
from constructs import IConstruct

from stacks.wildcards import reason_for


class Suppression(NamedTuple):
    """``where``: a regular expression over the construct's path below its stack."""

    rules: tuple[str, ...]
    kind: str
    reason: str
    where: str = ".*"


NIST = "NIST.800.53.R5-"

SUPPRESSIONS = (
    Suppression(
        ("AwsSolutions-L1",),
        "AWS::Lambda::Function",
        "Python 3.12 on purpose, a runtime that Lambda supports: it is pinned together with the "
        "Powertools layer, whose name holds the version, for every partition that layer is "
        "published in; both move in one change (config's lambdas.powertools_layer)",
        "Handlers/.*",
    ),
    Suppression(
        (NIST + "LambdaInsideVPC", "CKV_AWS_117"),
        "AWS::Lambda::Function",
        "handlers call AWS's APIs only, and no data passes through them: in the VPC they would "
        "need endpoints for ten services, or a NAT, and stop with either",
        "Handlers/.*",
    ),
    Suppression(
        (NIST + "LambdaConcurrency", "CKV_AWS_115"),
        "AWS::Lambda::Function",
        "a reserved concurrency would be taken from the account's other functions and would "
        "throttle recovery when many runs fail at once; throttling has an alarm instead",
        "Handlers/.*",
    ),
    Suppression(
        (NIST + "LambdaDLQ", "CKV_AWS_116"),
        "AWS::Lambda::Function",
        "nothing invokes them asynchronously but the clocks, whose next tick makes up for a lost "
        "one; events reach them through queues with dead-letter queues, states through retries",
        "Handlers/.*",
    ),
    Suppression(
        ("AwsSolutions-SF1",),
        "AWS::StepFunctions::StateMachine",
        "the execution history is the log (kept 90 days), the runs table the record for good; the "
        "log group takes every error, and not each payload of months of waiting",
    ),
    Suppression(
        ("W3010",),
        "AWS::EC2::Subnet",
        "zones are the environment's own choice: capacity for GPUs differs by zone",
        "Vpc/.*",
    ),
    Suppression(
        (NIST + "VPCDefaultSecurityGroupClosed",),
        "AWS::EC2::VPC",
        "closing the default group takes a custom resource with a function and a role of its own; "
        "nothing of ours is ever in that group",
    ),
    Suppression(
        (NIST + "VPCNoUnrestrictedRouteToIGW",),
        "AWS::EC2::Route",
        "only where config asks for NAT: the subnet holds the NAT gateway and nothing else, and "
        "gives out no public address",
        r"Vpc/PublicSubnet\d/.*",
    ),
    Suppression(
        (NIST + "EC2RestrictedCommonPorts",),
        "AWS::EC2::SecurityGroupIngress",
        "the source is the group itself: EFA works only where all traffic among the hosts of the "
        "group is allowed, both ways",
        "TrainingGroup/SelfIngress",
    ),
    Suppression(
        (NIST + "EC2RestrictedCommonPorts", "Everstep-AllTrafficFromOthers"),
        "AWS::EC2::SecurityGroupIngress",
        "only where config asks for EFA to the file system: FSx refuses to make it unless its "
        "group and its clients' let all traffic between them through, both ways",
        r"(Training|Lustre)Group/Group/from \w+:ALL TRAFFIC",
    ),
    Suppression(
        (NIST + "IAMNoInlinePolicy",),
        "AWS::IAM::Policy",
        "the policy is one role's and lives and dies with it: a managed one could be attached to "
        "others, and could not be read beside its role",
    ),
    Suppression(
        (
            "AwsSolutions-IAM5[Resource::*]",
            "CKV_AWS_107",
            "CKV_AWS_108",
            "CKV_AWS_109",
            "CKV_AWS_111",
        ),
        "AWS::IAM::ManagedPolicy",
        "a permission boundary gives nothing: the resources are in the policies that it bounds, "
        "the actions are exactly those that they name",
        ".*Boundary/.*",
    ),
    Suppression(
        (NIST + "S3BucketReplicationEnabled",),
        "AWS::S3::Bucket",
        "checkpoints in another region would not help a run that trains in this one, and double "
        "the largest line of the bill after compute; S3 keeps copies in three zones, versions "
        "undo deletion",
        ".*Store/.*",
    ),
    Suppression(
        (NIST + "S3BucketReplicationEnabled",),
        "AWS::S3::Bucket",
        "what access logs tell of is in this region alone; S3 keeps copies in three zones, no role "
        "of ours may write or delete here, and they go after a year",
        "AccessLogs/.*",
    ),
    Suppression(
        (NIST + "S3DefaultEncryptionKMS",),
        "AWS::S3::Bucket",
        "S3 delivers access logs to no bucket whose default is SSE-KMS",
        "AccessLogs/.*",
    ),
    Suppression(
        ("CKV_AWS_18",),
        "AWS::S3::Bucket",
        "this is the bucket that access logs go to; logging it into itself would loop",
        "AccessLogs/.*",
    ),
    Suppression(
        ("Everstep-CurrentObjectsExpire",),
        "AWS::S3::Bucket",
        "access logs go after a year; no checkpoint lies here",
        "AccessLogs/.*",
    ),
    Suppression(
        (NIST + "DynamoDBInBackupPlan",),
        "AWS::DynamoDB::Table",
        "point-in-time recovery is on (35 days, any second) and the table is protected from "
        "deletion; a backup plan would add a vault and a role for less than that",
    ),
    Suppression(
        ("CKV_AWS_316",),
        "AWS::CodeBuild::Project",
        "docker build needs it; what is built is the source of this deploy, the role may push to "
        "one repository, and nobody's pull request starts it",
    ),
    Suppression(
        ("CKV_AWS_51",),
        "AWS::ECR::Repository",
        "tags are immutable but for one moving name, which jobs never get: a run's image is fixed "
        "when it is launched",
    ),
)


def acknowledge(stacks: tuple[Stack, ...]) -> None:
    """After the last grant: policies are read as they will be written."""
    for stack in stacks:
        for construct in stack.node.find_all():
            if isinstance(construct, iam.Policy):
                for finding, reason in sorted(dict(_wildcards(construct)).items()):
                    _say(construct, f"AwsSolutions-IAM5[Resource::{finding}]", reason)
            elif isinstance(construct, CfnResource):
                _resource(stack, construct)


def plugin_of(rule: str) -> str:
    """Which tool's rule it is."""
    for prefix in ("AwsSolutions", "NIST.800.53.R5", "Everstep"):
        if rule.startswith(prefix + "-"):
            return prefix
    return "checkov" if rule.startswith("CKV") else "CloudFormation-Validate"


def _resource(stack: Stack, resource: CfnResource) -> None:
    path = resource.node.path.removeprefix(f"{stack.node.path}/")
    skips = []
    for row in SUPPRESSIONS:
        if row.kind != resource.cfn_resource_type or not re.fullmatch(row.where, path):
            continue
        for rule in row.rules:
            if plugin_of(rule) == "checkov":
                skips.append({"id": rule, "comment": row.reason})
            else:
                _say(resource, rule, row.reason)
    if skips:
        resource.add_metadata("checkov", {"skip": skips})


def _say(construct: IConstruct, rule: str, reason: str) -> None:
    acknowledgment = Acknowledgment(id=f"{plugin_of(rule)}::{rule}", reason=reason)
    Validations.of(construct).acknowledge(acknowledgment)


def _wildcards(policy: iam.Policy) -> Iterator[tuple[str, str]]:
    for statement in policy.document.to_json()["Statement"]:
        actions = _as_list(statement["Action"])
        for resource in _as_list(statement["Resource"]):
            if "*" not in resource:
                continue
            # A policy variable as cdk-nag writes it: <aws:PrincipalTag/team>.
            name = re.sub(r"\$\{(.*?)\}", r"<\1>", _readable(policy, resource))
            reason = reason_for(name, actions)
            if reason:
                yield name, reason


def _readable(scope: iam.Policy, resource: str) -> str:
    """As cdk-nag writes it: a reference to another stack is the name of its export."""
    resolved = Stack.of(scope).resolve(resource)
    if isinstance(resolved, str):
        return resolved
    tokens = iter(Tokenization.reverse_string(resource).tokens)
    return "".join(
        part if isinstance(part, str) else _export(next(tokens)) for part in resolved["Fn::Join"][1]
    )


def _export(token: IResolvable) -> str:
    stack = Stack.of(cast(Reference, token).target)
    return str(stack.resolve(stack.export_value(token))["Fn::ImportValue"])


def _as_list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
