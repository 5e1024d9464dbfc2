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
