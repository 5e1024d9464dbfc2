"""Registries of the images that training runs in."""

from aws_cdk import CfnOutput, RemovalPolicy, Stack
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from everstep.contracts.names import (
    image_log_group,
    image_project_name,
    registry_path,
    repository_name,
)
from stacks.config import Config
from stacks.dlc import base_image
from stacks.image_build import ImageBuild
from stacks.network import logs_retention

IMAGES = ("trainer",)
MOVING_TAG = "stable"
"""The one tag that may move: what a run spec that names no image gets."""
KEEP_UNTAGGED = 10


class ImagesStack(Stack):
    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        env_name: str,
        config: Config,
        key: kms.IKey,
        logs_key: kms.IKey,
        records: s3.IBucket,
        **kwargs: object,
    ) -> None:
        super().__init__(scope, name, **kwargs)  # type: ignore[arg-type]
        self.repositories = [
            ecr.Repository(
                self,
                f"{image.title()}Repository",
                repository_name=repository_name(env_name, image),
                image_scan_on_push=True,
                empty_on_delete=not config.retain,
                encryption=ecr.RepositoryEncryption.KMS,
                encryption_key=key,
                image_tag_mutability=ecr.TagMutability.IMMUTABLE_WITH_EXCLUSION,
                image_tag_mutability_exclusion_filters=[
                    ecr.ImageTagMutabilityExclusionFilter.wildcard(MOVING_TAG)
                ],
                lifecycle_rules=[
                    ecr.LifecycleRule(
                        description="A run may go on for months on its tagged image: only "
                        "untagged ones expire",
                        tag_status=ecr.TagStatus.UNTAGGED,
                        max_image_count=KEEP_UNTAGGED,
                    )
                ],
                removal_policy=RemovalPolicy.RETAIN if config.retain else RemovalPolicy.DESTROY,
            )
            for image in IMAGES
        ]
        self.projects = [image_project_name(env_name, image) for image in IMAGES]
        build = ImageBuild(
            self,
            "TrainerBuild",
            project_name=image_project_name(env_name, "trainer"),
            log_group=image_log_group(env_name, "trainer"),
            repository=self.repositories[IMAGES.index("trainer")],
            base=base_image(config.region, config.images.torch)
            if config.images.base == "dlc"
            else None,
            records=records,
            key=key,
            logs_key=logs_key,
            retention=logs_retention(config.log_retention_days),
            removal=RemovalPolicy.RETAIN if config.retain else RemovalPolicy.DESTROY,
        )
        # What a run spec names once the project has built it: trainer:TAG.
        CfnOutput(self, "TrainerTag", value=build.tag)
        self.registry = (
            f"{self.account}.dkr.ecr.{self.region}.{self.url_suffix}/{registry_path(env_name)}"
        )
