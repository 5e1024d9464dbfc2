"""Which permissions an AWS call needs: actions and resources from its parameters."""

from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any, NamedTuple

from emulator.access import Context
from emulator.names import ACCOUNT, arn

Params = dict[str, Any]


class Need(NamedTuple):
    """One permission. A resource of None could not be derived."""

    action: str
    resource: str | None
    context: Context = MappingProxyType({})


PREFIXES = {
    "stepfunctions": "states",
    "service-quotas": "servicequotas",
    "resourcegroupstaggingapi": "tag",
}
_FREE = {("sts", "GetCallerIdentity")}


def needs_of(service: str, operation: str, params: Params) -> list[Need]:
    """What the caller's role must allow, dependent actions included."""
    if (service, operation) in _FREE:
        return []
    derive = _SERVICES.get(service)
    if derive:
        return list(derive(operation, params))
    return [Need(f"{PREFIXES.get(service, service)}:{operation}", None)]


# S3 ---------------------------------------------------------------------------------------

_S3_ACTIONS = {
    "ListObjectsV2": "ListBucket",
    "ListObjects": "ListBucket",
    "HeadBucket": "ListBucket",
    "ListObjectVersions": "ListBucketVersions",
    "HeadObject": "GetObject",
    "GetObjectAttributes": "GetObject",
    "CreateMultipartUpload": "PutObject",
    "UploadPart": "PutObject",
    "CompleteMultipartUpload": "PutObject",
    "ListParts": "ListMultipartUploadParts",
    "ListMultipartUploads": "ListBucketMultipartUploads",
    "ListBuckets": "ListAllMyBuckets",
}


def _s3(operation: str, params: Params) -> Iterator[Need]:
    bucket, key = params.get("Bucket"), params.get("Key")
    action = f"s3:{_S3_ACTIONS.get(operation, operation)}"
    if bucket is None:
        yield Need(action, "*")
        return
    base = f"arn:aws:s3:::{bucket}"
    if operation == "DeleteObjects":
        for item in params.get("Delete", {}).get("Objects", []):
            yield Need("s3:DeleteObject", f"{base}/{item['Key']}")
        return
    if operation == "CopyObject":
        source = params["CopySource"]
        if isinstance(source, dict):
            source = f"{source['Bucket']}/{source['Key']}"
        yield Need("s3:GetObject", f"arn:aws:s3:::{source.lstrip('/')}")
        action = "s3:PutObject"
    context = {"s3:prefix": params.get("Prefix", "")} if action == "s3:ListBucket" else {}
    yield Need(action, f"{base}/{key}" if key is not None else base, context)


# DynamoDB ---------------------------------------------------------------------------------


def _dynamodb(operation: str, params: Params) -> Iterator[Need]:
    if operation in ("TransactWriteItems", "TransactGetItems"):
        for item in params["TransactItems"]:
            for kind, request in item.items():
                action = {"Get": "GetItem", "Put": "PutItem", "Update": "UpdateItem"}.get(
                    kind, "DeleteItem" if kind == "Delete" else "ConditionCheckItem"
                )
                yield Need(f"dynamodb:{action}", _table(request["TableName"]))
    elif operation in ("BatchGetItem", "BatchWriteItem"):
        for name in params["RequestItems"]:
            yield Need(f"dynamodb:{operation}", _table(name))
    elif "TableName" in params:
        index = params.get("IndexName")
        suffix = f"/index/{index}" if index else ""
        yield Need(f"dynamodb:{operation}", _table(params["TableName"]) + suffix)
    else:
        yield Need(f"dynamodb:{operation}", "*")


def _table(name: str) -> str:
    return name if name.startswith("arn:") else arn("dynamodb", f"table/{name}")


# SageMaker --------------------------------------------------------------------------------

_ROLES = {"CreateTrainingJob": "RoleArn", "CreateModel": "ExecutionRoleArn"}


