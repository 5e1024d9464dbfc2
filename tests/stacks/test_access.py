"""What people's roles may do, by evaluating the synthesised policies as IAM does."""

import json
from typing import Any, NamedTuple

import pytest

from emulator.access import evaluate, statements_of
from stacks.proof.resolved import Template, load, place_of

from .conftest import Synthesised

ACCOUNT, REGION = "444455556666", "us-east-1"
ROLES = {
    "administrator": "everstep-prod-person-administrator",
    "researcher": "everstep-prod-person-researcher",
    "viewer": "everstep-prod-person-viewer",
    "job": "everstep-prod-research-job",
    "data-prep": "everstep-prod-research-data",
}


class Identity(NamedTuple):
    policies: list[dict[str, Any]]
    boundary: list[dict[str, Any]]


def _arn(service: str, rest: str, region: str = REGION) -> str:
    return f"arn:aws:{service}:{region}:{ACCOUNT}:{rest}"


class Iam:
    """Identity policies and boundaries of a set of resolved templates."""

    def __init__(self, templates: dict[str, Template]) -> None:
        self._resources = {
            (stack, name): resource
            for stack, template in templates.items()
            for name, resource in template["Resources"].items()
        }
        self.buckets = {
            word: next(
                f"arn:aws:s3:::{name.lower()}"
                for (_, name), resource in self._resources.items()
                if resource["Type"] == "AWS::S3::Bucket" and name.startswith(start)
            )
            for word, start in (
                ("data", "DataBucket"), ("checkpoints", "Checkpoint"), ("output", "OutputBucket"),
            )
        }  # fmt: skip
        self.keys = {
            word: _arn("kms", f"key/{name}")
            for (_, name), resource in self._resources.items()
            if resource["Type"] == "AWS::KMS::Key"
            for word in ("control", "data")
            if name.lower().startswith(word)
        }
        self.bucket_policies = {
            word: resource["Properties"]["PolicyDocument"]
            for word, bucket in self.buckets.items()
            for resource in self._of("AWS::S3::BucketPolicy")
            if bucket in json.dumps(resource["Properties"]["PolicyDocument"])
        }
        self.table = next(
            _arn("dynamodb", f"table/{name}")
            for (_, name), resource in self._resources.items()
            if resource["Type"] == "AWS::DynamoDB::Table"
        )

        self.subnet, self.group = (
            _arn("ec2", f"{kind}/{prefix}-{name}")
            for kind, prefix, start in (
                ("subnet", "subnet", "VpcTraining"), ("security-group", "sg", "TrainingGroup"),
            )
            for name in [
                next(n for (_, n), r in self._resources.items() if n.startswith(start)
                     and r["Type"] in ("AWS::EC2::Subnet", "AWS::EC2::SecurityGroup"))
            ]
        )  # fmt: skip

    def identity(self, role: str) -> Identity:
        properties = self.role(role)
        inline = [
            resource["Properties"]["PolicyDocument"]
            for resource in self._of("AWS::IAM::Policy")
            if role in resource["Properties"].get("Roles", [])
        ]
        bounds = [
            resource["Properties"]["PolicyDocument"]
            for resource in self._of("AWS::IAM::ManagedPolicy")
            if properties["PermissionsBoundary"].endswith(
                "/" + resource["Properties"]["ManagedPolicyName"]
            )
        ]
        assert inline
        assert len(bounds) == 1
        return Identity(inline, bounds)

    def role(self, name: str) -> dict[str, Any]:
        return next(
            dict(r["Properties"])
            for r in self._of("AWS::IAM::Role")
            if r["Properties"].get("RoleName") == name
        )

    def _of(self, kind: str) -> list[dict[str, Any]]:
        return [r for r in self._resources.values() if r["Type"] == kind]


@pytest.fixture(scope="module")
def iam(prod: Synthesised) -> Iam:
    return Iam(load(prod.folder, place_of(prod.folder)))


@pytest.fixture(scope="module")
def opened(more: Synthesised) -> Iam:
    """Where config lets one team look into its containers."""
    return Iam(load(more.folder, place_of(more.folder)))


