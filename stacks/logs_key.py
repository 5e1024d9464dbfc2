"""Keys that CloudWatch Logs may use, and the one of the logs made below the control plane.

As CloudWatch Logs' guide has it ("Encrypt log data using AWS KMS"): the service of this region, for
log groups that the encryption context names. The context holds the group's ARN, and with it the
account: no group of anybody else's can be tied to the key.
"""

from collections.abc import Iterable

from aws_cdk import ArnFormat, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from stacks.regions import partition_of


def logs_suffix(region: str) -> str:
    """Of the service principal: one of the few that differ in China (terraform-provider-aws's
    ``names.go``)."""
    return "amazonaws.com.cn" if partition_of(region) == "aws-cn" else "amazonaws.com"


def let_logs_use(key: kms.Key, groups: Iterable[str]) -> None:
    """``groups``: names of log groups of this account and region, or patterns of them."""
    stack = Stack.of(key)
    arns = [
        stack.format_arn(
            service="logs",
            resource="log-group",
            resource_name=group,
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        for group in groups
    ]
    key.add_to_resource_policy(
        iam.PolicyStatement(
            sid="Logs",
            principals=[iam.ServicePrincipal(f"logs.{stack.region}.{logs_suffix(stack.region)}")],
            actions=[
                "kms:Encrypt",
                "kms:Decrypt",
                "kms:ReEncrypt*",
                "kms:GenerateDataKey*",
                "kms:DescribeKey",
            ],
            resources=["*"],
            conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": arns}},
        )
    )


class LogsKey(Construct):
    """Of flow logs and image builds: the control plane's key is made above them, and the data key
    is for data."""

    def __init__(
        self, scope: Construct, name: str, *, groups: Iterable[str], removal: RemovalPolicy
    ) -> None:
        super().__init__(scope, name)
        self.key = kms.Key(
            self,
            "Key",
            description=f"{Stack.of(self).stack_name}: flow logs, image builds",
            enable_key_rotation=True,
            removal_policy=removal,
        )
        let_logs_use(self.key, groups)
