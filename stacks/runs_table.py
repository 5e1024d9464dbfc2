"""The runs table: see ``everstep.contracts.records`` for its rows."""

from typing import NamedTuple

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from constructs import Construct

from everstep.contracts.records import ACTIVE_INDEX

STRING = dynamodb.AttributeType.STRING


class KnownTable(NamedTuple):
    """One that a former stack left, and its key."""

    name: str
    key_arn: str


class RunsTable(Construct):
    """``Table``, not the newer ``TableV2``: one region, and a type that every tool knows."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        key: kms.IKey,
        retain: bool,
        known: KnownTable | None = None,
    ) -> None:
        super().__init__(scope, name)
        self.key_arns = [key.key_arn] + ([known.key_arn] if known else [])
        """Of who reads and writes it, and the control plane's other things."""
        self.table = self._known(known) if known else self._made(key, retain)

    def _known(self, known: KnownTable) -> dynamodb.ITable:
        return dynamodb.Table.from_table_attributes(
            self, "Table", table_name=known.name, global_indexes=[ACTIVE_INDEX]
        )

    def _made(self, key: kms.IKey, retain: bool) -> dynamodb.Table:
        table = dynamodb.Table(
            self,
            "Table",
            partition_key=dynamodb.Attribute(name="run_id", type=STRING),
            sort_key=dynamodb.Attribute(name="item", type=STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED,
            encryption_key=key,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            deletion_protection=retain,
            removal_policy=RemovalPolicy.RETAIN if retain else RemovalPolicy.DESTROY,
        )
        table.add_global_secondary_index(
            index_name=ACTIVE_INDEX,
            partition_key=dynamodb.Attribute(name="active", type=STRING),
            sort_key=dynamodb.Attribute(name="run_id", type=STRING),
            projection_type=dynamodb.ProjectionType.ALL,
        )
        return table

    @property
    def active_index_arn(self) -> str:
        return f"{self.table.table_arn}/index/{ACTIVE_INDEX}"
