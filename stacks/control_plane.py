"""Table, handlers, state machines, events and alarms."""

from aws_cdk import ArnFormat, CfnOutput, RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from everstep.contracts import names
from everstep.contracts.env import ControlEnv
from everstep.contracts.payloads import HANDLER_STATES, RULE_HANDLERS, Team
from everstep.contracts.records import ACTIVE_INDEX
from stacks.alarms import ControlAlarms
from stacks.config import Config
from stacks.control_key import ControlKey
from stacks.events import JOB_ENDED, QueuedEvents, WatchdogClock, execution_ended
from stacks.functions import HandlerFunction, bundle
from stacks.grants import Things, statements
from stacks.images import ImagesStack
from stacks.job_role import JOB_LOGS, JobRole
from stacks.machine import TeamMachine
from stacks.network import NetworkStack
from stacks.storage import StorageStack

STATE_HANDLERS = tuple(names.handler_folder(state) for state in HANDLER_STATES)
HANDLERS = (*STATE_HANDLERS, *RULE_HANDLERS)


class ControlPlaneStack(Stack):
    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        env_name: str,
        config: Config,
        network: NetworkStack,
        storage: StorageStack,
        images: ImagesStack,
        **kwargs: object,
    ) -> None:
        super().__init__(scope, name, **kwargs)  # type: ignore[arg-type]
        self.env_name, self.config = env_name, config
        self.network, self.storage, self.images = network, storage, images
        self.removal = RemovalPolicy.RETAIN if config.retain else RemovalPolicy.DESTROY
        self.team_names = [team.name for team in config.teams]
        self.key = ControlKey(
            self,
            "ControlKey",
            description=f"{name}: table, topic, queues, logs",
            removal=self.removal,
        ).key
        self.table = self._table()
        self.topic = self._topic()
        self.job_roles = {team: self._job_role(team) for team in self.team_names}
        self.handlers = self._handlers()
        self.machines = {team: self._machine(team) for team in self.team_names}
        self._events_and_alarms()
        CfnOutput(self, names.OUTPUT_TABLE, value=self.table.table_name)
        CfnOutput(self, names.OUTPUT_TOPIC, value=self.topic.topic_arn)
        for team, machine in self.machines.items():
            CfnOutput(
                self,
                names.OUTPUT_MACHINE + names.construct_id(team),
                value=machine.machine.state_machine_arn,
            )

    def _table(self) -> dynamodb.Table:
        table = dynamodb.Table(
            self,
            "Runs",
            partition_key=dynamodb.Attribute(name="run_id", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="item", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED,
            encryption_key=self.key,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            deletion_protection=self.config.retain,
            removal_policy=self.removal,
        )
        table.add_global_secondary_index(
            index_name=ACTIVE_INDEX,
            partition_key=dynamodb.Attribute(name="active", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="run_id", type=dynamodb.AttributeType.STRING),
            projection_type=dynamodb.ProjectionType.ALL,
        )
        return table

    def _topic(self) -> sns.Topic:
        topic = sns.Topic(
            self,
            "Topic",
            display_name=f"Everstep {self.env_name}",
            master_key=self.key,
            enforce_ssl=True,
        )
        topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="Alarms",
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[topic.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": self.account}},
            )
        )
        if self.config.alarm_email:
            topic.add_subscription(subscriptions.EmailSubscription(self.config.alarm_email))
        return topic

    def _job_role(self, team: str) -> iam.Role:
        return JobRole(
            self,
            f"JobRole{names.construct_id(team)}",
            role_name=names.job_role_name(self.env_name, team),
            team=team,
            data=self.storage.data,
            checkpoints=self.storage.checkpoints,
            output=self.storage.output,
            key=self.storage.key,
            repositories=self.images.repositories,
            subnets=self.network.training_subnets,
            security_group=self.network.training,
            lustre=self.storage.file_system is not None,
        ).role

    def _handlers(self) -> dict[str, HandlerFunction]:
        layer = lambda_.LayerVersion.from_layer_version_arn(
            self, "Powertools", self.config.powertools_layer
        )
        control = ControlEnv(
            table=self.table.table_name,
            topic_arn=self.topic.topic_arn,
            watchdog_period_seconds=self.config.watchdog.period_seconds,
            heartbeat_seconds=self.config.watchdog.heartbeat_seconds,
            runbook_url=self.config.runbook_url,
            prices_usd=self.config.prices_usd,
        )
        environment = {
            "EVERSTEP_CONTROL": self.to_json_string(control.model_dump()),
            "POWERTOOLS_SERVICE_NAME": "everstep",
            "POWERTOOLS_LOG_LEVEL": self.config.lambdas.log_level,
        }
        code, things = bundle(), self._things()
        functions: dict[str, HandlerFunction] = {}
        for handler in HANDLERS:
            function = HandlerFunction(
                self,
                handler,
                env_name=self.env_name,
                config=self.config,
                code=code,
                layer=layer,
                environment=environment,
                key=self.key,
            )
            function.allow(statements(handler, things))
            functions[handler] = function
        return functions

    def _arn(self, service: str, resource: str, name: str) -> str:
        return self.format_arn(
            service=service,
            resource=resource,
            resource_name=name,
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )

    def _things(self) -> Things:
        """ARNs of ``stacks.grants``' words. Machines by name: a reference would be a cycle."""
        machines = [names.machine_name(self.env_name, team) for team in self.team_names]
        group = self._arn("logs", "log-group", JOB_LOGS)
        arns = {
            "any": ["*"],
            "table": [self.table.table_arn],
            "active_index": [f"{self.table.table_arn}/index/{ACTIVE_INDEX}"],
            "topic": [self.topic.topic_arn],
            "machines": [self._arn("states", "stateMachine", name) for name in machines],
            "executions": [self._arn("states", "execution", f"{name}:*") for name in machines],
            "jobs": [
                self.format_arn(service="sagemaker", resource="training-job", resource_name="*")
            ],
            "job_roles": [role.role_arn for role in self.job_roles.values()],
            "job_logs": [group, f"{group}:*"],
            "control_key": [self.key.key_arn],
            "data_key": [self.storage.key.key_arn],
        }
        for word, bucket in (
            ("data", self.storage.data),
            ("checkpoint", self.storage.checkpoints),
            ("output", self.storage.output),
        ):
            arns[f"{word}_bucket"] = [bucket.bucket_arn]
            arns[f"{word}_objects"] = [bucket.arn_for_objects(f"{t}/*") for t in self.team_names]
        to_sagemaker = {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}
        return Things(arns, conditions={"job_roles": to_sagemaker})

    def _machine(self, team: str) -> TeamMachine:
        subnets: dict[str, list[str]] = {}
        for subnet in self.network.training_subnets:
            subnets.setdefault(subnet.availability_zone, []).append(subnet.subnet_id)
        file_system = self.storage.file_system
        literals = Team(
            name=team,
            job_role_arn=self.job_roles[team].role_arn,
            data_uri=f"s3://{self.storage.data.bucket_name}/{team}",
            checkpoint_uri=f"s3://{self.storage.checkpoints.bucket_name}/{team}",
            output_uri=f"s3://{self.storage.output.bucket_name}/{team}",
            image_repository=self.images.registry,
            subnets=subnets,
            security_groups=[self.network.training.security_group_id],
            kms_key_arn=self.storage.key.key_arn,
            file_system_id=file_system.id if file_system else None,
            file_system_path=file_system.path(team) if file_system else None,
        )
        return TeamMachine(
            self,
            f"Machine{names.construct_id(team)}",
            machine_name=names.machine_name(self.env_name, team),
            team=literals,
            aliases={handler: self.handlers[handler].alias for handler in STATE_HANDLERS},
            config=self.config,
            key=self.key,
        )

    def _events_and_alarms(self) -> None:
        watchdog = self.handlers["watchdog"]
        minutes = self.config.watchdog.schedule_minutes
        WatchdogClock(self, "WatchdogClock", minutes=minutes, alias=watchdog.alias)
        machines = {team: built.machine for team, built in self.machines.items()}
        queues = {
            "JobEvents": QueuedEvents(
                self,
                "JobEvents",
                pattern=JOB_ENDED,
                key=self.key,
                alias=self.handlers["on_job_event"].alias,
            ),
            "ExecutionEvents": QueuedEvents(
                self,
                "ExecutionEvents",
                key=self.key,
                pattern=execution_ended([m.state_machine_arn for m in machines.values()]),
                alias=self.handlers["on_execution_event"].alias,
            ),
        }
        ControlAlarms(
            self,
            "Alarms",
            topic=self.topic,
            machines=machines,
            dead_queues={word: queue.dead for word, queue in queues.items()},
            watchdog=watchdog.function,
            watchdog_minutes=minutes,
        )
