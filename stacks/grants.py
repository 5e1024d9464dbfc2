"""What each handler may do: one readable table, adjusted here and nowhere else.

A row says which actions on which thing; ``control_plane`` knows the things' ARNs. A thing whose
ARN holds a wildcard is explained in ``stacks.wildcards``. Use of the keys follows from the things:
whoever touches the table or the topic uses the control key, whoever touches objects the data key.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from aws_cdk import aws_iam as iam


class Use(NamedTuple):
    """``actions`` on ``thing``, a key of the resources that the control plane gives."""

    thing: str
    actions: tuple[str, ...]


def _use(thing: str, service: str, *actions: str) -> Use:
    return Use(thing, tuple(f"{service}:{action}" for action in actions))


READ_WRITE = _use("table", "dynamodb", "GetItem", "UpdateItem")
WRITE = _use("table", "dynamodb", "UpdateItem")
READ = _use("table", "dynamodb", "GetItem")
PUT = _use("table", "dynamodb", "PutItem")
QUERY = _use("table", "dynamodb", "Query")
QUERY_ACTIVE = _use("active_index", "dynamodb", "Query")

METRICS = _use("metrics", "cloudwatch", "GetMetricData")
QUOTAS = _use("quotas", "servicequotas", "ListServiceQuotas", "ListAWSDefaultServiceQuotas")
ASK = _use("sagemaker_quotas", "servicequotas", "RequestServiceQuotaIncrease")
ASK_AGAIN = _use("quotas", "servicequotas", "ListRequestedServiceQuotaChangeHistoryByQuota")
"""Which request is open, where AWS says that there is one."""
FIRST_ASK = _use("quota_role", "iam", "CreateServiceLinkedRole")
"""The account's first request makes Service Quotas' own role, in the caller's name."""
FOLLOW = _use("quotas", "servicequotas", "GetRequestedServiceQuotaChange")
SEARCH = _use("search", "sagemaker", "Search", "ListTrainingJobs")
DESCRIBE = _use("jobs", "sagemaker", "DescribeTrainingJob")
TAGS = _use("jobs", "sagemaker", "ListTags")
STOP = _use("jobs", "sagemaker", "StopTrainingJob")
UPDATE = _use("jobs", "sagemaker", "UpdateTrainingJob")
CREATE = _use("jobs", "sagemaker", "CreateTrainingJob", "AddTags", "ListTags")
PLANNED = _use("plans", "sagemaker", "DescribeTrainingPlan")
FROM_PLANS = (
    _use("plans", "sagemaker", "CreateTrainingJob"),
    _use("reserved", "sagemaker", "CreateTrainingJob"),
)
"""SageMaker asks for it on the plan and on its reserved capacity, beside the job."""
PASS_JOB_ROLE = _use("job_roles", "iam", "PassRole")
PASS_ADOPTED_ROLE = _use("adopted_roles", "iam", "PassRole")

IMAGES = _use("repositories", "ecr", "DescribeImages")
BUILDS = _use("image_projects", "codebuild", "ListBuildsForProject", "BatchGetBuilds")

START = _use("machines", "states", "StartExecution")
FINISH_TOKEN = _use("machines", "states", "SendTaskSuccess", "SendTaskFailure")
HEARTBEAT = _use("machines", "states", "SendTaskHeartbeat")
DESCRIBE_EXECUTION = _use("executions", "states", "DescribeExecution")

PROGRESS = _use("job_logs", "logs", "FilterLogEvents")
TAIL = _use("job_logs", "logs", "DescribeLogStreams", "GetLogEvents")
START_TASK = _use("file_system", "fsx", "CreateDataRepositoryTask")
MAKE_LUSTRE = (
    _use("new_file_systems", "fsx", "CreateFileSystem", "TagResource"),
    _use("new_links", "fsx", "CreateDataRepositoryAssociation"),
    _use("file_systems", "fsx", "DescribeFileSystems", "DescribeDataRepositoryAssociations"),
    _use("vpcs", "ec2", "GetSecurityGroupsForVpc"),
    _use("new_link_roles", "iam", "CreateServiceLinkedRole"),
    _use("link_roles", "iam", "AttachRolePolicy", "PutRolePolicy"),
)
"""FSx makes a role for each link, in the caller's name."""
SEE_LUSTRE = _use("file_systems", "fsx", "DescribeFileSystems")
DELETE_LUSTRE = _use("run_file_systems", "fsx", "DeleteFileSystem")
SEE_TASKS = _use("data_tasks", "fsx", "DescribeDataRepositoryTasks")
MODELS = _use("models", "sagemaker", "CreateModelPackage", "ListModelPackages")
TELL = _use("topic", "sns", "Publish")
WRITE_REPORT = _use("output_objects", "s3", "PutObject")