def may(
    identity: Identity, action: str, resource: str, team: str | None = "research", **keys: str
) -> bool:
    """Both the policies and the boundary have to allow it."""
    context = dict(keys)
    if team:
        context["aws:PrincipalTag/team"] = team

    def allowed(documents: list[dict[str, Any]]) -> bool:
        # A variable without a value matches nothing, as in IAM.
        text = json.dumps(documents).replace("${aws:PrincipalTag/team}", team or "\\u0000none")
        text = text.replace("${aws:userid}", keys.get("aws:userid", "\\u0000none"))
        return evaluate(statements_of(json.loads(text)), action, resource, context).allowed

    return allowed(identity.policies) and allowed(identity.boundary)


MACHINE = _arn("states", "stateMachine:everstep-prod-{team}")
RUN = _arn("states", "execution:everstep-prod-{team}:run-1")
JOB = _arn("sagemaker", "training-job/run-1-00001")
OBJECT = "{bucket}/{team}/x"
JOB_ROLE = _arn("iam", "role/everstep-prod-research-job", "")
CDK_ROLE = _arn("iam", f"role/cdk-hnb659fds-deploy-role-{ACCOUNT}-{REGION}", "")
LOGS = _arn("logs", "log-group:/aws/sagemaker/TrainingJobs:*")
PERSON = _arn("iam", "role/everstep-prod-person-researcher", "")
FUNCTION = _arn("lambda", "function:everstep-prod-LaunchAttempt")
REPOSITORY = _arn("ecr", "repository/everstep-prod/trainer")
INTERFACE = _arn("ec2", "network-interface/eni-0123456789abcdef0")
BUILD = _arn("codebuild", "project/everstep-prod-trainer")

