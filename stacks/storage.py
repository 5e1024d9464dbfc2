"""The data key, the buckets, and FSx for Lustre where config asks for it."""

from aws_cdk import CfnOutput, CfnWaitConditionHandle, Duration, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from everstep.contracts import names
from stacks.config import Config
from stacks.file_system import Lustre, LustreFileSystem

ABORT_UPLOADS_AFTER = Duration.days(7)
KEEP_OLD_VERSIONS = Duration.days(30)
REQUEST_METRICS = "EntireBucket"
KEEP_ACCESS_LOGS = Duration.days(365)


class StorageStack(Stack):
    """Everything that outlives a run. In prod it outlives the stack too."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        config: Config,
        lustre_group: ec2.ISecurityGroup,
        lustre_subnet: ec2.ISubnet,
        **kwargs: object,
    ) -> None:
        super().__init__(scope, name, **kwargs)  # type: ignore[arg-type]
        self.removal = RemovalPolicy.RETAIN if config.retain else RemovalPolicy.DESTROY
        known = config.existing
        self.key: kms.IKey = (
            kms.Key.from_key_arn(self, "DataKey", known.data_key)
            if known.data_key
            else kms.Key(
                self,
                "DataKey",
                description=f"{name}: data, checkpoints, output, images",
                enable_key_rotation=True,
                removal_policy=self.removal,
            )
        )
        self.access_logs = None if known.data_key else self._access_logs()
        if known.data_key:
            # CloudFormation takes no stack without a resource, and this one has its outputs.
            CfnWaitConditionHandle(self, "Nothing")
        self.data = self._bucket(names.OUTPUT_DATA, known.data_bucket)
        self.checkpoints = self._bucket(names.OUTPUT_CHECKPOINTS, known.checkpoint_bucket)
        self.output = self._bucket(names.OUTPUT_OUTPUT, known.output_bucket)
        if config.file_system or config.run_file_systems:
            self._let_lustre_use_key()
        self.file_system: Lustre | None = None
        if config.file_system and known.file_system_id:
            keeps = config.file_system.checkpoints
            self.file_system = Lustre(known.file_system_id, known.file_system_mount or "", keeps)
        elif config.file_system:
            self.file_system = LustreFileSystem(
                self,
                "FileSystem",
                settings=config.file_system,
                teams=[team.name for team in config.teams],
                subnet=lustre_subnet,
                group=lustre_group,
                key=self.key,
                data=self.data,
                checkpoints=self.checkpoints,
                output=self.output,
                removal=self.removal,
            ).lustre
        if self.file_system:
            CfnOutput(self, names.OUTPUT_LUSTRE_MOUNT, value=self.file_system.mount)

    def _access_logs(self) -> s3.Bucket:
        """SSE-S3, because S3 delivers access logs to no bucket whose default is SSE-KMS."""
        return s3.Bucket(
            self,
            "AccessLogs",
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            versioned=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    id="expire-logs",
                    expiration=KEEP_ACCESS_LOGS,
                    noncurrent_version_expiration=Duration.days(1),
                )
            ],
            removal_policy=self.removal,
        )

    def _bucket(self, name: str, known: str | None) -> s3.IBucket:
        """No rule expires a current object: which checkpoint may go is the trainer's to say."""
        bucket = self._known(name, known) if known else self._made(name)
        CfnOutput(self, name, value=bucket.bucket_name)
        return bucket

    def _known(self, name: str, known: str) -> s3.IBucket:
        """As it is, with the rules that it has."""
        return s3.Bucket.from_bucket_attributes(
            self, f"{name}Store", bucket_name=known, encryption_key=self.key
        )

    def _made(self, name: str) -> s3.Bucket:
        return s3.Bucket(
            self,
            f"{name}Store",
            encryption=s3.BucketEncryption.KMS,
            encryption_key=self.key,
            bucket_key_enabled=True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            versioned=True,
            server_access_logs_bucket=self.access_logs,
            server_access_logs_prefix=f"{name}/",
            lifecycle_rules=[
                s3.LifecycleRule(
                    id="abort-uploads",
                    abort_incomplete_multipart_upload_after=ABORT_UPLOADS_AFTER,
                ),
                s3.LifecycleRule(
                    id="expire-old-versions",
                    noncurrent_version_expiration=KEEP_OLD_VERSIONS,
                    expired_object_delete_marker=True,
                ),
            ],
            # Requests, 503s and bytes a minute: what the dashboard and its alarms read.
            metrics=[s3.BucketMetrics(id=REQUEST_METRICS)],
            removal_policy=self.removal,
        )

    def _let_lustre_use_key(self) -> None:
        """FSx makes one service-linked role a file system; its name is known only as a pattern."""
        roles = self.format_arn(
            service="iam",
            region="",
            resource="role",
            resource_name="aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/"
            "AWSServiceRoleForFSxS3Access_*",
        )
        self.key.add_to_resource_policy(
            iam.PolicyStatement(
                sid="LustreDataRepository",
                principals=[iam.AccountRootPrincipal()],
                actions=["kms:Decrypt", "kms:GenerateDataKey", "kms:DescribeKey"],
                resources=["*"],
                conditions={"ArnLike": {"aws:PrincipalArn": roles}},
            )
        )
