"""Roles for people, and for data preparation, behind permission boundaries."""

from collections.abc import Mapping
from typing import Any, cast

from aws_cdk import ArnFormat, CfnOutput, Duration, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from everstep.contracts import names
from stacks.config import Config
from stacks.control_plane import ControlPlaneStack
from stacks.job_role import JOB_LOGS
from stacks.personas import (
    ADMINISTER,
    LOOK,
    PREPARE,
    RESEARCH,
    SESSION_TEAM,
    SHELL,
    TAG,
    Grant,
    actions,
)

SESSION = Duration.hours(8)
PROCESSING_LOGS = "/aws/sagemaker/ProcessingJobs"
PEOPLE = {"administrator": ADMINISTER, "researcher": RESEARCH, "viewer": LOOK}


class AccessStack(Stack):
    """Nothing else depends on it: who has roles from elsewhere need not deploy it."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        env_name: str,
        config: Config,
        control_plane: ControlPlaneStack,
        **kwargs: object,
    ) -> None:
        super().__init__(scope, name, **kwargs)  # type: ignore[arg-type]
        self.env_name, self.config = env_name, config
        self._control_plane = control_plane
        self._teams = [team.name for team in config.teams]
        shell = SHELL if any(team.remote_debug for team in config.teams) else ()
        tables = {**PEOPLE, "researcher": (*RESEARCH, *shell)}
        people = self._boundary("PeopleBoundary", "people", *tables.values())
        for persona, table in tables.items():
            role = iam.Role(
                self,
                persona.capitalize(),
                role_name=names.persona_role_name(env_name, persona),
                description=f"Everstep {env_name}: {persona}",
                assumed_by=iam.AccountRootPrincipal(),
                max_session_duration=SESSION,
                permissions_boundary=people,
            )
            # One statement for all: CDK writes one a principal, and IAM takes 2,048 characters.
            made = cast(iam.CfnRole, role.node.default_child)
            made.assume_role_policy_document = self._person(tagged=persona == "researcher")
            self._grant(role, table, SESSION_TEAM)
            CfnOutput(self, f"{persona.capitalize()}RoleArn", value=role.role_arn)
        boundary = self._boundary("DataBoundary", "data", PREPARE)
        for team in self._teams:
            role = iam.Role(
                self,
                f"DataRole{names.construct_id(team)}",
                role_name=names.data_role_name(env_name, team),
                description=f"Data preparation of team {team}",
                assumed_by=iam.ServicePrincipal(
                    "sagemaker.amazonaws.com",
                    conditions={"StringEquals": {"aws:SourceAccount": self.account}},
                ),
                permissions_boundary=boundary,
            )
            self._grant(role, PREPARE, team)

    def _boundary(self, name: str, word: str, *tables: tuple[Grant, ...]) -> iam.ManagedPolicy:
        """Gives nothing; a policy that someone adds later can give no more than this."""
        return iam.ManagedPolicy(
            self,
            name,
            managed_policy_name=names.boundary_name(self.env_name, word),
            description="Upper bound of what Everstep's roles may do; gives nothing by itself",
            statements=[
                iam.PolicyStatement(sid="AtMost", actions=actions(*tables), resources=["*"])
            ],
        )

    def _person(self, *, tagged: bool) -> iam.PolicyDocument:
        """Whoever config names, else the account's own identities that IAM lets assume the role."""
        named: list[iam.IPrincipal] = [
            iam.ArnPrincipal(arn) for arn in self.config.access.principals
        ] or [iam.AccountRootPrincipal()]
        return iam.PolicyDocument(
            statements=[
                iam.PolicyStatement(
                    actions=["sts:AssumeRole", *(["sts:TagSession"] if tagged else [])],
                    principals=named,
                    conditions=self._own_team() if tagged else None,
                )
            ]
        )

    def _own_team(self) -> dict[str, Any]:
        """Only the caller's own team, as its identity is tagged, and no other tag."""
        return {
            "StringEquals": {f"aws:RequestTag/{TAG}": f"${{aws:PrincipalTag/{TAG}}}"},
            "StringLike": {f"aws:RequestTag/{TAG}": self._teams},
            "ForAllValues:StringEquals": {"aws:TagKeys": [TAG]},
        }

    def _grant(self, role: iam.Role, table: tuple[Grant, ...], team: str) -> None:
        things = self._things(team)
        for grant in table:
            condition = cast(dict[str, Any], self._filled(grant.condition, team))
            role.add_to_policy(
                iam.PolicyStatement(
                    sid=grant.sid,
                    actions=list(grant.actions),
                    resources=[arn for thing in grant.things for arn in things[thing]],
                    conditions=condition,
                )
            )

    def _things(self, team: str) -> Mapping[str, list[str]]:
        plane, env = self._control_plane, self.env_name
        storage, images = plane.storage, plane.images

        def arn(service: str, resource: str, name: str) -> str:
            return self.format_arn(
                service=service,
                resource=resource,
                resource_name=name,
                arn_format=ArnFormat.COLON_RESOURCE_NAME,
            )

        def slashed(service: str, resource: str, name: str, region: str | None = None) -> str:
            return self.format_arn(
                service=service, resource=resource, resource_name=name, region=region
            )

        buckets = {
            "data": storage.data, "checkpoint": storage.checkpoints, "output": storage.output,
        }  # fmt: skip
        job_logs = arn("logs", "log-group", JOB_LOGS)
        own = names.machine_name(env, team)
        return {
            "any": ["*"],
            "stacks": [slashed("cloudformation", "stack", f"{names.stack_name(env, '*')}/*")],
            "table": [plane.table.table.table_arn],
            "active_index": [plane.table.active_index_arn],
            "control_key": plane.table.key_arns,
            "data_key": [storage.key.key_arn],
            "machines": [arn("states", "stateMachine", self._machine(t)) for t in self._teams],
            "executions": [
                arn("states", "execution", f"{self._machine(t)}:*") for t in self._teams
            ],
            "own_machine": [arn("states", "stateMachine", own)],
            "own_executions": [arn("states", "execution", f"{own}:*")],
            "jobs": [slashed("sagemaker", "training-job", "*")],
            "sessions": [slashed("ssm", "session", "*")],
            "job_logs": [job_logs, f"{job_logs}:*"],
            "handler_logs": [arn("logs", "log-group", f"/aws/lambda/everstep-{env}-*")],
            "alarms": [arn("cloudwatch", "alarm", "*")],
            "dashboards": [slashed("cloudwatch", "dashboard", f"everstep-{env}-*", region="")],
            "bootstrap_roles": [
                slashed("iam", "role", f"cdk-hnb659fds-*-{self.account}-{self.region}", region="")
            ],
            "queues": [queue.queue_arn for queue in plane.queues],
            "repositories": [r.repository_arn for r in images.repositories],
            "processing_logs": [f"{arn('logs', 'log-group', PROCESSING_LOGS)}:*"],
            **{f"{word}_bucket": [bucket.bucket_arn] for word, bucket in buckets.items()},
            **{
                f"own_{word}_objects": [bucket.arn_for_objects(f"{team}/*")]
                for word, bucket in buckets.items()
            },
        }

    def _machine(self, team: str) -> str:
        return names.machine_name(self.env_name, team)

    def _filled(self, value: Any, team: str) -> Any:
        """``{team}`` and ``{env}`` put in, wherever they are in a condition."""
        if isinstance(value, str):
            return value.replace("{team}", team).replace("{env}", self.env_name)
        if isinstance(value, Mapping):
            return {key: self._filled(one, team) for key, one in value.items()}
        if isinstance(value, list):
            return [self._filled(one, team) for one in value]
        return value
