"""FSx for Lustre, PERSISTENT_2, with one data repository association a team."""

from aws_cdk import CfnTag, RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.config import FileSystem


class LustreFileSystem(Construct):
    """``/{team}`` mirrors ``s3://{data}/{team}/``: imported when read, never exported by itself.

    Export promises no order, so a manifest could arrive before its data: what is committed on the
    file system is decided by the trainer alone.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        settings: FileSystem,
        teams: list[str],
        subnet: ec2.ISubnet,
        group: ec2.ISecurityGroup,
        key: kms.IKey,
        data: s3.IBucket,
        removal: RemovalPolicy,
    ) -> None:
        super().__init__(scope, name)
        self.file_system = fsx.CfnFileSystem(
            self,
            "Lustre",
            file_system_type="LUSTRE",
            file_system_type_version="2.15",
            storage_type="SSD",
            storage_capacity=settings.capacity_gib,
            subnet_ids=[subnet.subnet_id],
            security_group_ids=[group.security_group_id],
            kms_key_id=key.key_arn,
            lustre_configuration=fsx.CfnFileSystem.LustreConfigurationProperty(
                deployment_type="PERSISTENT_2",
                per_unit_storage_throughput=settings.throughput_mbps_per_tib,
                data_compression_type="LZ4",
                efa_enabled=True if settings.efa else None,
                metadata_configuration=fsx.CfnFileSystem.MetadataConfigurationProperty(
                    mode="AUTOMATIC"
                ),
            ),
            tags=[CfnTag(key="Name", value="everstep")],
        )
        self.file_system.apply_removal_policy(removal)
        for team in teams:
            fsx.CfnDataRepositoryAssociation(
                self,
                f"Data-{team}",
                file_system_id=self.file_system.ref,
                file_system_path=f"/{team}",
                data_repository_path=f"s3://{data.bucket_name}/{team}/",
                batch_import_meta_data_on_create=True,
                s3=fsx.CfnDataRepositoryAssociation.S3Property(
                    auto_import_policy=fsx.CfnDataRepositoryAssociation.AutoImportPolicyProperty(
                        events=["NEW", "CHANGED", "DELETED"]
                    )
                ),
            )

    @property
    def id(self) -> str:
        return self.file_system.ref

    def path(self, team: str) -> str:
        """What a training job's FileSystemDataSource names: the mount name comes first."""
        return f"/{self.file_system.attr_lustre_mount_name}/{team}"
