"""A team's state machine around ``stacks.definition``."""

from collections.abc import Mapping

from aws_cdk import Aws, RemovalPolicy, Stack, Tags
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from everstep.contracts.events import TAG_TEAM
from everstep.contracts.payloads import Team
from stacks.config import Config
from stacks.definition import definition
from stacks.network import logs_retention


class TeamMachine(Construct):
    """Its role may invoke the handlers' aliases, and nothing else of ours."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        machine_name: str,
        team: Team,
        aliases: Mapping[str, lambda_.IAlias],
        config: Config,
        key: kms.IKey,
    ) -> None:
        super().__init__(scope, name)
        stack = Stack.of(self)
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("states.amazonaws.com"),
            description=f"Everstep state machine {machine_name}",
        )
        self.role.add_to_policy(
            iam.PolicyStatement(
                sid="Handlers",
                actions=["lambda:InvokeFunction"],
                resources=[alias.function_arn for alias in aliases.values()],
            )
        )
        arns = {handler: alias.function_arn for handler, alias in aliases.items()}
        text = stack.to_json_string(definition(arns, team.model_dump(), Aws.PARTITION))
        self.machine = sfn.StateMachine(
            self,
            "Machine",
            state_machine_name=machine_name,
            state_machine_type=sfn.StateMachineType.STANDARD,
            definition_body=sfn.DefinitionBody.from_string(text),
            role=self.role,
            tracing_enabled=True,
            logs=sfn.LogOptions(
                destination=logs.LogGroup(
                    self,
                    "Logs",
                    log_group_name=f"/aws/vendedlogs/states/{machine_name}",
                    retention=logs_retention(config.log_retention_days),
                    encryption_key=key,
                    removal_policy=RemovalPolicy.RETAIN if config.retain else RemovalPolicy.DESTROY,
                ),
                level=sfn.LogLevel.ERROR,
                include_execution_data=False,
            ),
            # A stack that is deleted by mistake must not end runs of months.
            removal_policy=RemovalPolicy.RETAIN if config.retain else RemovalPolicy.DESTROY,
        )
        # What a researcher's session tag is compared with.
        Tags.of(self.machine).add(TAG_TEAM, team.name)
