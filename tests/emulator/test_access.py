"""The evaluator of identity policies, and what calls need."""

from pathlib import Path
from typing import Any

import pytest

from emulator.access import UnknownCondition, evaluate
from emulator.access_needs import needs_of
from emulator.access_report import unused_grants

JOB = "arn:aws:sagemaker:us-east-1:123456789012:training-job/run-00001"
ROLE = "arn:aws:iam::123456789012:role/job"


def allow(action: Any, resource: Any = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


def test_nothing_is_allowed_by_itself() -> None:
    verdict = evaluate([], "s3:GetObject", "arn:aws:s3:::b/k", {})
    assert not verdict.allowed
    assert verdict.reason == "no statement allows it"


def test_a_deny_wins_wherever_it_stands() -> None:
    statements = [allow("s3:*"), {"Effect": "Deny", "Action": "s3:Delete*", "Resource": "*"}]
    assert evaluate(statements, "s3:GetObject", "arn:aws:s3:::b/k", {}).allowed
    assert evaluate(statements, "s3:DeleteObject", "arn:aws:s3:::b/k", {}) == (False, 1)


@pytest.mark.parametrize(
    ("pattern", "resource", "expected"),
    [
        ("arn:aws:s3:::b/team/*", "arn:aws:s3:::b/team/x/y", True),
        ("arn:aws:s3:::b/team/*", "arn:aws:s3:::b/other/x", False),
        ("arn:aws:s3:::b", "arn:aws:s3:::b/k", False),
        ("arn:aws:s3:::b?", "arn:aws:s3:::b1", True),
    ],
)
def test_resources_have_wildcards(pattern: str, resource: str, expected: bool) -> None:
    assert evaluate([allow("s3:*", pattern)], "s3:GetObject", resource, {}).allowed is expected


def test_actions_ignore_case_and_not_action_is_the_rest() -> None:
    assert evaluate([allow("S3:getobject")], "s3:GetObject", "x", {}).allowed
    rest = {"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}
    assert evaluate([rest], "s3:GetObject", "x", {}).allowed
    assert not evaluate([rest], "iam:PassRole", "x", {}).allowed


def test_passing_a_role_is_limited_by_the_service() -> None:
    condition = {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}
    statements = [allow("iam:PassRole", ROLE, Condition=condition)]
    to = {"iam:PassedToService": "sagemaker.amazonaws.com"}
    assert evaluate(statements, "iam:PassRole", ROLE, to).allowed
    to = {"iam:PassedToService": "ec2.amazonaws.com"}
    assert not evaluate(statements, "iam:PassRole", ROLE, to).allowed
    assert not evaluate(statements, "iam:PassRole", ROLE, {}).allowed


@pytest.mark.parametrize(
    ("condition", "context", "expected"),
    [
        ({"StringLike": {"s3:prefix": ["team/*", "team"]}}, {"s3:prefix": "team/a"}, True),
        ({"StringLike": {"s3:prefix": ["team/*", "team"]}}, {"s3:prefix": "other"}, False),
        ({"StringNotEquals": {"aws:RequestTag/k": "v"}}, {}, True),
        ({"StringEqualsIfExists": {"aws:RequestTag/k": "v"}}, {}, True),
        ({"Null": {"aws:RequestTag/k": "true"}}, {}, True),
        ({"Null": {"aws:RequestTag/k": "false"}}, {}, False),
        ({"Bool": {"aws:SecureTransport": "true"}}, {"aws:SecureTransport": "True"}, True),
        ({"NumericLessThan": {"x": "5"}}, {"x": "4"}, True),
        ({"ForAllValues:StringEquals": {"aws:TagKeys": ["a", "b"]}}, {"aws:TagKeys": ["a"]}, True),
        ({"ForAllValues:StringEquals": {"aws:TagKeys": ["a"]}}, {"aws:TagKeys": ["a", "c"]}, False),
        ({"ForAnyValue:StringEquals": {"aws:TagKeys": ["c"]}}, {"aws:TagKeys": ["a", "c"]}, True),
        ({"ArnLike": {"aws:SourceArn": "arn:aws:sns:*:*:t"}}, {"aws:SourceArn": ROLE}, False),
    ],
)
def test_conditions(condition: Any, context: Any, expected: bool) -> None:
    verdict = evaluate([allow("a:B", Condition=condition)], "a:B", "x", context)
    assert verdict.allowed is expected


def test_an_operator_that_is_not_known_is_said() -> None:
    statements = [allow("a:B", Condition={"DateGreaterThan": {"aws:CurrentTime": "2020"}})]
    with pytest.raises(UnknownCondition):
        evaluate(statements, "a:B", "x", {})


def test_creating_a_job_needs_tags_and_role_too() -> None:
    params = {
        "TrainingJobName": "run-00001",
        "RoleArn": ROLE,
        "Tags": [{"Key": "everstep:run", "Value": "run"}],
    }
    needs = needs_of("sagemaker", "CreateTrainingJob", params)
    assert [(need.action, need.resource) for need in needs] == [
        ("sagemaker:CreateTrainingJob", JOB),
        ("sagemaker:AddTags", JOB),
        ("iam:PassRole", ROLE),
    ]
    assert needs[0].context["aws:RequestTag/everstep:run"] == "run"


@pytest.mark.parametrize(
    ("service", "operation", "params", "expected"),
    [
        ("s3", "HeadObject", {"Bucket": "b", "Key": "k"}, ("s3:GetObject", "arn:aws:s3:::b/k")),
        (
            "s3",
            "ListObjectsV2",
            {"Bucket": "b", "Prefix": "p"},
            ("s3:ListBucket", "arn:aws:s3:::b"),
        ),
        ("s3", "HeadBucket", {"Bucket": "b"}, ("s3:ListBucket", "arn:aws:s3:::b")),
        (
            "s3",
            "DeleteObjects",
            {"Bucket": "b", "Delete": {"Objects": [{"Key": "k"}]}},
            ("s3:DeleteObject", "arn:aws:s3:::b/k"),
        ),
        (
            "dynamodb",
            "Query",
            {"TableName": "runs", "IndexName": "active"},
            (
                "dynamodb:Query",
                "arn:aws:dynamodb:us-east-1:123456789012:table/runs/index/active",
            ),
        ),
        (
            "logs",
            "FilterLogEvents",
            {"logGroupName": "/g"},
            (
                "logs:FilterLogEvents",
                "arn:aws:logs:us-east-1:123456789012:log-group:/g:log-stream:",
            ),
        ),
        ("service-quotas", "ListServiceQuotas", {}, ("servicequotas:ListServiceQuotas", "*")),
    ],
)
def test_needs(service: str, operation: str, params: Any, expected: tuple[str, str]) -> None:
    (need,) = needs_of(service, operation, params)
    assert (need.action, need.resource) == expected


def test_a_log_group_grant_without_streams_is_not_enough() -> None:
    group = "arn:aws:logs:us-east-1:123456789012:log-group:/g"
    (need,) = needs_of("logs", "FilterLogEvents", {"logGroupName": "/g"})
    assert not evaluate([allow("logs:*", group)], need.action, need.resource, {}).allowed
    assert evaluate([allow("logs:*", group + ":*")], need.action, need.resource, {}).allowed


def test_unused_grants_are_found_by_action() -> None:
    statements = [allow(["s3:GetObject", "s3:PutObject"], "arn:aws:s3:::b/*"), allow("xray:Put*")]
    needs = [{"action": "s3:GetObject", "resource": "arn:aws:s3:::b/k", "context": {}}]
    assert unused_grants(statements, needs) == [
        {"actions": ["s3:PutObject"], "resource": "arn:aws:s3:::b/*"}
    ]


def test_the_evaluator_is_pure() -> None:
    import emulator.access

    source = Path(emulator.access.__file__).read_text()
    assert "moto" not in source
    assert "boto" not in source
