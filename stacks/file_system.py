"""FSx for Lustre with data repository associations for each team."""

from typing import Any, NamedTuple

from aws_cdk import CfnTag, RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.config import FileSystem
from stacks.file_system_rules import CHECKPOINTS, EXPORTS

CHANGES = ["NEW", "CHANGED", "DELETED"]


class Lustre(NamedTuple):
    """What others need of a file system, ours or one that was there before."""

    id: str
    mount: str
    keeps_checkpoints: bool

    def path(self, team: str) -> str:
        """What a training job's FileSystemDataSource names: the mount name comes first."""
        return f"/{self.mount}/{team}"

    def checkpoints(self, team: str) -> str | None:
        """The same of its checkpoints; None where none are kept here."""
        return f"/{self.mount}{CHECKPOINTS}/{team}" if self.keeps_checkpoints else None


class LustreFileSystem(Construct):
    """``/{team}`` mirrors ``s3://{data}/{team}/``: imported when read, never exported by itself.

    Export promises no order, so a manifest could arrive before its data: what is committed on the
    file system is decided by the trainer alone. With ``checkpoints`` they lie in
    ``/checkpoints/{team}``, linked without any automatism to where the checkpoint bucket has them.
    With ``export``, ``/exports/{team}`` is another link, to ``s3://{output}/{team}/fsx/``, for
    files that stand alone; no job's contract names it.
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
        checkpoints: s3.IBucket,
        output: s3.IBucket,
        removal: RemovalPolicy,
    ) -> None:
        super().__init__(scope, name)
        scratch = settings.deployment == "SCRATCH_2"
        self.file_system = fsx.CfnFileSystem(
            self,
            "Lustre",
            file_system_type="LUSTRE",
            file_system_type_version="2.15",
            storage_type=settings.storage,
            storage_capacity=settings.capacity_gib,
            subnet_ids=[subnet.subnet_id],
            security_group_ids=[group.security_group_id],
            # FSx encrypts scratch with a key of its own and takes no other.
            kms_key_id=None if scratch else key.key_arn,
            lustre_configuration=fsx.CfnFileSystem.LustreConfigurationProperty(
                deployment_type=settings.deployment,
                data_compression_type="LZ4",
                efa_enabled=True if settings.efa else None,
                **_performance(settings),
            ),
            tags=[CfnTag(key="Name", value="everstep")],
        )
        self.file_system.apply_removal_policy(removal)
        self.lustre = Lustre(
            self.file_system.ref, self.file_system.attr_lustre_mount_name, settings.checkpoints
        )
        self._removal = removal
        dra = fsx.CfnDataRepositoryAssociation
        imports = dra.S3Property(auto_import_policy=dra.AutoImportPolicyProperty(events=CHANGES))
        exports = dra.S3Property(auto_export_policy=dra.AutoExportPolicyProperty(events=CHANGES))
        for team in teams if settings.storage == "SSD" else []:
            self._link(f"Data-{team}", f"/{team}", f"s3://{data.bucket_name}/{team}/", imports)
            if settings.checkpoints:
                where = f"s3://{checkpoints.bucket_name}/{team}/"
                self._link(f"Checkpoints-{team}", f"{CHECKPOINTS}/{team}", where, None)
            if settings.export:
                where = f"s3://{output.bucket_name}/{team}/fsx/"
                self._link(f"Export-{team}", f"{EXPORTS}/{team}", where, exports)

    def _link(self, name: str, path: str, bucket: str, policy: Any) -> None:
        link = fsx.CfnDataRepositoryAssociation(
            self,
            name,
            file_system_id=self.file_system.ref,
            file_system_path=path,
            data_repository_path=bucket,
            batch_import_meta_data_on_create=policy is not None and bool(policy.auto_import_policy),
            s3=policy,
        )
        # A file system that stays, and is taken over by another stack, is of no use without.
        link.apply_removal_policy(self._removal)


def _performance(settings: FileSystem) -> dict[str, Any]:
    """The fields of one kind of file system are refused for the others."""
    automatic = fsx.CfnFileSystem.MetadataConfigurationProperty(mode="AUTOMATIC")
    if settings.deployment == "SCRATCH_2":
        return {}
    if settings.storage == "SSD":
        return {
            "per_unit_storage_throughput": settings.throughput_mbps_per_tib,
            "metadata_configuration": automatic,
        }
    mode = "USER_PROVISIONED" if settings.read_cache_gib else "PROPORTIONAL_TO_THROUGHPUT_CAPACITY"
    return {
        "throughput_capacity": settings.throughput_mbps,
        "metadata_configuration": automatic,
        "data_read_cache_configuration": fsx.CfnFileSystem.DataReadCacheConfigurationProperty(
            sizing_mode=mode, size_gib=settings.read_cache_gib
        ),
    }
