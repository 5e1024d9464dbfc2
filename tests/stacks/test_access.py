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
        self.table = next(
            _arn("dynamodb", f"table/{name}")
            for (_, name), resource in self._resources.items()
            if resource["Type"] == "AWS::DynamoDB::Table"
        )

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
    ("administrator", "sagemaker:StopTrainingJob", JOB, {}, True),
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
        stack=_arn("cloudformation", "stack/everstep-prod-control-plane/1"),
    )
    keys = {
        "aws:ResourceTag/everstep:team": about.get("tag"),
        "s3:prefix": about.get("prefix"),
        "cloudwatch:namespace": about.get("namespace"),
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


def test_a_person_passes_only_the_own_team_as_session_tag(iam: Iam) -> None:
    (statement,) = [
        s
        for s in iam.role(ROLES["researcher"])["AssumeRolePolicyDocument"]["Statement"]
        if "sts:AssumeRole" in s["Action"]
    ]
    conditions = statement["Condition"]
    own = conditions["StringEquals"]["aws:RequestTag/team"]
    assert own == "${aws:PrincipalTag/team}"
    assert conditions["StringLike"]["aws:RequestTag/team"] == ["research", "applied"]
    assert conditions["ForAllValues:StringEquals"]["aws:TagKeys"] == ["team"]


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
