"""The role that a team's training jobs run as."""

from collections.abc import Sequence
from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

JOB_LOGS = "/aws/sagemaker/TrainingJobs"
SESSION_CHANNELS = [
    "ssmmessages:CreateControlChannel",
    "ssmmessages:CreateDataChannel",
    "ssmmessages:OpenControlChannel",
    "ssmmessages:OpenDataChannel",
]
"""Of the agent that SageMaker starts beside the container. They take no resource."""
READ = ["s3:GetObject"]
WRITE = [
    "s3:GetObject",
    "s3:PutObject",
    "s3:DeleteObject",
    "s3:AbortMultipartUpload",
    "s3:ListMultipartUploadParts",
]


class JobRole(Construct):
    """Reads the team's data, writes its checkpoints and output; nothing of another team's."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        role_name: str,
        team: str,
        data: s3.IBucket,
        checkpoints: s3.IBucket,
        output: s3.IBucket,
        key: kms.IKey,
        repositories: Sequence[ecr.IRepository],
        subnets: Sequence[ec2.ISubnet],
        security_group: ec2.ISecurityGroup,
        lustre: bool,
        remote_debug: bool,
    ) -> None:
        super().__init__(scope, name)
        stack = Stack.of(self)
        self.actions: set[str] = set()
        self.role = iam.Role(
            self,
            "Role",
            role_name=role_name,
            description=f"Training jobs of team {team}",
            assumed_by=iam.ServicePrincipal(
                "sagemaker.amazonaws.com",
                conditions={"StringEquals": {"aws:SourceAccount": stack.account}},
            ),
        )
        for word, bucket, actions in (
            ("Data", data, READ),
            ("Checkpoints", checkpoints, WRITE),
            ("Output", output, WRITE),
        ):
            self._allow(f"{word}Objects", actions, [bucket.arn_for_objects(f"{team}/*")])
            self._allow(
                f"{word}List",
                ["s3:ListBucket"],
                [bucket.bucket_arn],
                {"StringLike": {"s3:prefix": [f"{team}/*"]}},
            )
        self._allow(
            "DataKey", ["kms:Decrypt", "kms:GenerateDataKey", "kms:DescribeKey"], [key.key_arn]
        )
        self._allow(
            "DataKeyForVolumes",
            ["kms:CreateGrant"],
            [key.key_arn],
            {"Bool": {"kms:GrantIsForAWSResource": "true"}},
        )
        self._allow(
            "Images",
            ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
            [repository.repository_arn for repository in repositories],
        )
        self._allow("RegistryLogin", ["ecr:GetAuthorizationToken"], ["*"])
        self._logs_and_metrics(stack)
        self._network(stack, subnets, security_group)
        if lustre:
            self._allow("FindLustre", ["fsx:DescribeFileSystems"], ["*"])
        if remote_debug:
            self._allow("RemoteDebug", SESSION_CHANNELS, ["*"])

    def _logs_and_metrics(self, stack: Stack) -> None:
        group = stack.format_arn(service="logs", resource=f"log-group:{JOB_LOGS}")
        self._allow(
            "LogGroup", ["logs:CreateLogGroup", "logs:DescribeLogStreams"], [group, f"{group}:*"]
        )
        self._allow("LogStreams", ["logs:CreateLogStream", "logs:PutLogEvents"], [f"{group}:*"])
        self._allow(
            "Metrics",
            ["cloudwatch:PutMetricData"],
            ["*"],
            {"StringLike": {"cloudwatch:namespace": "/aws/sagemaker/*"}},
        )

    def _network(
        self, stack: Stack, subnets: Sequence[ec2.ISubnet], group: ec2.ISecurityGroup
    ) -> None:
        """SageMaker puts the hosts' interfaces into our subnets in this role's name."""

        def arn(kind: str, name: str) -> str:
            return stack.format_arn(service="ec2", resource=kind, resource_name=name)

        interfaces = arn("network-interface", "*")
        self._allow(
            "Interfaces",
            ["ec2:CreateNetworkInterface"],
            [
                interfaces,
                arn("security-group", group.security_group_id),
                *(arn("subnet", subnet.subnet_id) for subnet in subnets),
            ],
        )
        self._allow(
            "InterfacePermissions",
            [
                "ec2:CreateNetworkInterfacePermission",
                "ec2:DeleteNetworkInterface",
                "ec2:DeleteNetworkInterfacePermission",
            ],
            [interfaces],
        )
        self._allow(
            "DescribeNetwork",
            [
                "ec2:DescribeDhcpOptions",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeSubnets",
                "ec2:DescribeVpcs",
            ],
            ["*"],
        )

    def _allow(
        self,
        sid: str,
        actions: list[str],
        resources: list[str],
        conditions: dict[str, Any] | None = None,
    ) -> None:
        self.actions.update(actions)
        self.role.add_to_policy(
            iam.PolicyStatement(
                sid=sid,
                actions=actions,
                resources=resources,
                conditions=conditions,
            )
        )