def _sagemaker(operation: str, params: Params) -> Iterator[Need]:
    tags = {f"aws:RequestTag/{tag['Key']}": tag["Value"] for tag in params.get("Tags", [])}
    context: dict[str, str | list[str]] = {**tags}
    if tags:
        context["aws:TagKeys"] = [tag["Key"] for tag in params["Tags"]]
    resource: str | None = "*"
    if "TrainingJobName" in params:
        resource = arn("sagemaker", f"training-job/{params['TrainingJobName']}")
    elif "ModelPackageGroupName" in params:
        resource = arn("sagemaker", f"model-package-group/{params['ModelPackageGroupName']}")
    elif "ResourceArn" in params:
        resource = params["ResourceArn"]
    elif "TrainingPlanName" in params:
        plan = str(params["TrainingPlanName"])
        resource = plan if plan.startswith("arn:") else arn("sagemaker", f"training-plan/{plan}")
    elif not operation.startswith(("List", "Search")):
        resource = None
    yield Need(f"sagemaker:{operation}", resource, context)
    if operation.startswith("Create") and tags:
        yield Need("sagemaker:AddTags", resource, context)
    if operation == "CreateModelPackage" and "ModelPackageGroupName" in params:
        # The number of the new version is not known yet.
        version = arn("sagemaker", f"model-package/{params['ModelPackageGroupName']}/1")
        yield Need("sagemaker:CreateModelPackage", version, context)
    plan = params.get("ResourceConfig", {}).get("TrainingPlanArn")
    if plan:
        yield Need(f"sagemaker:{operation}", plan)
        reserved = arn("sagemaker", f"reserved-capacity/{plan.rpartition('/')[2]}-1")
        yield Need(f"sagemaker:{operation}", reserved)
    role = params.get(_ROLES.get(operation, ""))
    if role:
        passed = {"iam:PassedToService": "sagemaker.amazonaws.com"}
        yield Need("iam:PassRole", role, passed)


# Others -----------------------------------------------------------------------------------


def _states(operation: str, params: Params) -> Iterator[Need]:
    # A token names no machine; the caller of this module puts it in (see AccessLog).
    resource = params.get("stateMachineArn") or params.get("executionArn")
    yield Need(f"states:{operation}", resource or params.get("resourceArn"))


def _logs(operation: str, params: Params) -> Iterator[Need]:
    name = params.get("logGroupName") or params.get("logGroupIdentifier")
    if name is None:
        yield Need(f"logs:{operation}", "*")
        return
    base = name if name.startswith("arn:") else arn("logs", f"log-group:{name}")
    # IAM asks for the streams of a group, so a grant must end in ``:*``.
    stream = params.get("logStreamName", "")
    yield Need(f"logs:{operation}", f"{base}:log-stream:{stream}")


def _sqs(operation: str, params: Params) -> Iterator[Need]:
    url = params.get("QueueUrl", "")
    resource = arn("sqs", url.rpartition("/")[2]) if url else "*"
    action = operation.removesuffix("Batch")
    yield Need(f"sqs:{action}", resource)


def _sns(operation: str, params: Params) -> Iterator[Need]:
    action = operation.removesuffix("Batch")
    yield Need(f"sns:{action}", params.get("TopicArn") or params.get("TargetArn") or "*")


def _lambda(operation: str, params: Params) -> Iterator[Need]:
    action = "InvokeFunction" if operation == "Invoke" else operation
    name = params.get("FunctionName")
    if name and not name.startswith("arn:"):
        name = arn("lambda", f"function:{name}")
    qualifier = params.get("Qualifier")
    yield Need(f"lambda:{action}", f"{name}:{qualifier}" if name and qualifier else name or "*")


def _cloudwatch(operation: str, params: Params) -> Iterator[Need]:
    context = {"cloudwatch:namespace": params["Namespace"]} if "Namespace" in params else {}
    yield Need(f"cloudwatch:{operation}", "*", context)


def _quotas(operation: str, params: Params) -> Iterator[Need]:
    code = params.get("QuotaCode")
    listing = operation.startswith("List") or not code
    resource = "*" if listing else arn("servicequotas", f"{params.get('ServiceCode')}/{code}")
    yield Need(f"servicequotas:{operation}", resource)


