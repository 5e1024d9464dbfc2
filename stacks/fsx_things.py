"""FSx's words of ``stacks.grants``: the stack's file system, and those that runs make."""

from typing import Any

from aws_cdk import Stack

from everstep.contracts.events import TAG_TABLE

LINK_ROLES = "s3.data-source.lustre.fsx.amazonaws.com"


def fsx_arns(stack: Stack, system: str | None, *, made_by_runs: bool) -> dict[str, list[str]]:
    """By word; empty lists where config asks for none of it."""

    def arn(kind: str, name: str = "*") -> str:
        return stack.format_arn(service="fsx", resource=kind, resource_name=name)

    roles = stack.format_arn(
        service="iam",
        region="",
        resource="role",
        resource_name=f"aws-service-role/{LINK_ROLES}/AWSServiceRoleForFSxS3Access_*",
    )

    def if_made(*arns: str) -> list[str]:
        return list(arns) if made_by_runs else []

    return {
        "file_system": [arn("file-system", system), arn("task")] if system else [],
        "data_tasks": ["*"] if system else [],
        "new_file_systems": if_made(arn("file-system")),
        "new_links": if_made(arn("file-system"), arn("association")),
        "run_file_systems": if_made(arn("file-system")),
        "file_systems": if_made("*"),
        "new_link_roles": if_made(roles),
        "link_roles": if_made(roles),
        "vpcs": if_made(stack.format_arn(service="ec2", resource="vpc", resource_name="*")),
    }


def fsx_conditions(table: str) -> dict[str, dict[str, Any]]:
    return {
        "new_file_systems": {"StringEquals": {f"aws:RequestTag/{TAG_TABLE}": table}},
        "run_file_systems": {"StringEquals": {f"aws:ResourceTag/{TAG_TABLE}": table}},
        "new_link_roles": {"StringLike": {"iam:AWSServiceName": LINK_ROLES}},
    }