CASES: list[tuple[str, str, str, dict[str, str], bool]] = [
    # who, action, resource, condition keys, allowed
    ("researcher", "states:StartExecution", MACHINE, {"tag": "research"}, True),
    ("researcher", "states:StartExecution", MACHINE, {"of": "applied", "tag": "applied"}, False),
    ("researcher", "states:StartExecution", MACHINE, {"tag": "applied"}, False),
    ("researcher", "states:StartExecution", MACHINE, {}, False),
    ("researcher", "states:DescribeExecution", RUN, {}, True),
    ("researcher", "states:DescribeStateMachineForExecution", RUN, {}, True),
    ("researcher", "states:StopExecution", RUN, {}, True),
    ("researcher", "states:RedriveExecution", RUN, {}, True),
    ("researcher", "states:StopExecution", RUN, {"of": "applied"}, False),
    ("researcher", "states:GetExecutionHistory", RUN, {"of": "applied"}, False),
    ("researcher", "states:UpdateStateMachine", MACHINE, {"tag": "research"}, False),
    ("researcher", "logs:GetLogEvents", LOGS, {}, True),
    ("researcher", "logs:DeleteLogGroup", LOGS, {}, False),
    ("researcher", "sagemaker:DescribeTrainingJob", JOB, {"tag": "research"}, True),
    ("researcher", "sagemaker:DescribeTrainingJob", JOB, {"tag": "applied"}, False),
    ("researcher", "sagemaker:CreateTrainingJob", JOB, {}, False),
    ("researcher", "iam:PassRole", JOB_ROLE, {}, False),
    ("researcher", "sts:AssumeRole", CDK_ROLE, {}, False),
    ("researcher", "cloudformation:DescribeStacks", "{stack}", {}, True),
    ("researcher", "cloudformation:UpdateStack", "{stack}", {}, False),
    ("researcher", "s3:GetObject", OBJECT, {"in": "checkpoints"}, True),
    ("researcher", "s3:GetObject", OBJECT, {"in": "data", "of": "applied"}, False),
    ("researcher", "s3:GetObject", OBJECT, {"in": "output", "of": "applied"}, False),
    ("researcher", "s3:DeleteObject", OBJECT, {"in": "checkpoints"}, False),
    ("researcher", "s3:ListBucket", "{bucket}", {"in": "data", "prefix": "research/x"}, True),
    ("researcher", "s3:ListBucket", "{bucket}", {"in": "data", "prefix": "applied/"}, False),
    ("researcher", "s3:ListBucket", "{bucket}", {"in": "data"}, False),
    ("researcher", "dynamodb:GetItem", "{table}", {}, True),
    ("researcher", "dynamodb:UpdateItem", "{table}", {}, False),
    ("researcher", "kms:Decrypt", "{data_key}", {}, True),
    ("researcher", "kms:ScheduleKeyDeletion", "{data_key}", {}, False),
    ("nobody's researcher", "states:StopExecution", RUN, {}, False),
    ("nobody's researcher", "s3:GetObject", OBJECT, {"in": "data"}, False),
    ("viewer", "states:DescribeExecution", RUN, {"of": "applied"}, True),
    ("viewer", "states:StartExecution", MACHINE, {"tag": "research"}, False),
    ("viewer", "states:StopExecution", RUN, {}, False),
    ("viewer", "s3:GetObject", OBJECT, {"in": "data"}, False),
    ("viewer", "kms:Decrypt", "{data_key}", {}, False),
    ("viewer", "logs:FilterLogEvents", LOGS, {}, True),
    ("viewer", "cloudwatch:GetMetricData", "*", {}, True),
    ("administrator", "sts:AssumeRole", CDK_ROLE, {}, True),
    ("administrator", "sts:AssumeRole", _arn("iam", "role/billing", ""), {}, False),
    ("administrator", "states:StopExecution", RUN, {"of": "applied"}, True),
    ("administrator", "sagemaker:StopTrainingJob", JOB, {"run": "prod-research"}, True),
    ("administrator", "sagemaker:StopTrainingJob", JOB, {"run": "dev-research"}, False),
    ("administrator", "sagemaker:StopTrainingJob", JOB, {}, False),
    ("administrator", "s3:GetObject", OBJECT, {"in": "data"}, False),
    ("administrator", "iam:PassRole", JOB_ROLE, {}, False),
    ("administrator", "iam:CreateUser", _arn("iam", "user/x", ""), {}, False),
    ("administrator", "states:StartExecution", MACHINE, {"tag": "research"}, False),
    ("job", "s3:GetObject", OBJECT, {"in": "data"}, True),
    ("job", "s3:PutObject", OBJECT, {"in": "data"}, False),
    ("job", "s3:PutObject", OBJECT, {"in": "checkpoints"}, True),
    ("job", "s3:PutObject", OBJECT, {"in": "checkpoints", "of": "applied"}, False),
    ("job", "s3:DeleteObjectVersion", OBJECT, {"in": "checkpoints"}, False),
    ("job", "s3:ListBucket", "{bucket}", {"in": "data", "prefix": "applied/x"}, False),
    ("job", "dynamodb:GetItem", "{table}", {}, False),
    ("job", "kms:Decrypt", "{control_key}", {}, False),
    ("job", "states:StartExecution", MACHINE, {"tag": "research"}, False),
    ("job", "cloudwatch:PutMetricData", "*", {"namespace": "/aws/sagemaker/TrainingJobs"}, True),
    ("job", "cloudwatch:PutMetricData", "*", {"namespace": "Billing"}, False),
    ("data-prep", "s3:PutObject", OBJECT, {"in": "data"}, True),
    ("data-prep", "s3:PutObject", OBJECT, {"in": "data", "of": "applied"}, False),
    ("data-prep", "s3:GetObject", OBJECT, {"in": "checkpoints"}, False),
    ("data-prep", "s3:PutObject", OBJECT, {"in": "output"}, False),
    ("data-prep", "sagemaker:CreateTrainingJob", JOB, {}, False),
    # What every job needs: "CreateTrainingJob API: Execution Role Permissions", with a VPC and a
    # key, in SageMaker's guide, 2026-11.
    *(("job", f"s3:{action}", OBJECT, {"in": bucket}, True)
      for bucket in ("checkpoints", "output")
      for action in ("GetObject", "PutObject", "DeleteObject", "AbortMultipartUpload")),
    *(("job", "s3:ListBucket", "{bucket}", {"in": bucket, "prefix": "research/x"}, True)
      for bucket in ("data", "checkpoints", "output")),
    ("job", "ecr:GetAuthorizationToken", "*", {}, True),
    *(("job", f"ecr:{action}", REPOSITORY, {}, True)
      for action in ("BatchCheckLayerAvailability", "BatchGetImage", "GetDownloadUrlForLayer")),
    ("job", "ecr:BatchGetImage", _arn("ecr", "repository/others"), {}, False),
    *(("job", f"logs:{action}", LOGS, {}, True)
      for action in ("CreateLogGroup", "DescribeLogStreams", "CreateLogStream", "PutLogEvents")),
    *(("job", f"ec2:{action}", "*", {}, True)
      for action in ("DescribeDhcpOptions", "DescribeNetworkInterfaces", "DescribeSecurityGroups",
                     "DescribeSubnets", "DescribeVpcs")),
    *(("job", f"ec2:{action}", INTERFACE, {}, True)
      for action in ("CreateNetworkInterface", "CreateNetworkInterfacePermission",
                     "DeleteNetworkInterface", "DeleteNetworkInterfacePermission")),
    ("job", "ec2:CreateNetworkInterface", "{subnet}", {}, True),
    ("job", "ec2:CreateNetworkInterface", "{group}", {}, True),
    *(("job", f"kms:{action}", "{data_key}", {}, True)
      for action in ("Decrypt", "GenerateDataKey", "DescribeKey")),
    ("job", "fsx:DescribeFileSystems", "*", {}, True),
    # Attacks: a team whose name begins with ours.
    ("researcher", "states:StartExecution", MACHINE, {"of": "x", "tag": "research"}, False),
    ("researcher", "states:StopExecution", RUN, {"of": "research-2"}, False),
    ("researcher", "s3:GetObject", OBJECT, {"in": "output", "of": "research-2"}, False),
    ("researcher", "s3:ListBucket", "{bucket}", {"in": "data", "prefix": "research"}, False),
    ("researcher", "s3:ListBucket", "{bucket}", {"in": "data", "prefix": "research-2/"}, False),
    ("researcher", "s3:ListBucket", "{bucket}", {"in": "data", "prefix": ""}, False),
    ("researcher", "s3:ListBucketVersions", "{bucket}", {"prefix": "research/"}, False),
    ("job", "s3:ListBucket", "{bucket}", {"in": "output", "prefix": "research"}, False),
    ("job", "s3:ListBucket", "{bucket}", {"in": "output", "prefix": "research/run"}, True),
    ("job", "s3:GetObject", OBJECT, {"in": "checkpoints", "of": "research-2"}, False),
    ("data-prep", "s3:ListBucket", "{bucket}", {"in": "data", "prefix": "research"}, False),
    ("data-prep", "s3:DeleteObject", OBJECT, {"in": "data", "of": "research-2"}, False),
    # Tags that someone puts on oneself, or on what is guarded by them.
    ("researcher", "iam:TagRole", PERSON, {}, False),
    ("researcher", "sts:TagSession", PERSON, {}, False),
    ("researcher", "states:TagResource", MACHINE, {"of": "applied", "tag": "research"}, False),
    ("researcher", "sagemaker:AddTags", JOB, {"tag": "research"}, False),
    ("job", "sagemaker:AddTags", JOB, {"tag": "research"}, False),
    # Other people's code, roles and tokens.
    ("researcher", "lambda:UpdateFunctionCode", FUNCTION, {}, False),
    ("researcher", "lambda:InvokeFunction", FUNCTION, {}, False),
    ("researcher", "states:SendTaskSuccess", MACHINE, {"tag": "research"}, False),
    ("researcher", "states:StartSyncExecution", MACHINE, {"tag": "research"}, False),
    ("researcher", "sagemaker:StopTrainingJob", JOB, {"tag": "research"}, False),
    ("researcher", "sagemaker:UpdateTrainingJob", JOB, {"tag": "research"}, False),
    ("researcher", "codebuild:StartBuild", BUILD, {}, False),
    ("researcher", "ecr:PutImage", _arn("ecr", "repository/everstep-prod/trainer"), {}, False),
    ("researcher", "events:PutRule", _arn("events", "rule/x"), {}, False),
    ("researcher", "sqs:SendMessage", "*", {}, False),
    ("researcher", "kms:CreateGrant", "{data_key}", {}, False),
    ("researcher", "dynamodb:Scan", "{table}", {}, False),
    ("researcher", "s3:PutObject", OBJECT, {"in": "data"}, False),
    ("viewer", "states:RedriveExecution", RUN, {}, False),
    ("viewer", "dynamodb:PutItem", "{table}", {}, False),
    ("viewer", "sts:AssumeRole", CDK_ROLE, {}, False),
    ("administrator", "sts:AssumeRole", JOB_ROLE, {}, False),
    ("administrator", "sagemaker:CreateTrainingJob", JOB, {}, False),
    ("administrator", "lambda:UpdateFunctionCode", FUNCTION, {}, False),
    ("administrator", "states:UpdateStateMachine", MACHINE, {"tag": "research"}, False),
    ("administrator", "kms:PutKeyPolicy", "{data_key}", {}, False),
    ("administrator", "kms:Decrypt", "{data_key}", {}, False),
    ("administrator", "iam:DeleteRolePermissionsBoundary", JOB_ROLE, {}, False),
    ("job", "sts:AssumeRole", _arn("iam", "role/everstep-prod-applied-job", ""), {}, False),
    ("job", "iam:PassRole", JOB_ROLE, {}, False),
    ("job", "sagemaker:StopTrainingJob", JOB, {"tag": "research"}, False),
    ("job", "states:SendTaskSuccess", MACHINE, {"tag": "research"}, False),
    ("job", "kms:CreateGrant", "{data_key}", {}, False),
    ("job", "kms:CreateGrant", "{data_key}", {"grant": "true"}, True),
    ("job", "logs:PutLogEvents", _arn("logs", "log-group:/aws/lambda/x:log-stream:y"), {}, False),
    ("job", "ec2:CreateNetworkInterface", _arn("ec2", "subnet/subnet-of-others"), {}, False),
    ("job", "ecr:PutImage", _arn("ecr", "repository/everstep-prod/trainer"), {}, False),
    ("job", "fsx:DeleteFileSystem", _arn("fsx", "file-system/fs-1"), {}, False),
    ("job", "s3:PutBucketPolicy", "{bucket}", {}, False),
    ("data-prep", "s3:DeleteObjectVersion", OBJECT, {"in": "data"}, False),
    ("data-prep", "kms:CreateGrant", "{data_key}", {"grant": "true"}, False),
    ("data-prep", "ecr:PutImage", _arn("ecr", "repository/everstep-prod/trainer"), {}, False),
]  # fmt: skip


