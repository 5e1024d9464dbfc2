"""The key of table, topic, queues and logs, whose policy names each service that writes.

CloudWatch's alarms and EventBridge's rules cannot use AWS's own key on our topic and queues: it
takes no policy. The rules' statement comes with their targets (``stacks.events``).
"""

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct


class ControlKey(Construct):
    """Apart from the data key, so that no job role can ever read the control plane."""

    def __init__(
        self, scope: Construct, name: str, *, description: str, removal: RemovalPolicy
    ) -> None:
        super().__init__(scope, name)
        stack = Stack.of(self)
        self.key = kms.Key(
            self, "Key", description=description, enable_key_rotation=True, removal_policy=removal
        )
        self._allow(
            "Alarms",
            "cloudwatch.amazonaws.com",
            ["kms:Decrypt", "kms:GenerateDataKey"],
            {"StringEquals": {"aws:SourceAccount": stack.account}},
        )
        groups = stack.format_arn(service="logs", resource="log-group:*")
        self._allow(
            "Logs",
            f"logs.{stack.region}.amazonaws.com",
            [
                "kms:Encrypt",
                "kms:Decrypt",
                "kms:ReEncrypt*",
                "kms:GenerateDataKey*",
                "kms:DescribeKey",
            ],
            {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
        )

    def _allow(
        self, sid: str, service: str, actions: list[str], conditions: dict[str, dict[str, str]]
    ) -> None:
        self.key.add_to_resource_policy(
            iam.PolicyStatement(
                sid=sid,
                principals=[iam.ServicePrincipal(service)],
                actions=actions,
                resources=["*"],
                conditions=conditions,
            )
        )
