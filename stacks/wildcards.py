"""Every wildcard in a policy of ours, with the reason. A test holds all templates to this list."""

import re
from collections.abc import Iterable
from typing import NamedTuple


class Wildcard(NamedTuple):
    """``resource`` is a regular expression; another stack's bucket is its export's name there."""

    resource: str
    actions: frozenset[str]
    reason: str


def _w(resource: str, reason: str, *actions: str) -> Wildcard:
    return Wildcard(resource, frozenset(actions), reason)


WILDCARDS: tuple[Wildcard, ...] = (
    _w(
        r"\*",
        "X-Ray has no resource-level permission for segments and sampling",
        "xray:PutTraceSegments",
        "xray:PutTelemetryRecords",
        "xray:GetSamplingRules",
        "xray:GetSamplingTargets",
    ),
    _w(
        r"\*",
        "CloudWatch Logs' delivery actions, which Step Functions needs, take no resource",
        "logs:CreateLogDelivery",
        "logs:GetLogDelivery",
        "logs:UpdateLogDelivery",
        "logs:DeleteLogDelivery",
        "logs:ListLogDeliveries",
        "logs:PutResourcePolicy",
        "logs:DescribeResourcePolicies",
        "logs:DescribeLogGroups",
    ),
    _w(
        r"\*",
        "Service Quotas' lists and its requests by id take no resource",
        "servicequotas:ListServiceQuotas",
        "servicequotas:ListAWSDefaultServiceQuotas",
        "servicequotas:ListRequestedServiceQuotaChangeHistoryByQuota",
        "servicequotas:GetRequestedServiceQuotaChange",
    ),
    _w(
        r"\*",
        "SageMaker Search and lists take no resource",
        "sagemaker:Search",
        "sagemaker:ListTrainingJobs",
    ),
    _w(
        r"arn:.*:servicequotas:.*:sagemaker/\*",
        "quotas are known by name; their codes are looked up when one is short",
        "servicequotas:RequestServiceQuotaIncrease",
    ),
    _w(r"\*", "GetMetricData takes no resource", "cloudwatch:GetMetricData"),
    _w(r"\*", "a login to the registry takes no resource", "ecr:GetAuthorizationToken"),
    _w(
        r"\*",
        "PutMetricData takes no resource; a condition keeps it to SageMaker's namespace",
        "cloudwatch:PutMetricData",
    ),
    _w(
        r"\*",
        "EC2's describe actions take no resource",
        "ec2:DescribeDhcpOptions",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeSecurityGroups",
        "ec2:DescribeSubnets",
        "ec2:DescribeVpcs",
    ),
    _w(r"\*", "SageMaker looks the file system up by listing", "fsx:DescribeFileSystems"),
    _w(
        r"arn:.*:network-interface/\*",
        "SageMaker creates the interfaces, so their ids are not known; subnets and group are named",
        "ec2:CreateNetworkInterface",
        "ec2:CreateNetworkInterfacePermission",
        "ec2:DeleteNetworkInterface",
        "ec2:DeleteNetworkInterfacePermission",
    ),
    _w(
        r"arn:.*:training-job/\*",
        "jobs are named after runs, whose ids users choose; SageMaker's names hold no environment",
        "sagemaker:CreateTrainingJob",
        "sagemaker:DescribeTrainingJob",
        "sagemaker:StopTrainingJob",
        "sagemaker:UpdateTrainingJob",
        "sagemaker:AddTags",
        "sagemaker:ListTags",
    ),
    _w(
        r"arn:.*:model-package/everstep-[a-z0-9]+-[a-z0-9-]+/\*",
        "versions of a team's model package group are numbered by SageMaker",
        "sagemaker:CreateModelPackage",
        "sagemaker:ListModelPackages",
    ),
    _w(
        r"arn:.*:execution:everstep-[a-z0-9]+-[a-z0-9-]+:\*",
        "executions of our machines are named after runs",
        "states:DescribeExecution",
    ),
    _w(
        r"arn:.*:log-group:/aws/sagemaker/TrainingJobs:\*",
        "one group holds the streams of all jobs, which are named after runs",
        "logs:CreateLogGroup",
        "logs:CreateLogStream",
        "logs:PutLogEvents",
        "logs:DescribeLogStreams",
        "logs:FilterLogEvents",
        "logs:GetLogEvents",
    ),
    _w(
        r"everstep-[a-z0-9]+-storage:ExportsOutputFnGetAtt\w+/[a-z][a-z0-9-]*/\*",
        "objects below a team's prefix",
        "s3:GetObject",
        "s3:PutObject",
        "s3:DeleteObject",
        "s3:AbortMultipartUpload",
        "s3:ListMultipartUploadParts",
    ),
)


def reason_for(resource: str, actions: Iterable[str]) -> str | None:
    """None where the table does not hold this wildcard for all of these actions."""
    wanted = set(actions)
    for known in WILDCARDS:
        if re.fullmatch(known.resource, resource) and wanted <= known.actions:
            return known.reason
    return None


IAM_LINT = {
    "RESOURCE_MISMATCH states:SendTask": "the service reference has no resource for it, the "
    "service evaluates the machine's ARN (aws-cdk PR 8486 tried it; refusals name the machine): "
    "narrower than the linter asks for",
    "RESOURCE_MISMATCH states:DescribeExecution": "the linter wants the ARNs of express "
    "executions too; ours are standard ones",
    "RESOURCE_MISMATCH ec2:CreateNetworkInterface": "the linter wants every resource type in one "
    "ARN; the statement names all three",
    "UNKNOWN_CONDITION_FOR_ACTION Unknown condition kms:EncryptionContext:aws:logs:arn": "what "
    "CloudWatch Logs' own guide asks for in a key's policy; it covers DescribeKey by not applying",
    "UNKNOWN_CONDITION_FOR_ACTION Unknown condition s3:TlsVersion": "the bucket refuses s3:* below "
    "TLS 1.2, two actions of which do not know the key and are refused over plain HTTP alone",
    "MISMATCHED_TYPE Type mismatch: ArnLike requires a value of type Arn": "the same: an "
    "encryption context is text to the linter, and holds an ARN",
}
"""Findings of the IAM linter that stay, by issue and the start of what it is about."""
