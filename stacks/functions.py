"""One Lambda function a handler folder, and the bundle they share."""

from collections.abc import Iterable, Mapping

from aws_cdk import Duration, IgnoreMode, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from everstep.contracts.names import HANDLER_ALIAS, construct_id, function_name
from stacks.config import ROOT, Config
from stacks.network import logs_retention

BUNDLED = (
    "/everstep/__init__.py",
    "/everstep/contracts",
    "/everstep/policy",
    "/everstep/report",
    "/lambdas",
)
NOT_BUNDLED = [
    "/*",
    "!/everstep",
    "/everstep/*",
    *(f"!{path}" for path in BUNDLED),
    "__pycache__",
    "*.pyc",
    "*.md",
    "tests",
    ".*",
]
"""As in a .gitignore. Everything is left out but what handlers import."""

TIMEOUTS = {
    "watchdog": Duration.seconds(60),
    "quota_report": Duration.seconds(60),
    "write_report": Duration.minutes(5),
}
"""A report reads every step line of a run: a million of them in a month."""
TIMEOUT = Duration.seconds(30)
MEMORY_MIB = 512
MEMORIES_MIB = {"write_report": 1024}
ALIAS = HANDLER_ALIAS


def bundle() -> lambda_.Code:
    """Built without Docker: third-party code comes with the Powertools layer."""
    return lambda_.Code.from_asset(str(ROOT), exclude=NOT_BUNDLED, ignore_mode=IgnoreMode.GIT)


class HandlerFunction(Construct):
    """``lambdas/check_quota/handler.py`` as a function with a role, a log group and an alias."""

    def __init__(
        self,
        scope: Construct,
        handler: str,
        *,
        env_name: str,
        config: Config,
        code: lambda_.Code,
        layer: lambda_.ILayerVersion,
        environment: Mapping[str, str],
        key: kms.IKey,
    ) -> None:
        super().__init__(scope, construct_id(handler))
        name = function_name(env_name, handler)
        self.handler = handler
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"Everstep handler {handler}",
        )
        log_group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/lambda/{name}",
            retention=logs_retention(config.log_retention_days),
            encryption_key=key,
            removal_policy=RemovalPolicy.RETAIN if config.retain else RemovalPolicy.DESTROY,
        )
        log_group.grant_write(self.role)
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=name,
            description=f"Everstep {construct_id(handler)}: lambdas/{handler}",
            runtime=lambda_.Runtime.PYTHON_3_12,
            architecture=lambda_.Architecture.X86_64,
            code=code,
            handler=f"lambdas.{handler}.handler.handler",
            layers=[layer],
            role=self.role,
            log_group=log_group,
            environment=dict(environment),
            environment_encryption=key,
            timeout=TIMEOUTS.get(handler, TIMEOUT),
            memory_size=MEMORIES_MIB.get(handler, MEMORY_MIB),
            tracing=lambda_.Tracing.ACTIVE,
        )
        self.alias = lambda_.Alias(
            self, "Alias", alias_name=ALIAS, version=self.function.current_version
        )

    def allow(self, statements: Iterable[iam.PolicyStatement]) -> None:
        for statement in statements:
            self.role.add_to_policy(statement)