@pytest.mark.parametrize(("who", "action", "resource", "about", "allowed"), CASES)
def test_case(
    iam: Iam, who: str, action: str, resource: str, about: dict[str, str], allowed: bool
) -> None:
    untagged = who.startswith("nobody's")
    persona = who.removeprefix("nobody's ")
    bucket = iam.buckets[about.get("in", "data")]
    name = resource.format(
        team=about.get("of", "research"),
        bucket=bucket,
        table=iam.table,
        data_key=iam.keys["data"],
        control_key=iam.keys["control"],
        subnet=iam.subnet,
        group=iam.group,
        stack=_arn("cloudformation", "stack/everstep-prod-control-plane/1"),
    )
    keys = {
        "aws:ResourceTag/everstep:team": about.get("tag"),
        "s3:prefix": about.get("prefix"),
        "cloudwatch:namespace": about.get("namespace"),
        "kms:GrantIsForAWSResource": about.get("grant"),
        "aws:ResourceTag/everstep:execution": _arn("states", f"execution:everstep-{about['run']}:x")
        if "run" in about
        else None,
    }
    team = None if untagged or persona != "researcher" else "research"
    identity = iam.identity(ROLES[persona])
    given = {key: value for key, value in keys.items() if value is not None}
    assert may(identity, action, name, team, **given) is allowed


