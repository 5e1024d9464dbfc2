"""``everstep destroy``: the real ``cdk destroy``, and what it left.

Where config says ``removal = "retain"`` the data outlives the stacks, and costs on. Its names
are in no stack any more afterwards: they are read before.
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
    protected = [stack["StackName"] for stack in stacks if stack.get("EnableTerminationProtection")]
    if yes and protected:
        fail(
            f"protected against deletion: {', '.join(protected)}",
            "aws cloudformation update-termination-protection --no-enable-termination-protection "
            "--stack-name NAME, for each; it is there so that nobody does this by mistake",
        )
    if yes:
        _cdk_destroy(cloud.env, os.environ)
    if as_json:
        emit({"destroyed": yes, "left": [one._asdict() for one in left]})
        return
    say(
        f"{len(stacks)} stacks {'deleted' if yes else 'would be deleted (--yes does it)'}; "
        f"left: {'' if left else 'nothing'}".rstrip()
    )
    for one in left:
        print(f"{one.type}\t{one.name}\t({one.stack})")


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


def _cdk_destroy(env: str, environ: Mapping[str, str]) -> None:
    log = Path(f"destroy-{env}.log").resolve()
    command = [*cdk_command(), "destroy", "--all", "--force", "--context", f"env={env}"]
    with child([*command, "--no-notices", "--progress", "events"], with_node(environ), log) as ran:
        finish(ran, "cdk destroy --all", log)
    log.unlink()
