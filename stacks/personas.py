"""What people may do, as a table: administrator, researcher, viewer; and a team's data-prep role.

``{team}`` in a thing's ARN is the session tag ``team`` for researchers (one role serves all teams)
and a name for data preparation (a role each, since SageMaker brings no session tags). A thing is a
key of what ``stacks.access`` knows the ARNs of.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from everstep.contracts.names import SHELL_MARK

TAG = "team"
SESSION_TEAM = "${aws:PrincipalTag/team}"
OWN = {"StringEquals": {"aws:ResourceTag/everstep:team": SESSION_TEAM}}
PREFIX = {"StringLike": {"s3:prefix": ["{team}/*"]}}
"""With the slash: a list of ``a`` would show the keys of a team ``a-b``."""
RUNS_JOB = {"StringLike": {"aws:ResourceTag/everstep:execution": "*:execution:everstep-{env}-*"}}
"""Of a run of this environment, not of another one in the account, and of nobody else's."""


class Grant(NamedTuple):
    """``actions`` on ``things``, where ``condition`` holds."""

    sid: str
    actions: tuple[str, ...]
    things: tuple[str, ...]
    condition: Mapping[str, Any] | None = None


LOOK = (
    Grant("Stacks", ("cloudformation:DescribeStacks",), ("stacks",)),
    Grant("Runs", ("dynamodb:GetItem", "dynamodb:Query"), ("table", "active_index")),
    Grant("RunsKey", ("kms:Decrypt",), ("control_key",)),
    Grant("Machines", ("states:ListStateMachines",), ("any",)),
    Grant("Machine", ("states:DescribeStateMachine", "states:ListExecutions"), ("machines",)),
    Grant(
        "Executions",
        (
            "states:DescribeExecution",
            "states:DescribeStateMachineForExecution",
            "states:GetExecutionHistory",
        ),
        ("executions",),
    ),
    Grant("Jobs", ("sagemaker:DescribeTrainingJob", "sagemaker:ListTags"), ("jobs",)),
    Grant("JobLists", ("sagemaker:ListTrainingJobs", "sagemaker:Search"), ("any",)),
    Grant(
        "JobLogs",
        ("logs:DescribeLogStreams", "logs:FilterLogEvents", "logs:GetLogEvents"),
        ("job_logs",),
    ),
    Grant("Query", ("logs:StartQuery", "logs:GetQueryResults"), ("job_logs",)),
    Grant("Queries", ("logs:DescribeQueryDefinitions",), ("any",)),
    Grant("Metrics", ("cloudwatch:GetMetricData", "cloudwatch:ListDashboards"), ("any",)),
    Grant("Alarms", ("cloudwatch:DescribeAlarms",), ("alarms",)),
    Grant("Dashboards", ("cloudwatch:GetDashboard",), ("dashboards",)),
)
"""Records, logs and figures of every team's runs: no data, no checkpoint."""

RESEARCH = (
    *(grant for grant in LOOK if grant.sid not in ("Machine", "Executions", "Jobs")),
    Grant(
        "OwnMachine",
        ("states:DescribeStateMachine", "states:ListExecutions", "states:StartExecution"),
        ("own_machine",),
        OWN,
    ),
    Grant(
        "OwnExecutions",
        (
            "states:DescribeExecution",
            "states:DescribeStateMachineForExecution",
            "states:GetExecutionHistory",
            "states:RedriveExecution",
            "states:StopExecution",
        ),
        ("own_executions",),
    ),
    Grant("OwnJobs", ("sagemaker:DescribeTrainingJob", "sagemaker:ListTags"), ("jobs",), OWN),
    Grant(
        "OwnObjects",
        ("s3:GetObject",),
        ("own_data_objects", "own_checkpoint_objects", "own_output_objects"),
    ),
    Grant(
        "OwnLists",
        ("s3:ListBucket",),
        ("data_bucket", "checkpoint_bucket", "output_bucket"),
        PREFIX,
    ),
    Grant("DataKey", ("kms:Decrypt",), ("data_key",)),
)

SHELL = (
    Grant(
        "OwnHosts",
        ("ssm:StartSession",),
        ("any",),
        {
            "StringLike": {
                "ssm:resourceTag/aws:ssmmessages:target-id": [
                    f"sagemaker-training-job:{{team}}{SHELL_MARK}*"
                ]
            }
        },
    ),
    Grant(
        "OwnSessions",
        ("ssm:ResumeSession", "ssm:TerminateSession"),
        ("sessions",),
        {"StringLike": {"ssm:resourceTag/aws:ssmmessages:session-id": ["${aws:userid}"]}},
    ),
)
"""For researchers, where a team's config turns ``remote_debug`` on: containers of the own team's
jobs. Session Manager knows a container by its job's name alone, which begins with the team's."""

ADMINISTER = (
    *LOOK,
    Grant("Deploy", ("sts:AssumeRole",), ("bootstrap_roles",)),
    Grant(
        "AnyRun",
        ("states:RedriveExecution", "states:StopExecution"),
        ("executions",),
    ),
    Grant("StopJobs", ("sagemaker:StopTrainingJob",), ("jobs",), RUNS_JOB),
    Grant(
        "DeadLetters",
        (
            "sqs:CancelMessageMoveTask",
            "sqs:GetQueueAttributes",
            "sqs:GetQueueUrl",
            "sqs:ListMessageMoveTasks",
            "sqs:ReceiveMessage",
            "sqs:DeleteMessage",
            "sqs:SendMessage",
            "sqs:StartMessageMoveTask",
        ),
        ("queues",),
    ),
    Grant("QueueKey", ("kms:GenerateDataKey",), ("control_key",)),
    Grant("HandlerLogs", ("logs:FilterLogEvents", "logs:GetLogEvents"), ("handler_logs",)),
)
"""Deploys through CDK's own roles and operates; reads no data, passes no role, starts no run."""

PREPARE = (
    Grant(
        "OwnData",
        ("s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"),
        ("own_data_objects",),
    ),
    Grant("OwnDataList", ("s3:ListBucket",), ("data_bucket",), PREFIX),
    Grant("DataKey", ("kms:Decrypt", "kms:GenerateDataKey"), ("data_key",)),
    Grant("RegistryLogin", ("ecr:GetAuthorizationToken",), ("any",)),
    Grant(
        "Images",
        ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"),
        ("repositories",),
    ),
    Grant("ProcessingLogGroup", ("logs:CreateLogGroup",), ("processing_logs",)),
    Grant("ProcessingLogs", ("logs:CreateLogStream", "logs:PutLogEvents"), ("processing_logs",)),
)
"""A processing job that makes datasets: its team's data and nothing else."""


def actions(*tables: tuple[Grant, ...]) -> list[str]:
    """All that some tables allow: what a boundary lets through."""
    return sorted({action for table in tables for grant in table for action in grant.actions})
