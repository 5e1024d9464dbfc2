"""Findings of cdk-nag that stay, each with its reason, on the one resource that it is about.

Wildcards are acknowledged finding by finding from ``stacks.wildcards``. cdk-nag knows a finding by
its resource, not its actions; ``tests/stacks/test_permissions.py`` holds both to the table.
"""

from collections.abc import Iterator
from typing import cast

from aws_cdk import Acknowledgment, IResolvable, Reference, Stack, Tokenization, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_stepfunctions as sfn
from constructs import IConstruct

from stacks.wildcards import reason_for

RUNTIME = (
    "Python 3.12 on purpose: the runtime is pinned together with the Powertools layer, whose name "
    "holds the Python version, and both move in one change"
)
MACHINE_LOGS = (
    "the execution history is the log (kept 90 days), the runs table the record; the log group "
    "takes errors only, so that months of heartbeats cost nothing"
)
ZONES = "zones are the environment's own choice: capacity for GPUs differs by zone"
ACCESS_LOG_BUCKET = "this is the bucket that access logs go to; logging it into itself would loop"


def acknowledge(stacks: tuple[Stack, ...], access_logs: s3.Bucket) -> None:
    """After the last grant: policies are read as they will be written."""
    _say(access_logs, "AwsSolutions-S1", ACCESS_LOG_BUCKET)
    for stack in stacks:
        for construct in stack.node.find_all():
            if isinstance(construct, iam.Policy):
                for finding, reason in sorted(dict(_wildcards(construct)).items()):
                    _say(construct, f"AwsSolutions-IAM5[Resource::{finding}]", reason)
            elif isinstance(construct, lambda_.Function):
                _say(construct, "AwsSolutions-L1", RUNTIME)
            elif isinstance(construct, sfn.StateMachine):
                _say(construct, "AwsSolutions-SF1", MACHINE_LOGS)
            elif isinstance(construct, ec2.CfnSubnet):
                _say(construct, "W3010", ZONES, plugin="CloudFormation-Validate")


def _say(construct: IConstruct, finding: str, reason: str, plugin: str = "AwsSolutions") -> None:
    rule = Acknowledgment(id=f"{plugin}::{finding}", reason=reason)
    Validations.of(construct).acknowledge(rule)


def _wildcards(policy: iam.Policy) -> Iterator[tuple[str, str]]:
    for statement in policy.document.to_json()["Statement"]:
        actions = _as_list(statement["Action"])
        for resource in _as_list(statement["Resource"]):
            if "*" not in resource:
                continue
            name = _readable(policy, resource)
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