def test_a_policy_added_later_gives_no_more_than_the_boundary(iam: Iam) -> None:
    everything = {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    for persona, name in ROLES.items():
        identity = iam.identity(name)
        widened = Identity([*identity.policies, everything], identity.boundary)
        for action in ("iam:CreateUser", "iam:PassRole", "s3:DeleteBucket", "kms:PutKeyPolicy"):
            assert not may(widened, action, "*", None), (persona, action)


@pytest.mark.parametrize(
    ("own", "passed", "allowed"),
    [
        ("research", {"team": "research"}, True),
        ("applied", {"team": "applied"}, True),
        ("research", {"team": "applied"}, False),
        ("research", {}, False),
        ("research", {"team": "research", "admin": "true"}, False),
        ("research", {"everstep:team": "applied"}, False),
        ("sales", {"team": "sales"}, False),
        ("*", {"team": "*"}, False),
        ("research*", {"team": "research*"}, False),
        (None, {"team": "research"}, False),
        (None, {"team": ""}, False),
        (None, {}, False),
    ],
)
def test_a_person_takes_the_role_for_the_own_team_alone(
    iam: Iam, own: str | None, passed: dict[str, str], allowed: bool
) -> None:
    """The role's trust policy, evaluated for what a caller may put on the session."""
    text = json.dumps(iam.role(ROLES["researcher"])["AssumeRolePolicyDocument"]["Statement"])
    # A variable without a value matches nothing, as in IAM.
    text = text.replace("${aws:PrincipalTag/team}", own or "\\u0000none")
    statements = [{**one, "Resource": "*"} for one in json.loads(text)]
    keys: dict[str, str | list[str]] = {f"aws:RequestTag/{k}": v for k, v in passed.items()}
    keys |= {"aws:TagKeys": list(passed)} if passed else {}
    assert evaluate(statements, "sts:AssumeRole", "*", keys).allowed is allowed


@pytest.mark.parametrize("keys", [{"aws:SecureTransport": "false"}, {"s3:TlsVersion": "1.1"}])
def test_a_bucket_denies_who_may_where_the_way_is_not_safe(iam: Iam, keys: dict[str, str]) -> None:
    """Identity and resource policy together: a deny wins."""
    for word, policies in iam.bucket_policies.items():
        name = f"{iam.buckets[word]}/research/x"
        for role in ("job", "researcher"):
            identity = iam.identity(ROLES[role])
            both = Identity([*identity.policies, policies], identity.boundary)
            safe = {"aws:SecureTransport": "true", "s3:TlsVersion": "1.3"}
            assert may(both, "s3:GetObject", name, **safe)
            assert not may(both, "s3:GetObject", name, **(safe | keys))


def test_there_are_forty_cases_and_both_answers_for_each_persona() -> None:
    assert len(CASES) >= 40
    for persona in ROLES:
        assert {case[-1] for case in CASES if case[0] == persona} == {True, False}


SESSION = _arn("ssm", "session/me-0123")
TARGET, OWNER = (
    "ssm:resourceTag/aws:ssmmessages:target-id",
    "ssm:resourceTag/aws:ssmmessages:session-id",
)
CHANNEL = "ssmmessages:OpenDataChannel"


def _target(job: str) -> dict[str, str]:
    return {TARGET: f"sagemaker-training-job:{job}_algo-1"}


def test_without_the_switch_nobody_looks_into_a_container(iam: Iam) -> None:
    for persona, name in ROLES.items():
        given = _target("research--run-00001")
        assert not may(iam.identity(name), "ssm:StartSession", "*", **given), persona
    assert not may(iam.identity(ROLES["job"]), CHANNEL, "*", None)


@pytest.mark.parametrize(
    ("who", "action", "resource", "keys", "allowed"),
    [
        ("researcher", "ssm:StartSession", "*", _target("research--run-00001"), True),
        ("researcher", "ssm:StartSession", "*", _target("research-run-00001"), False),
        ("researcher", "ssm:StartSession", "*", _target("research-2--run-00001"), False),
        ("researcher", "ssm:StartSession", "*", _target("applied--run-00001"), False),
        ("researcher", "ssm:StartSession", _arn("ec2", "instance/i-1"), {}, False),
        ("researcher", "ssm:SendCommand", "*", _target("research--run-00001"), False),
        (
            "researcher",
            "ssm:TerminateSession",
            SESSION,
            {"aws:userid": "A:me", OWNER: "A:me"},
            True,
        ),
        ("researcher", "ssm:TerminateSession", SESSION, {"aws:userid": "A:me", OWNER: "B"}, False),
        ("viewer", "ssm:StartSession", "*", _target("research--run-00001"), False),
        ("administrator", "ssm:StartSession", "*", _target("research--run-00001"), False),
        ("job", CHANNEL, "*", {}, True),
        ("job", "ssm:StartSession", "*", _target("research--run-00001"), False),
    ],
)
def test_with_the_switch_researchers_look_into_their_own_teams_jobs_only(
    opened: Iam, who: str, action: str, resource: str, keys: dict[str, str], allowed: bool
) -> None:
    team = "research" if who == "researcher" else None
    assert may(opened.identity(ROLES[who]), action, resource, team, **keys) is allowed


def test_a_team_without_the_switch_has_no_channel(opened: Iam) -> None:
    assert not may(opened.identity("everstep-prod-applied-job"), CHANNEL, "*", None)
