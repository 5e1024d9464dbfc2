"""All handlers of states and rules, with what ``stacks.grants`` allows each."""

from collections.abc import Mapping, Sequence

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from constructs import Construct

from everstep.contracts.addresses import addresses_held
from everstep.contracts.env import ControlEnv
from everstep.contracts.names import (
    handler_folder,
    machine_name,
    metrics_namespace,
    model_group_name,
)
from everstep.contracts.payloads import HANDLER_STATES, RULE_HANDLERS
from stacks.config import Config
from stacks.fsx_things import fsx_arns, fsx_conditions
from stacks.functions import HandlerFunction, bundle
from stacks.grants import Things, statements
from stacks.images import ImagesStack
from stacks.job_role import JOB_LOGS
from stacks.runs_table import RunsTable
from stacks.storage import StorageStack

STATE_HANDLERS = tuple(handler_folder(state) for state in HANDLER_STATES)


class Handlers(Construct):
    """``Handlers/CheckQuota`` is the function of the state ``CheckQuota``."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        env_name: str,
        config: Config,
        key: kms.IKey,
        table: RunsTable,
        topic: sns.ITopic,
        storage: StorageStack,
        images: ImagesStack,
        job_roles: Mapping[str, iam.IRole],
    ) -> None:
        super().__init__(scope, name)
        stack = Stack.of(self)
        layer = lambda_.LayerVersion.from_layer_version_arn(
            self, "Powertools", config.powertools_layer
        )
        control = ControlEnv(
            table=table.table.table_name,
            topic_arn=topic.topic_arn,
            metrics_namespace=metrics_namespace(env_name),
            watchdog_period_seconds=config.watchdog.period_seconds,
            heartbeat_seconds=config.watchdog.heartbeat_seconds,
            looks_at_once=config.watchdog.looks_at_once,
            continue_after_turns=config.continue_after_turns,
            critical_findings=config.images.critical_findings,
            runbook_url=config.runbook_url,
            prices_usd=config.prices_usd,
            rules=config.rules,
            run_file_systems=config.run_file_systems,
            subnet_addresses=addresses_held(config.network.training_mask),
            adopters={
                role: self._machine_arn(machine_name(env_name, team.name))
                for team in config.teams
                for role in team.adopt_job_roles
            },
        )
        environment = {
            "EVERSTEP_CONTROL": stack.to_json_string(
                control.model_dump(mode="json", by_alias=True, exclude_defaults=True)
            ),
            "POWERTOOLS_SERVICE_NAME": "everstep",
            "POWERTOOLS_LOG_LEVEL": config.lambdas.log_level,
        }
        machines = {team.name: machine_name(env_name, team.name) for team in config.teams}
        things = self._things(
            config,
            machines,
            [model_group_name(env_name, team.name) for team in config.teams],
            table,
            topic,
            storage,
            images,
            job_roles,
        )
        code = bundle()
        self.functions: dict[str, HandlerFunction] = {}
        for handler in (*STATE_HANDLERS, *RULE_HANDLERS):
            built = HandlerFunction(
                self,
                handler,
                env_name=env_name,
                config=config,
                code=code,
                layer=layer,
                environment=environment,
                key=key,
            )
            built.allow(statements(handler, things))
            self.functions[handler] = built

    def alias(self, handler: str) -> lambda_.Alias:
        return self.functions[handler].alias

    def _machine_arn(self, name: str) -> str:
        """By name: a reference would be a cycle."""
        return Stack.of(self).format_arn(
            service="states",
            resource="stateMachine",
            resource_name=name,
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )

    def _things(
        self,
        config: Config,
        machines: Mapping[str, str],
        groups: Sequence[str],
        table: RunsTable,
        topic: sns.ITopic,
        storage: StorageStack,
        images: ImagesStack,
        job_roles: Mapping[str, iam.IRole],
    ) -> Things:
        """ARNs of ``stacks.grants``' words."""
        stack = Stack.of(self)

        def arn(service: str, resource: str, name: str) -> str:
            return stack.format_arn(
                service=service,
                resource=resource,
                resource_name=name,
                arn_format=ArnFormat.COLON_RESOURCE_NAME,
            )

        def sagemaker(kind: str, name: str) -> str:
            return stack.format_arn(service="sagemaker", resource=kind, resource_name=name)

        group = arn("logs", "log-group", JOB_LOGS)
        system = storage.file_system.id if storage.file_system else None
        jobs = stack.format_arn(service="sagemaker", resource="training-job", resource_name="*")
        arns = {
            "quotas": ["*"],
            "sagemaker_quotas": [
                stack.format_arn(service="servicequotas", resource="sagemaker", resource_name="*")
            ],
            "quota_role": [
                stack.format_arn(
                    service="iam",
                    region="",
                    resource="role",
                    resource_name="aws-service-role/servicequotas.amazonaws.com/"
                    "AWSServiceRoleForServiceQuotas",
                )
            ],
            "search": ["*"],
            "metrics": ["*"],
            "table": [table.table.table_arn],
            "active_index": [table.active_index_arn],
            "topic": [topic.topic_arn],
            "machines": [self._machine_arn(name) for name in machines.values()],
            "executions": [arn("states", "execution", f"{name}:*") for name in machines.values()],
            "jobs": [jobs],
            "plans": [sagemaker("training-plan", "*")],
            "reserved": [sagemaker("reserved-capacity", "*")],
            "models": [
                *(sagemaker("model-package-group", name) for name in groups),
                *(sagemaker("model-package", f"{name}/*") for name in groups),
            ],
            "repositories": [r.repository_arn for r in images.repositories],
            "image_projects": [
                stack.format_arn(service="codebuild", resource="project", resource_name=name)
                for name in images.projects
            ],
            "job_roles": [role.role_arn for role in job_roles.values()],
            "adopted_roles": [role for team in config.teams for role in team.adopt_job_roles],
            "job_logs": [group, f"{group}:*"],
            **fsx_arns(stack, system, made_by_runs=config.run_file_systems),
            "control_key": table.key_arns,
            "data_key": [storage.key.key_arn],
        }
        for word, bucket in (
            ("data", storage.data),
            ("checkpoint", storage.checkpoints),
            ("output", storage.output),
        ):
            arns[f"{word}_bucket"] = [bucket.bucket_arn]
            arns[f"{word}_objects"] = [bucket.arn_for_objects(f"{team}/*") for team in machines]
        to_sagemaker = {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}
        for_quotas = {"StringEquals": {"iam:AWSServiceName": "servicequotas.amazonaws.com"}}
        return Things(
            arns,
            conditions={
                "job_roles": to_sagemaker,
                "adopted_roles": to_sagemaker,
                "quota_role": for_quotas,
                **fsx_conditions(table.table.table_name),
            },
        )
