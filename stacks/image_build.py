"""CodeBuild makes the trainer's image in the user's account: no Docker on the laptop that deploys.

The source is an asset of this deploy, so the tag, a hash of it and of what it is built on, names
exactly what is in the image: the same source is never built twice, and a deploy starts no build by
itself (containers/README.md). The steps: ``stacks.build_spec``.
"""

import hashlib
from typing import Any

from aws_cdk import ArnFormat, Fn, IgnoreMode, RemovalPolicy, Stack
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from stacks.build_spec import BUILD_SPEC, PULL, PUSH, SBOM_FOLDER
from stacks.config import ROOT
from stacks.dlc import Base

NOT_IN_IMAGE = [
    "/*",
    "!/containers",
    "!/everstep",
    "/everstep/*",
    "!/everstep/__init__.py",
    "!/everstep/contracts",
    "!/everstep/policy",
    "/everstep/policy/*",
    "!/everstep/policy/__init__.py",
    "!/everstep/policy/checkpoint_interval.py",
    "!/trainer",
    "__pycache__",
    "*.pyc",
    "*.md",
]
TAG_LENGTH = 16
MINUTES = 120


class ImageBuild(Construct):
    """``aws codebuild start-build --project-name everstep-ENV-trainer``."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        project_name: str,
        log_group: str,
        repository: ecr.IRepository,
        base: Base | None,
        records: s3.IBucket,
        key: kms.IKey,
        logs_key: kms.IKey,
        retention: logs.RetentionDays,
        removal: RemovalPolicy,
    ) -> None:
        """``base``: the Deep Learning Container to extend; None for the CUDA image, whose base is
        in its Dockerfile. ``records``: where the bill of materials goes."""
        super().__init__(scope, name)
        source = assets.Asset(
            self,
            "Source",
            path=str(ROOT),
            exclude=NOT_IN_IMAGE,
            ignore_mode=IgnoreMode.GIT,
        )
        base_uri = base.uri if base else ""
        made_of = f"{source.asset_hash} {base_uri}"
        self.tag = hashlib.sha256(made_of.encode()).hexdigest()[:TAG_LENGTH]
        group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=log_group,
            retention=retention,
            encryption_key=logs_key,
            removal_policy=removal,
        )
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal(
                "codebuild.amazonaws.com",
                conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}},
            ),
            description=f"Builds images of {project_name}",
        )
        object_arn = source.bucket.arn_for_objects(source.s3_object_key)
        sboms = records.arn_for_objects(f"{SBOM_FOLDER}/{self.tag}.cdx.json")
        grants: list[tuple[str, tuple[str, ...], str]] = [
            ("Source", ("s3:GetObject", "s3:GetObjectVersion"), object_arn),
            ("Push", PUSH, repository.repository_arn),
            ("Sbom", ("s3:PutObject",), sboms),
            ("RegistryLogin", ("ecr:GetAuthorizationToken",), "*"),
            ("Key", ("kms:Decrypt", "kms:GenerateDataKey", "kms:DescribeKey"), key.key_arn),
            ("Logs", ("logs:CreateLogStream", "logs:PutLogEvents"), group.log_group_arn),
        ]
        if base:
            grants.append(("PullBase", PULL, self._base_arn(base)))
        for sid, actions, resource in grants:
            self.role.add_to_policy(
                iam.PolicyStatement(sid=sid, actions=list(actions), resources=[resource])
            )
        # The L2 project adds grants with wildcards; this one has the role above and no more.
        project = codebuild.CfnProject
        self.project = project(
            self,
            "Project",
            name=project_name,
            description="The trainer's image, from the source of this deploy",
            service_role=self.role.role_arn,
            encryption_key=key.key_arn,
            timeout_in_minutes=MINUTES,
            artifacts=project.ArtifactsProperty(type="NO_ARTIFACTS"),
            source=project.SourceProperty(
                type="S3",
                location=Fn.join("/", [source.s3_bucket_name, source.s3_object_key]),
                build_spec=Stack.of(self).to_json_string(BUILD_SPEC),
            ),
            environment=project.EnvironmentProperty(
                type="LINUX_CONTAINER",
                compute_type="BUILD_GENERAL1_LARGE",
                image="aws/codebuild/standard:7.0",
                privileged_mode=True,
                environment_variables=[
                    _variable("REPOSITORY", repository.repository_uri),
                    _variable("TAG", self.tag),
                    _variable(
                        "DOCKERFILE", f"containers/{'dlc' if base else 'trainer'}.Dockerfile"
                    ),
                    _variable("BASE_IMAGE", base_uri),
                    _variable(
                        "SBOM", f"s3://{records.bucket_name}/{SBOM_FOLDER}/{self.tag}.cdx.json"
                    ),
                ],
            ),
            logs_config=project.LogsConfigProperty(
                cloud_watch_logs=project.CloudWatchLogsConfigProperty(
                    status="ENABLED", group_name=group.log_group_name
                )
            ),
        )

    def _base_arn(self, base: Base) -> str:
        return Stack.of(self).format_arn(
            service="ecr",
            account=base.account,
            resource="repository",
            resource_name=base.repository,
            arn_format=ArnFormat.SLASH_RESOURCE_NAME,
        )


def _variable(name: str, value: str) -> Any:
    return codebuild.CfnProject.EnvironmentVariableProperty(name=name, value=value)
