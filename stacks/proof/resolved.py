"""Synthesised templates with every reference put in: the ARNs that a deploy would give.

Names that CloudFormation would make up are the logical ids. For linters and policy evaluation,
which want a whole ARN, and never for a deploy.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

Template = dict[str, Any]


class Place(NamedTuple):
    partition: str
    region: str
    account: str


_NAMES = {
    "AWS::S3::Bucket": "BucketName",
    "AWS::IAM::Role": "RoleName",
    "AWS::IAM::ManagedPolicy": "ManagedPolicyName",
    "AWS::DynamoDB::Table": "TableName",
    "AWS::SNS::Topic": "TopicName",
    "AWS::SQS::Queue": "QueueName",
    "AWS::Lambda::Function": "FunctionName",
    "AWS::StepFunctions::StateMachine": "StateMachineName",
    "AWS::Logs::LogGroup": "LogGroupName",
    "AWS::ECR::Repository": "RepositoryName",
    "AWS::CodeBuild::Project": "Name",
}
_ARNS = {
    "AWS::S3::Bucket": "arn:{p}:s3:::{name}",
    "AWS::IAM::Role": "arn:{p}:iam::{a}:role/{name}",
    "AWS::IAM::ManagedPolicy": "arn:{p}:iam::{a}:policy/{name}",
    "AWS::DynamoDB::Table": "arn:{p}:dynamodb:{r}:{a}:table/{name}",
    "AWS::SNS::Topic": "arn:{p}:sns:{r}:{a}:{name}",
    "AWS::SQS::Queue": "arn:{p}:sqs:{r}:{a}:{name}",
    "AWS::Lambda::Function": "arn:{p}:lambda:{r}:{a}:function:{name}",
    "AWS::Lambda::Version": "arn:{p}:lambda:{r}:{a}:function:{name}:1",
    "AWS::Lambda::Alias": "arn:{p}:lambda:{r}:{a}:function:{name}:live",
    "AWS::StepFunctions::StateMachine": "arn:{p}:states:{r}:{a}:stateMachine:{name}",
    "AWS::Logs::LogGroup": "arn:{p}:logs:{r}:{a}:log-group:{name}:*",
    "AWS::ECR::Repository": "arn:{p}:ecr:{r}:{a}:repository/{name}",
    "AWS::KMS::Key": "arn:{p}:kms:{r}:{a}:key/{name}",
    "AWS::CodeBuild::Project": "arn:{p}:codebuild:{r}:{a}:project/{name}",
    "AWS::Events::Rule": "arn:{p}:events:{r}:{a}:rule/{name}",
}
_IDS = {
    "AWS::EC2::Subnet": "subnet-{id}",
    "AWS::EC2::SecurityGroup": "sg-{id}",
    "AWS::EC2::VPC": "vpc-{id}",
    "AWS::FSx::FileSystem": "fs-{id}",
}
_REF_IS_ARN = (
    "AWS::IAM::ManagedPolicy",
    "AWS::SNS::Topic",
    "AWS::StepFunctions::StateMachine",
    "AWS::Lambda::Alias",
    "AWS::Lambda::Version",
)


def load(folder: Path, place: Place) -> dict[str, Template]:
    """Templates of an assembly by stack name, resolved across stacks."""
    raw = {
        path.name.removesuffix(".template.json"): json.loads(path.read_text())
        for path in sorted(folder.glob("*.template.json"))
    }
    return resolve(raw, place)


def place_of(folder: Path) -> Place:
    """Where an assembly is for."""
    manifest = json.loads((folder / "manifest.json").read_text())
    where = next(
        artifact["environment"]
        for artifact in manifest["artifacts"].values()
        if artifact["type"] == "aws:cloudformation:stack"
    )
    account, region = where.removeprefix("aws://").split("/")
    partition = "aws-cn" if region.startswith("cn-") else "aws"
    return Place("aws-us-gov" if "-gov-" in region else partition, region, account)


def resolve(templates: Mapping[str, Template], place: Place) -> dict[str, Template]:
    exports: dict[str, Any] = {}
    scopes = {name: _Scope(template, place, exports) for name, template in templates.items()}
    for name, template in templates.items():
        for output in template.get("Outputs", {}).values():
            if "Export" in output:
                exports[output["Export"]["Name"]] = (scopes[name], output["Value"])
    return {
        name: {
            **template,
            "Resources": {
                key: {**resource, "Properties": scopes[name].value(resource.get("Properties", {}))}
                for key, resource in template["Resources"].items()
            },
        }
        for name, template in templates.items()
    }


class _Scope:
    """One template's references."""

    def __init__(self, template: Template, place: Place, exports: dict[str, Any]) -> None:
        self._resources = template["Resources"]
        self._place, self._exports = place, exports

    def value(self, given: Any) -> Any:
        if isinstance(given, list):
            return [self.value(one) for one in given]
        if not isinstance(given, dict):
            return given
        if len(given) == 1:
            ((name, inner),) = given.items()
            if name == "Ref":
                return self._ref(inner)
            if name == "Fn::GetAtt":
                return self._attribute(inner)
            if name == "Fn::Join":
                return str(inner[0]).join(str(self.value(part)) for part in inner[1])
            if name == "Fn::ImportValue":
                scope, exported = self._exports[self.value(inner)]
                return scope.value(exported)
            if name == "Fn::Select":
                return self.value(inner[1])[int(inner[0])]
            if name == "Fn::Split":
                return str(self.value(inner[1])).split(inner[0])
            if name == "Fn::Sub":
                return inner if isinstance(inner, str) else inner[0]
        return {key: self.value(one) for key, one in given.items()}

    def _ref(self, name: str) -> str:
        pseudo = {
            "AWS::Partition": self._place.partition,
            "AWS::Region": self._place.region,
            "AWS::AccountId": self._place.account,
            "AWS::URLSuffix": "amazonaws.com.cn"
            if self._place.partition == "aws-cn"
            else "amazonaws.com",
        }
        if name in pseudo:
            return pseudo[name]
        if name not in self._resources:
            return name  # a parameter
        kind = self._resources[name]["Type"]
        return self._arn(name) if kind in _REF_IS_ARN else self._name(name)

    def _attribute(self, inner: list[str]) -> str:
        name, attribute = inner
        if attribute == "Arn" or attribute.endswith("Arn"):
            return self._arn(name)
        return self._name(name) if attribute.endswith(("Id", "Name")) else f"{name}.{attribute}"

    def _name(self, logical: str) -> str:
        resource = self._resources[logical]
        kind = resource["Type"]
        if kind in _IDS:
            return _IDS[kind].format(id=logical)
        if kind in ("AWS::Lambda::Version", "AWS::Lambda::Alias"):
            return str(self.value(resource["Properties"]["FunctionName"]))
        given = resource.get("Properties", {}).get(_NAMES.get(kind, ""))
        if given is not None:
            return str(self.value(given))
        return logical.lower() if kind == "AWS::S3::Bucket" else logical

    def _arn(self, logical: str) -> str:
        pattern = _ARNS.get(self._resources[logical]["Type"], "arn:{p}:unknown:{r}:{a}:{name}")
        partition, region, account = self._place
        return pattern.format(p=partition, r=region, a=account, name=self._name(logical))


