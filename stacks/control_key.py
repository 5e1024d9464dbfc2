"""The key of table, topic, queues and logs, whose policy names each service that writes.

CloudWatch's alarms and EventBridge's rules cannot use AWS's own key on our topic and queues: it
takes no policy. The rules' statement comes with their targets (``stacks.events``).
"""

from collections.abc import Iterable

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from stacks.logs_key import let_logs_use


class ControlKey(Construct):
    """Apart from the data key, so that no job role can ever read the control plane."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        description: str,
        log_groups: Iterable[str],
        removal: RemovalPolicy,
    ) -> None:
        super().__init__(scope, name)
        self.key = kms.Key(
            self, "Key", description=description, enable_key_rotation=True, removal_policy=removal
        )
        self.key.add_to_resource_policy(
            iam.PolicyStatement(
                sid="Alarms",
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["kms:Decrypt", "kms:GenerateDataKey"],
                resources=["*"],
                conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}},
            )
        )
        let_logs_use(self.key, log_groups)
