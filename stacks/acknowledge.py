"""The rows of ``stacks.suppressions`` and ``stacks.wildcards``, put onto the resources that they
are about in the words of each tool."""

import re
from collections.abc import Iterable, Iterator
from typing import cast

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

from stacks.suppressions import IMPORTED, SUPPRESSIONS, Suppression, plugin_of
from stacks.wildcards import reason_for


def acknowledge(stacks: Iterable[Stack]) -> None:
    """After the last grant: policies are read as they will be written."""
    for stack in stacks:
        for construct in stack.node.find_all():
            if isinstance(construct, iam.Policy):
                for finding, reason in sorted(dict(_wildcards(construct)).items()):
                    _say(construct, f"AwsSolutions-IAM5[Resource::{finding}]", reason)
            elif isinstance(construct, CfnResource):
                _resource(stack, construct)
            else:
                _imported(stack, construct)


def _resource(stack: Stack, resource: CfnResource) -> None:
    skips, ignored = [], []
    for row in _rows(stack, resource, resource.cfn_resource_type):
        for rule in row.rules:
            if plugin_of(rule) == "checkov":
                skips.append({"id": rule, "comment": row.reason})
            elif plugin_of(rule) == "cfn-lint":
                ignored.append(rule.removeprefix("cfn-lint "))
            else:
                _say(resource, rule, row.reason)
    if skips:
        resource.add_metadata("checkov", {"skip": skips})
    if ignored:
        # cfn-lint takes no reason here: docs/security.md has it from the row.
        resource.add_metadata("cfn-lint", {"config": {"ignore_checks": ignored}})


def _imported(stack: Stack, construct: IConstruct) -> None:
    for row in _rows(stack, construct, IMPORTED):
        if not any(CfnResource.is_cfn_resource(below) for below in construct.node.find_all()):
            for rule in row.rules:
                _say(construct, rule, row.reason)


def _rows(stack: Stack, construct: IConstruct, kind: str) -> Iterator[Suppression]:
    path = construct.node.path.removeprefix(f"{stack.node.path}/")
    for row in SUPPRESSIONS:
        if row.kind == kind and re.fullmatch(row.where, path):
            yield row


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
