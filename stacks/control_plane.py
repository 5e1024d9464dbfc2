"""Table, handlers, state machines, events and alarms."""

from aws_cdk import CfnOutput, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from everstep import __version__
from everstep.contracts import names
from everstep.contracts.payloads import Team
from stacks.alarms import ControlAlarms
from stacks.config import Config
from stacks.control_key import ControlKey
from stacks.events import (
    JOB_ENDED,
    Daily,
    QueuedEvents,
    WatchdogClock,
    execution_ended,
    run_over,
)
from stacks.handlers import STATE_HANDLERS, Handlers
from stacks.images import ImagesStack
from stacks.job_role import JobRole
from stacks.machine import TeamMachine
from stacks.network import NetworkStack
from stacks.regions import NO_MODEL_GROUPS
from stacks.runs_table import KnownTable, RunsTable
from stacks.storage import StorageStack
from stacks.topic import NoticeTopic


class ControlPlaneStack(Stack):
    """What runs the runs. Components only wire; here, where both ends are seen, they are joined."""

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
        self.remote_debug = {team.name: team.remote_debug for team in config.teams}
        self.adopted_roles = {team.name: team.adopt_job_roles for team in config.teams}
        self.team_names = [team.name for team in config.teams]
        self.key = ControlKey(
            self,
            "ControlKey",
            description=f"{name}: table, topic, queues, logs",
            log_groups=[
                f"/aws/lambda/everstep-{env_name}-*",
                f"/aws/vendedlogs/states/everstep-{env_name}-*",
            ],
            removal=RemovalPolicy.RETAIN if config.retain else RemovalPolicy.DESTROY,
        ).key
        known = config.existing
        self.table = RunsTable(
            self,
            "Runs",
            key=self.key,
            retain=config.retain,
            known=KnownTable(known.table, known.table_key or "") if known.table else None,
        )
        self.topic = NoticeTopic(
            self, "Notices", title=f"Everstep {env_name}", key=self.key, email=config.alarm_email
        ).topic
        jobs = {team: self._job_role(team) for team in self.team_names}
        self.job_roles = {team: job.role for team, job in jobs.items()}
        self._bound(list(jobs.values()))
        self.handlers = Handlers(
            self,
            "Handlers",
            env_name=env_name,
            config=config,
            key=self.key,
            table=self.table,
            topic=self.topic,
            storage=storage,
            images=images,
            job_roles=self.job_roles,
        )
        self.queues: list[sqs.IQueue] = []
        self.machines = {team: self._machine(team) for team in self.team_names}
        self._events_and_alarms()
        self._outputs()

    def _bound(self, jobs: list[JobRole]) -> None:
        """A policy that someone adds to a job role later gives no more than what jobs need."""
        boundary = iam.ManagedPolicy(
            self,
            "JobBoundary",
            managed_policy_name=names.boundary_name(self.env_name, "jobs"),
            description="Upper bound of what training jobs may do; gives nothing by itself",
            statements=[
                iam.PolicyStatement(
                    sid="AtMost",
                    actions=sorted({action for job in jobs for action in job.actions}),
                    resources=["*"],
                )
            ],
        )
        for job in jobs:
            iam.PermissionsBoundary.of(job.role).apply(boundary)

    def _job_role(self, team: str) -> JobRole:
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
            remote_debug=self.remote_debug[team],
            lustre=self.storage.file_system is not None or self.config.run_file_systems,
        )

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
            file_system_checkpoints=file_system.checkpoints(team) if file_system else None,
            lustre_group=self.network.lustre.security_group_id
            if self.config.run_file_systems
            else None,
            file_system_zone=self.config.file_system_zone if file_system else None,
            model_package_group=self._model_group(team),
            remote_debug=self.remote_debug[team],
            adopt_job_roles=self.adopted_roles[team],
            tags=self.config.tags,
        )
        return TeamMachine(
            self,
            f"Machine{names.construct_id(team)}",
            machine_name=names.machine_name(self.env_name, team),
            team=literals,
            aliases={handler: self.handlers.alias(handler) for handler in STATE_HANDLERS},
            config=self.config,
            key=self.key,
        )

    def _model_group(self, team: str) -> str | None:
        """Its name. Handlers know it by name too: what a person approved outlives the stack."""
        if self.config.partition in NO_MODEL_GROUPS:
            return None
        name = names.model_group_name(self.env_name, team)
        group = sagemaker.CfnModelPackageGroup(
            self,
            f"Models{names.construct_id(team)}",
            model_package_group_name=name,
            model_package_group_description=f"Models that runs of team {team} trained",
        )
        group.apply_removal_policy(
            RemovalPolicy.RETAIN if self.config.retain else RemovalPolicy.DESTROY
        )
        return name

    def _events_and_alarms(self) -> None:
        minutes = self.config.watchdog.schedule_minutes
        WatchdogClock(self, "WatchdogClock", minutes=minutes, alias=self.handlers.alias("watchdog"))
        Daily(
            self,
            "QuotaReport",
            description="Everstep quota report",
            alias=self.handlers.alias("quota_report"),
        )
        machines = {team: built.machine for team, built in self.machines.items()}
        arns = [machine.state_machine_arn for machine in machines.values()]
        dead_queues = {}
        for name, handler, pattern in (
            ("JobEvents", "on_job_event", JOB_ENDED),
            ("ExecutionEvents", "on_execution_event", execution_ended(arns)),
            ("ReportEvents", "write_report", run_over(arns)),
        ):
            queued = QueuedEvents(
                self,
                name,
                pattern=pattern,
                alias=self.handlers.alias(handler),
                key=self.key,
                slow=handler == "write_report",
            )
            dead_queues[name] = queued.dead
            self.queues += [queued.queue, queued.dead]
            CfnOutput(self, names.OUTPUT_DEAD_LETTERS + name, value=queued.dead.queue_arn)
            CfnOutput(self, names.OUTPUT_QUEUE + name, value=queued.queue.queue_arn)
        self.alarms = ControlAlarms(
            self,
            "Alarms",
            topic=self.topic,
            machines=machines,
            dead_queues=dead_queues,
            watchdog=self.handlers.functions["watchdog"].function,
            watchdog_minutes=minutes,
            runbook=self.config.runbook_url,
        ).alarms

    def _outputs(self) -> None:
        CfnOutput(self, names.OUTPUT_VERSION, value=__version__)
        CfnOutput(self, names.OUTPUT_TABLE, value=self.table.table.table_name)
        CfnOutput(self, names.OUTPUT_TOPIC, value=self.topic.topic_arn)
        for team, built in self.machines.items():
            CfnOutput(
                self,
                names.OUTPUT_MACHINE + names.construct_id(team),
                value=built.machine.state_machine_arn,
            )
