"""``everstep destroy``: the real ``cdk destroy``, and what it left.

Where config says ``removal = "retain"`` the data outlives the stacks, and costs on. Its names
are in no stack any more afterwards: they are read before, and printed as the config section
``[existing]``, with which another environment goes on with them.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from botocore.exceptions import ClientError

from everstep.cli.cloud import Cloud, default_env
from everstep.cli.deploy import cdk_command, child, finish, with_node
from everstep.cli.errors import NOT_FOUND, fail
from everstep.cli.output import emit, say
from everstep.contracts import names

KEPT = ("Retain", "RetainExceptOnCreate")
LUSTRE = "AWS::FSx::FileSystem"


class Left(NamedTuple):
    """A resource that its stack gave up and did not delete."""

    stack: str
    type: str
    name: str


def destroy(
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without it, only say what.")] = False,
    env: Annotated[str | None, typer.Option(help="Environment of config/ (EVERSTEP_ENV).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    """Delete an environment's stacks. Says what stays: with `removal = "retain"`, the data."""
    cloud = Cloud(env or default_env())
    stacks = _stacks(cloud)
    left = [one for stack in stacks for one in _kept(cloud, stack)]
    network = names.stack_name(cloud.env, "network")
    if any(one.type == LUSTRE for one in left):
        # Its interfaces hold the subnets: CloudFormation would fail half way through the VPC.
        stacks = [stack for stack in stacks if stack["StackName"] != network]
        left = [one for one in left if one.stack != network]
        left.append(Left(network, "AWS::CloudFormation::Stack", network))
    there = {stack["StackName"] for stack in stacks}
    whole = {names.stack_name(cloud.env, part) for part in ("storage", "control-plane")} <= there
    section = _existing(cloud, left) if whole else {}
    protected = [stack["StackName"] for stack in stacks if stack.get("EnableTerminationProtection")]
    if yes and protected:
        fail(
            f"protected against deletion: {', '.join(protected)}",
            "aws cloudformation update-termination-protection --no-enable-termination-protection "
            "--stack-name NAME, for each; it is there so that nobody does this by mistake",
        )
    if yes:
        _cdk_destroy(cloud.env, [stack["StackName"] for stack in stacks], os.environ)
    if as_json:
        emit({"destroyed": yes, "left": [one._asdict() for one in left], "existing": section})
        return
    say(
        f"{len(stacks)} stacks {'deleted' if yes else 'would be deleted (--yes does it)'}; "
        f"left: {'' if left else 'nothing'}".rstrip()
    )
    for one in left:
        print(f"{one.type}\t{one.name}\t({one.stack})")
    if section:
        say("to go on with it under another name, in that environment's config:")
        print("\n[existing]")
        for field, value in section.items():
            print(f'{field} = "{value}"')


def _stacks(cloud: Cloud) -> list[dict[str, Any]]:
    """Those that there are, in the order of their deletion."""
    found = []
    for part in reversed(names.STACKS):
        name = names.stack_name(cloud.env, part)
        try:
            found += cloud.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
        except ClientError as error:
            if error.response["Error"]["Code"] != "ValidationError":
                raise
    if not found:
        fail(f"environment {cloud.env!r} has no stack here", "name another with --env", NOT_FOUND)
    return found


def _kept(cloud: Cloud, stack: Mapping[str, Any]) -> list[Left]:
    """By the template that is deployed, not the one that would be."""
    client, name = cloud.client("cloudformation"), stack["StackName"]
    body = client.get_template(StackName=name)["TemplateBody"]
    # botocore gives JSON as a dict and anything else as text; the CDK writes JSON.
    template = json.loads(body) if isinstance(body, str) else body
    pages = client.get_paginator("list_stack_resources").paginate(StackName=name)
    return [
        Left(name, one["ResourceType"], one["PhysicalResourceId"])
        for page in pages
        for one in page["StackResourceSummaries"]
        if template["Resources"][one["LogicalResourceId"]].get("DeletionPolicy") in KEPT
    ]


def _existing(cloud: Cloud, left: list[Left]) -> dict[str, str]:
    """The config section; empty where no data stays."""
    outputs = cloud.outputs
    partition, _, region, account = outputs[names.OUTPUT_TOPIC].split(":")[1:5]
    buckets = {
        "data_bucket": outputs[names.OUTPUT_DATA],
        "checkpoint_bucket": outputs[names.OUTPUT_CHECKPOINTS],
        "output_bucket": outputs[names.OUTPUT_OUTPUT],
    }

    def only(kind: str, part: str) -> str | None:
        stack = names.stack_name(cloud.env, part)
        return next((one.name for one in left if (one.type, one.stack) == (kind, stack)), None)

    def key(part: str) -> str:
        return f"arn:{partition}:kms:{region}:{account}:key/{only('AWS::KMS::Key', part)}"

    section: dict[str, str] = {}
    if {one.name for one in left} >= set(buckets.values()):
        section |= buckets | {"data_key": key("storage")}
    if table := only("AWS::DynamoDB::Table", "control-plane"):
        section |= {"table": table, "table_key": key("control-plane")}
    if system := only(LUSTRE, "storage"):
        mount = outputs[names.OUTPUT_LUSTRE_MOUNT]
        section |= {"file_system_id": system, "file_system_mount": mount}
    return section


def _cdk_destroy(env: str, stacks: list[str], environ: Mapping[str, str]) -> None:
    log = Path(f"destroy-{env}.log").resolve()
    command = [*cdk_command(), "destroy", *stacks, "--force", "--context", f"env={env}"]
    with child([*command, "--no-notices", "--progress", "events"], with_node(environ), log) as ran:
        finish(ran, "cdk destroy", log)
    log.unlink()
