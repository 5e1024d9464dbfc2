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


TEAM = r"(?:[a-z][a-z0-9-]*|[<$]{?aws:PrincipalTag/team[}>])"
"""A team's name, or the session's tag as a template or cdk-nag writes it."""

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
    _w(
        r"\*",
        "Session Manager's channels take no resource; a job role has them only where config turns "
        "remote_debug on",
        "ssmmessages:CreateControlChannel",
        "ssmmessages:CreateDataChannel",
        "ssmmessages:OpenControlChannel",
        "ssmmessages:OpenDataChannel",
    ),
    _w(
        r"\*",
        "a training container is no resource of SSM; a condition keeps it to jobs named after the "
        "session's team",
        "ssm:StartSession",
    ),
    _w(
        r"arn:.*:ssm:.*:session/\*",
        "sessions are named by SSM; a condition keeps it to the caller's own",
        "ssm:ResumeSession",
        "ssm:TerminateSession",
    ),
    _w(
        r"\*",
        "FSx's lists take no resource; SageMaker looks a job's file system up by one",
        "fsx:DescribeFileSystems",
        "fsx:DescribeDataRepositoryAssociations",
        "fsx:DescribeDataRepositoryTasks",
    ),
    _w(
        r"arn:.*:ec2:.*:vpc/\*",
        "FSx looks, in the caller's name, whether the group is of the subnet's VPC",
        "ec2:GetSecurityGroupsForVpc",
    ),
    _w(
        r"arn:.*:fsx:.*:(?:file-system|association)/\*",
        "a run's file system has the id that FSx chooses; its tag, in a condition, names our table",
        "fsx:CreateFileSystem",
        "fsx:TagResource",
        "fsx:CreateDataRepositoryAssociation",
        "fsx:DeleteFileSystem",
    ),
    _w(
        r"arn:.*:role/aws-service-role/s3\.data-source\.lustre\.fsx\.amazonaws\.com/.*\*",
        "FSx makes one service-linked role a file system and names it",
        "iam:CreateServiceLinkedRole",
        "iam:AttachRolePolicy",
        "iam:PutRolePolicy",
    ),
    _w(
        r"arn:.*:fsx:.*:task/\*",
        "a task's id is FSx's to choose; the file system is named",
        "fsx:CreateDataRepositoryTask",
    ),
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
        r"arn:.*:(training-plan|reserved-capacity)/\*",
        "plans are bought after the stack is deployed, under names that their buyers choose",
        "sagemaker:CreateTrainingJob",
        "sagemaker:DescribeTrainingPlan",
    ),
    _w(
        r"arn:.*:model-package/everstep-[a-z0-9]+-[a-z0-9-]+/\*",
        "versions of a team's model package group are numbered by SageMaker",
        "sagemaker:CreateModelPackage",
        "sagemaker:ListModelPackages",
    ),
    _w(
        rf"arn:.*:execution:everstep-[a-z0-9]+-{TEAM}:\*",
        "executions of our machines are named after runs",
        "states:DescribeExecution",
        "states:DescribeStateMachineForExecution",
        "states:GetExecutionHistory",
        "states:RedriveExecution",
        "states:StopExecution",
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
        "logs:StartQuery",
        "logs:GetQueryResults",
    ),
    _w(
        r"arn:.*:log-group:/aws/sagemaker/ProcessingJobs:\*",
        "one group holds the streams of all processing jobs, whose names their owners choose",
        "logs:CreateLogGroup",
        "logs:CreateLogStream",
        "logs:PutLogEvents",
    ),
    _w(
        r"arn:.*:log-group:/aws/lambda/everstep-[a-z0-9]+-\*",
        "the logs of all handlers of this environment, by the names that they share",
        "logs:FilterLogEvents",
        "logs:GetLogEvents",
    ),
    _w(
        r"arn:.*:stack/everstep-[a-z0-9]+-\*/\*",
        "a stack's ARN ends in an id that CloudFormation chooses; only its outputs are read",
        "cloudformation:DescribeStacks",
    ),
    _w(r"arn:.*:alarm:\*", "CloudWatch lists alarms only over all", "cloudwatch:DescribeAlarms"),
    _w(
        r"arn:.*:dashboard/everstep-[a-z0-9]+-\*",
        "the dashboards of this environment, by the names that they share",
        "cloudwatch:GetDashboard",
    ),
    _w(
        r"arn:.*:role/cdk-hnb659fds-\*-\d{12}-[a-z0-9-]+",
        "CDK's own roles of this account and region: they deploy, the administrator does not",
        "sts:AssumeRole",
    ),
    _w(
        r"\*",
        "lists of machines, queries, alarms and dashboards, and figures, take no resource",
        "states:ListStateMachines",
        "logs:DescribeQueryDefinitions",
        "cloudwatch:GetMetricData",
        "cloudwatch:ListDashboards",
    ),
    _w(
        # the second: a bucket that [existing] names
        rf"(?:everstep-[a-z0-9]+-storage:ExportsOutputFnGetAtt\w+|arn:.*:s3:::[a-z0-9.-]+)/{TEAM}/\*",
        "objects below a team's prefix, in one bucket: their names are the team's to choose",
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


ENDPOINTS = {
    "OwnAccount": "whatever an identity of this account may do by its own policies, and nobody "
    "else: an endpoint's policy gives nothing, it bounds",
    "ImageLayers": "layers of images lie in a bucket of ECR's, whose objects no one but ECR names",
}
"""Wildcards of endpoints' policies, by statement."""