def _read(bucket: str) -> tuple[Use, Use]:
    """Listing has no condition on the prefix: with one, S3 answers 403, not 404, for an object that
    does not exist, and "no failure file" would look like a broken role."""
    return Use(f"{bucket}_bucket", ("s3:ListBucket",)), Use(f"{bucket}_objects", ("s3:GetObject",))


GRANTS: Mapping[str, tuple[Use, ...]] = {
    "validate_spec": (
        READ_WRITE,
        PUT,
        QUERY,
        DESCRIBE_EXECUTION,
        DESCRIBE,
        TAGS,
        *_read("data"),
        *_read("output"),
        *_read("checkpoint"),
    ),
    "check_quota": (READ_WRITE, QUOTAS, SEARCH, ASK, ASK_AGAIN, FIRST_ASK),
    "wait_for_room": (READ_WRITE, TELL),
    "plan_attempt": (
        WRITE,
        PUT,
        QUERY,
        QUOTAS,
        SEARCH,
        PLANNED,
        IMAGES,
        BUILDS,
        *_read("checkpoint"),
    ),
    "prepare_storage": (READ_WRITE, START_TASK, SEE_TASKS, *MAKE_LUSTRE),
    "release_storage": (READ_WRITE, START_TASK, SEE_TASKS),
    "launch_attempt": (
        WRITE,
        QUERY,
        CREATE,
        *FROM_PLANS,
        PASS_JOB_ROLE,
        PASS_ADOPTED_ROLE,
        DESCRIBE,
        FINISH_TOKEN,
    ),
    "inspect_attempt": (WRITE, QUERY, DESCRIBE, TAGS, STOP, FINISH_TOKEN, PROGRESS, TELL),
    "classify": (WRITE, QUERY, DESCRIBE, TAGS, TAIL, *_read("output"), *_read("checkpoint")),
    "decide": (READ_WRITE, QUERY, UPDATE, TELL),
    "verify_outcome": (WRITE, PUT, QUERY, *_read("checkpoint"), *_read("output")),
    "export_model": (READ_WRITE, CREATE, PASS_JOB_ROLE, DESCRIBE, FINISH_TOKEN),
    "verify_export": (READ_WRITE, PUT, QUERY, DESCRIBE, TAGS, TAIL, TELL, *_read("output")),
    # SageMaker reads the export's objects with the caller's own permission.
    "register_model": (READ_WRITE, DESCRIBE, MODELS, *_read("output")),
    "finish": (WRITE, QUERY, UPDATE, TELL, DELETE_LUSTRE),
    "give_up": (WRITE, QUERY, UPDATE, TELL, DELETE_LUSTRE),
    "continue_as_new": (READ_WRITE, QUERY, START),
    "on_job_event": (READ_WRITE, DESCRIBE, TAGS, FINISH_TOKEN, START, TELL),
    "on_execution_event": (READ_WRITE, QUERY, DESCRIBE, TAGS, DESCRIBE_EXECUTION, STOP, TELL),
    "watchdog": (
        READ_WRITE,
        QUERY_ACTIVE,
        DESCRIBE,
        TAGS,
        STOP,
        PROGRESS,
        FINISH_TOKEN,
        HEARTBEAT,
        DESCRIBE_EXECUTION,
        METRICS,
        QUOTAS,
        FOLLOW,
        SEARCH,
        IMAGES,
        BUILDS,
        TELL,
        SEE_LUSTRE,
        DELETE_LUSTRE,
    ),
    "quota_report": (READ, QUERY_ACTIVE, QUOTAS, SEARCH, TELL),
    "write_report": (QUERY, PROGRESS, WRITE_REPORT),
}

KEY_ACTIONS = ("kms:Decrypt", "kms:GenerateDataKey", "kms:DescribeKey")
CONTROL_KEY_THINGS = {"table", "active_index", "topic"}
DATA_KEY_THINGS = {"data_objects", "checkpoint_objects", "output_objects"}


class Things(NamedTuple):
    """ARNs by word, and conditions for the words that need one."""

    arns: Mapping[str, list[str]]
    conditions: Mapping[str, dict[str, Any]]


def statements(handler: str, things: Things) -> Iterable[iam.PolicyStatement]:
    """One statement a thing and kind, so that a reviewer reads the policy as the table above."""
    actions: dict[str, list[str]] = {}
    for use in GRANTS[handler]:
        actions.setdefault(use.thing, []).extend(use.actions)
    if CONTROL_KEY_THINGS & actions.keys():
        actions["control_key"] = list(KEY_ACTIONS)
    if DATA_KEY_THINGS & actions.keys():
        writes = "s3:PutObject" in actions.get("output_objects", ())
        actions["data_key"] = ["kms:GenerateDataKey" if writes else "kms:Decrypt"]
    for thing, allowed in actions.items():
        if not things.arns[thing]:
            continue  # config names none
        yield iam.PolicyStatement(
            sid=thing.title().replace("_", ""),
            actions=allowed,
            resources=list(things.arns[thing]),
            conditions=things.conditions.get(thing),
        )
