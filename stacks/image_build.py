"""CodeBuild makes the trainer's image in the user's account: no Docker on the laptop that deploys.

The source is an asset of this deploy, so the tag, its hash, names exactly what is in the image:
the same source is never built twice, and a deploy starts no build by itself (containers/README.md).
"""

from typing import Any

from aws_cdk import Fn, IgnoreMode, RemovalPolicy, Stack
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from stacks.config import ROOT

NOT_IN_IMAGE = [
    "/*",
    "!/containers",
    "!/everstep",
    "/everstep/*",
    "!/everstep/__init__.py",
    "!/everstep/contracts",
    "!/trainer",
    "__pycache__",
    "*.pyc",
    "*.md",
]
TAG_LENGTH = 16
MINUTES = 120
BUILD_SPEC = {
    "version": "0.2",
    "phases": {
        "pre_build": {
            "commands": [
                "aws ecr get-login-password | docker login --username AWS --password-stdin "
                '"${REPOSITORY%%/*}"',
            ]
        },
        "build": {
            "commands": [
                # Tags are immutable: what was built from this source is there, and is this.
                'if aws ecr describe-images --repository-name "${REPOSITORY#*/}" '
                '--image-ids "imageTag=${TAG}" > /dev/null 2>&1; then '
                'echo "${TAG} is built already"; else '
                'docker build --file containers/trainer.Dockerfile --tag "${REPOSITORY}:${TAG}" . '
                '&& docker push "${REPOSITORY}:${TAG}"; fi',
            ]
        },
        "post_build": {
            "commands": [
                'aws ecr describe-images --repository-name "${REPOSITORY#*/}" --image-ids '
                '"imageTag=${TAG}" --query "imageDetails[0].imageDigest" --output text',
            ]
        },
    },
}
PUSH = (
    "ecr:BatchCheckLayerAvailability",
    "ecr:BatchGetImage",
    "ecr:CompleteLayerUpload",
    "ecr:DescribeImages",
    "ecr:GetDownloadUrlForLayer",
    "ecr:InitiateLayerUpload",
    "ecr:PutImage",
    "ecr:UploadLayerPart",
)


class ImageBuild(Construct):
    """``aws codebuild start-build --project-name everstep-ENV-trainer``."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        project_name: str,
        repository: ecr.IRepository,
        key: kms.IKey,
        retention: logs.RetentionDays,
        removal: RemovalPolicy,
    ) -> None:
        super().__init__(scope, name)
        source = assets.Asset(
            self,
            "Source",
            path=str(ROOT),
            exclude=NOT_IN_IMAGE,
            ignore_mode=IgnoreMode.GIT,
        )
        self.tag = source.asset_hash[:TAG_LENGTH]
        group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/codebuild/{project_name}",
            retention=retention,
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
        for sid, actions, resource in (
            ("Source", ("s3:GetObject", "s3:GetObjectVersion"), object_arn),
            ("Push", PUSH, repository.repository_arn),
            ("RegistryLogin", ("ecr:GetAuthorizationToken",), "*"),
            ("Key", ("kms:Decrypt", "kms:GenerateDataKey", "kms:DescribeKey"), key.key_arn),
            ("Logs", ("logs:CreateLogStream", "logs:PutLogEvents"), group.log_group_arn),
        ):
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
                ],
            ),
            logs_config=project.LogsConfigProperty(
                cloud_watch_logs=project.CloudWatchLogsConfigProperty(
                    status="ENABLED", group_name=group.log_group_name
                )
            ),
        )


def _variable(name: str, value: str) -> Any:
    return codebuild.CfnProject.EnvironmentVariableProperty(name=name, value=value)