class Document(NamedTuple):
    """A policy document of a template."""

    stack: str
    logical_id: str
    kind: str
    """``identity``, ``boundary`` (our managed policies are), ``trust`` or ``resource``."""
    document: dict[str, Any]
    path: str


_DOCUMENTS = {
    "AWS::IAM::Policy": ("identity", "PolicyDocument"),
    "AWS::IAM::ManagedPolicy": ("boundary", "PolicyDocument"),
    "AWS::IAM::Role": ("trust", "AssumeRolePolicyDocument"),
    "AWS::S3::BucketPolicy": ("resource", "PolicyDocument"),
    "AWS::SQS::QueuePolicy": ("resource", "PolicyDocument"),
    "AWS::SNS::TopicPolicy": ("resource", "PolicyDocument"),
    "AWS::KMS::Key": ("resource", "KeyPolicy"),
}


def documents(templates: Mapping[str, Template]) -> Iterator[Document]:
    """Every policy document of resolved templates."""
    for stack, template in templates.items():
        for logical, resource in template["Resources"].items():
            kind, field = _DOCUMENTS.get(resource["Type"], ("", ""))
            if kind and field in resource["Properties"]:
                path = str(resource.get("Metadata", {}).get("aws:cdk:path", logical))
                yield Document(stack, logical, kind, resource["Properties"][field], path)