def _kms(operation: str, params: Params) -> Iterator[Need]:
    key = params.get("KeyId", "")
    yield Need(f"kms:{operation}", key if key.startswith("arn:") else arn("kms", f"key/{key}"))


def _ecr(operation: str, params: Params) -> Iterator[Need]:
    name = params.get("repositoryName")
    yield Need(f"ecr:{operation}", arn("ecr", f"repository/{name}") if name else "*")


def _codebuild(operation: str, params: Params) -> Iterator[Need]:
    names = [params["projectName"]] if "projectName" in params else []
    # A build's id starts with its project's name, and IAM asks for the project.
    names += sorted({build.partition(":")[0] for build in params.get("ids", [])})
    for name in names or [None]:
        resource = arn("codebuild", f"project/{name}") if name else "*"
        yield Need(f"codebuild:{operation}", resource)


def _fsx(operation: str, params: Params) -> Iterator[Need]:
    if operation == "CreateFileSystem":
        # Its id is not known yet. The dependent actions are those of FSx's service authorization.
        made = arn("fsx", "file-system/fs-0")
        tags = {f"aws:RequestTag/{tag['Key']}": tag["Value"] for tag in params.get("Tags", [])}
        yield Need("fsx:CreateFileSystem", made, tags)
        if tags:
            yield Need("fsx:TagResource", made, tags)
        yield Need("ec2:GetSecurityGroupsForVpc", arn("ec2", "vpc/vpc-0"))
        return
    system = params.get("FileSystemId")
    yield Need(f"fsx:{operation}", arn("fsx", f"file-system/{system}") if system else "*")
    if operation == "CreateDataRepositoryAssociation":
        yield Need("fsx:CreateDataRepositoryAssociation", arn("fsx", "association/dra-0"))
        service = "s3.data-source.lustre.fsx.amazonaws.com"
        role = f"aws-service-role/{service}/AWSServiceRoleForFSxS3Access_{system}"
        role = f"arn:aws:iam::{ACCOUNT}:role/{role}"
        yield Need("iam:CreateServiceLinkedRole", role, {"iam:AWSServiceName": service})
        for action in ("AttachRolePolicy", "PutRolePolicy"):
            yield Need(f"iam:{action}", role)


def _secrets(operation: str, params: Params) -> Iterator[Need]:
    yield Need(f"secretsmanager:{operation}", params.get("SecretId"))


def _ssm(operation: str, params: Params) -> Iterator[Need]:
    name = params.get("Name")
    yield Need(f"ssm:{operation}", arn("ssm", f"parameter/{name.lstrip('/')}") if name else None)


_SERVICES: dict[str, Callable[[str, Params], Iterator[Need]]] = {
    "s3": _s3,
    "dynamodb": _dynamodb,
    "sagemaker": _sagemaker,
    "stepfunctions": _states,
    "logs": _logs,
    "sqs": _sqs,
    "sns": _sns,
    "lambda": _lambda,
    "cloudwatch": _cloudwatch,
    "service-quotas": _quotas,
    "kms": _kms,
    "ecr": _ecr,
    "codebuild": _codebuild,
    "fsx": _fsx,
    "secretsmanager": _secrets,
    "ssm": _ssm,
}

KEY_USES = {
    "s3:GetObject": ["kms:Decrypt"],
    "s3:PutObject": ["kms:GenerateDataKey"],
    "sns:Publish": ["kms:GenerateDataKey", "kms:Decrypt"],
    "sqs:SendMessage": ["kms:GenerateDataKey", "kms:Decrypt"],
    "sqs:ReceiveMessage": ["kms:Decrypt"],
    "dynamodb:GetItem": ["kms:Decrypt"],
    "dynamodb:Query": ["kms:Decrypt"],
    "dynamodb:PutItem": ["kms:Decrypt"],
    "dynamodb:UpdateItem": ["kms:Decrypt"],
}
"""What the use of a customer key adds, by the action on the encrypted thing."""
