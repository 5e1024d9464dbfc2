"""Resource types that moto's CloudFormation lacks and runs depend on, through the service's API."""

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from moto.core.common_models import CloudFormationModel

from emulator import cfn_fsx
from emulator.names import arn
from emulator.world import World

Properties = dict[str, Any]


class Made(NamedTuple):
    """What a creation gives: the value of Ref, and of GetAtt by name."""

    physical_id: str
    attributes: Mapping[str, Any] = MappingProxyType({})


Create = Callable[[World, Properties, str], Made]
Delete = Callable[[World, Properties, str], None]


def define_types(world: World) -> None:
    """Register one class a type: moto finds them as subclasses."""
    for resource_type, (create, delete, name) in _TYPES.items():
        _CLASSES.append(_model(world, resource_type, create, delete, name))


# moto holds only weak references to subclasses.
_CLASSES: list[type[CloudFormationModel]] = []


def _model(
    world: World, resource_type: str, create: Create, delete: Delete | None, name: str
) -> type[CloudFormationModel]:
    class Resource(CloudFormationModel):
        def __init__(self, made: Made, properties: Properties) -> None:
            self.made = made
            self.properties = properties

        @staticmethod
        def cloudformation_type() -> str:
            return resource_type

        @staticmethod
        def cloudformation_name_type() -> str:
            return name

        @classmethod
        def has_cfn_attr(cls, attr: str) -> bool:
            return True

        @property
        def physical_resource_id(self) -> str:
            return self.made.physical_id

        def get_cfn_attribute(self, attribute: str) -> Any:
            return self.made.attributes.get(attribute, self.made.physical_id)

        @classmethod
        def create_from_cloudformation_json(
            cls, resource_name: str, cloudformation_json: Any, *_: Any, **__: Any
        ) -> "Resource":
            properties = cloudformation_json.get("Properties", {})
            return cls(create(world, properties, resource_name), properties)

        @classmethod
        def update_from_cloudformation_json(
            cls,
            original_resource: "Resource",
            new_resource_name: str,
            cloudformation_json: Any,
            account_id: str,
            region_name: str,
        ) -> "Resource":
            # Every creation here is a "put": made again, it replaces.
            properties = cloudformation_json.get("Properties", {})
            physical = original_resource.physical_resource_id
            original_resource.made = create(world, properties, properties.get(name) or physical)
            original_resource.properties = properties
            return original_resource

        def delete(self, account_id: str, region: str) -> None:
            if delete:
                delete(world, self.properties, self.made.physical_id)

    return Resource


def _bucket_policy(world: World, properties: Properties, name: str) -> Made:
    bucket = properties["Bucket"]
    policy = json.dumps(properties["PolicyDocument"])
    world.client("s3").put_bucket_policy(Bucket=bucket, Policy=policy)
    return Made(bucket)


def _queue_policy(world: World, properties: Properties, name: str) -> Made:
    policy = json.dumps(properties["PolicyDocument"])
    for url in properties["Queues"]:
        world.client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    return Made(name, {"Id": name})


def _topic_policy(world: World, properties: Properties, name: str) -> Made:
    policy = json.dumps(properties["PolicyDocument"])
    for topic in properties["Topics"]:
        world.client("sns").set_topic_attributes(
            TopicArn=topic, AttributeName="Policy", AttributeValue=policy
        )
    return Made(name, {"Id": name})


def _subscription(world: World, properties: Properties, name: str) -> Made:
    made = world.client("sns").subscribe(
        TopicArn=properties["TopicArn"],
        Protocol=properties["Protocol"],
        Endpoint=properties.get("Endpoint", ""),
        ReturnSubscriptionArn=True,
    )
    return Made(made["SubscriptionArn"], {"Arn": made["SubscriptionArn"]})


def _unsubscribe(world: World, properties: Properties, physical: str) -> None:
    world.client("sns").unsubscribe(SubscriptionArn=physical)


_ALARM_FIELDS = [
    "AlarmDescription",
    "ActionsEnabled",
    "OKActions",
    "AlarmActions",
    "InsufficientDataActions",
    "MetricName",
    "Namespace",
    "Statistic",
    "ExtendedStatistic",
    "Dimensions",
    "Period",
    "Unit",
    "EvaluationPeriods",
    "DatapointsToAlarm",
    "Threshold",
    "ComparisonOperator",
    "TreatMissingData",
    "EvaluateLowSampleCountPercentile",
    "Metrics",
    "ThresholdMetricId",
]
_NUMBERS = {
    "Period": int,
    "EvaluationPeriods": int,
    "DatapointsToAlarm": int,
    "Threshold": float,
}


def _alarm(world: World, properties: Properties, name: str) -> Made:
    alarm = properties.get("AlarmName") or name
    fields = {
        key: _NUMBERS.get(key, lambda value: value)(properties[key])
        for key in _ALARM_FIELDS
        if key in properties
    }
    world.client("cloudwatch").put_metric_alarm(AlarmName=alarm, **fields)
    return Made(alarm, {"Arn": arn("cloudwatch", f"alarm:{alarm}")})


def _delete_alarm(world: World, properties: Properties, physical: str) -> None:
    world.client("cloudwatch").delete_alarms(AlarmNames=[physical])


def _egress(world: World, properties: Properties, name: str) -> Made:
    permission: Properties = {"IpProtocol": str(properties["IpProtocol"])}
    for key in ("FromPort", "ToPort"):
        if key in properties:
            permission[key] = int(properties[key])
    note = {"Description": properties["Description"]} if "Description" in properties else {}
    if "CidrIp" in properties:
        permission["IpRanges"] = [{"CidrIp": properties["CidrIp"], **note}]
    if "CidrIpv6" in properties:
        permission["Ipv6Ranges"] = [{"CidrIpv6": properties["CidrIpv6"], **note}]
    if "DestinationSecurityGroupId" in properties:
        group = properties["DestinationSecurityGroupId"]
        permission["UserIdGroupPairs"] = [{"GroupId": group, **note}]
    if "DestinationPrefixListId" in properties:
        permission["PrefixListIds"] = [{"PrefixListId": properties["DestinationPrefixListId"]}]
    world.client("ec2").authorize_security_group_egress(
        GroupId=properties["GroupId"], IpPermissions=[permission]
    )
    return Made(name, {"Id": name})


def _metric_filter(world: World, properties: Properties, name: str) -> Made:
    made = properties.get("FilterName") or name
    transformations = [
        {
            "metricName": item["MetricName"],
            "metricNamespace": item["MetricNamespace"],
            "metricValue": str(item["MetricValue"]),
        }
        for item in properties["MetricTransformations"]
    ]
    world.client("logs").put_metric_filter(
        logGroupName=properties["LogGroupName"],
        filterName=made,
        filterPattern=properties.get("FilterPattern", ""),
        metricTransformations=transformations,
    )
    return Made(made)


def _schedule(world: World, properties: Properties, name: str) -> Made:
    made = properties.get("Name") or name
    keys = ("ScheduleExpression", "FlexibleTimeWindow", "Target", "State", "GroupName")
    fields = {key: properties[key] for key in keys if key in properties}
    client = world.client("scheduler")
    group = properties.get("GroupName", "default")
    known = client.list_schedules(GroupName=group, NamePrefix=made)["Schedules"]
    exists = any(schedule["Name"] == made for schedule in known)
    put = client.update_schedule if exists else client.create_schedule
    return Made(made, {"Arn": put(Name=made, **fields)["ScheduleArn"]})


def _delete_schedule(world: World, properties: Properties, physical: str) -> None:
    group = properties.get("GroupName", "default")
    world.client("scheduler").delete_schedule(Name=physical, GroupName=group)


def _machine_version(world: World, properties: Properties, name: str) -> Made:
    machine = properties["StateMachineArn"]
    client = world.client("stepfunctions")
    described = client.describe_state_machine(stateMachineArn=machine)
    made = client.update_state_machine(
        stateMachineArn=machine, definition=described["definition"], publish=True
    )
    return Made(made["stateMachineVersionArn"], {"Arn": made["stateMachineVersionArn"]})


def _machine_alias(world: World, properties: Properties, name: str) -> Made:
    routes = properties.get("RoutingConfiguration") or [
        {
            "StateMachineVersionArn": properties["DeploymentPreference"]["StateMachineVersionArn"],
            "Weight": 100,
        }
    ]
    routing = [
        {"stateMachineVersionArn": r["StateMachineVersionArn"], "weight": int(r["Weight"])}
        for r in routes
    ]
    made = properties.get("Name") or name
    client = world.client("stepfunctions")
    machine = routing[0]["stateMachineVersionArn"].rsplit(":", 1)[0]
    known = client.list_state_machine_aliases(stateMachineArn=machine)["stateMachineAliases"]
    alias = f"{machine}:{made}"
    if any(item["stateMachineAliasArn"] == alias for item in known):
        client.update_state_machine_alias(stateMachineAliasArn=alias, routingConfiguration=routing)
    else:
        client.create_state_machine_alias(name=made, routingConfiguration=routing)
    return Made(alias, {"Arn": alias})


def _model_group(world: World, properties: Properties, name: str) -> Made:
    made = properties["ModelPackageGroupName"]
    client = world.client("sagemaker")
    known = client.list_model_package_groups(NameContains=made)["ModelPackageGroupSummaryList"]
    if all(group["ModelPackageGroupName"] != made for group in known):
        client.create_model_package_group(
            ModelPackageGroupName=made,
            ModelPackageGroupDescription=properties.get("ModelPackageGroupDescription", ""),
            Tags=properties.get("Tags", []),
        )
    group_arn = arn("sagemaker", f"model-package-group/{made}")
    return Made(group_arn, {"ModelPackageGroupArn": group_arn})


def _build_project(world: World, properties: Properties, name: str) -> Made:
    made = properties.get("Name") or name
    environment = properties["Environment"]
    variables = [
        {"name": v["Name"], "value": v["Value"]}
        for v in environment.get("EnvironmentVariables", [])
    ]
    world.client("codebuild").create_project(
        name=made,
        source={"type": "NO_SOURCE"},
        artifacts={"type": "NO_ARTIFACTS"},
        serviceRole=properties["ServiceRole"],
        environment={
            "type": environment["Type"],
            "image": environment["Image"],
            "computeType": environment["ComputeType"],
            "environmentVariables": variables,
        },
    )
    return Made(made, {"Arn": arn("codebuild", f"project/{made}")})


def _delete_build_project(world: World, properties: Properties, physical: str) -> None:
    world.client("codebuild").delete_project(name=physical)


def _file_system(world: World, properties: Properties, name: str) -> Made:
    return Made(*cfn_fsx.file_system(world, properties, name))


def _association(world: World, properties: Properties, name: str) -> Made:
    return Made(*cfn_fsx.association(world, properties))


_TYPES: dict[str, tuple[Create, Delete | None, str]] = {
    "AWS::S3::BucketPolicy": (_bucket_policy, None, ""),
    "AWS::SQS::QueuePolicy": (_queue_policy, None, ""),
    "AWS::SNS::TopicPolicy": (_topic_policy, None, ""),
    "AWS::SNS::Subscription": (_subscription, _unsubscribe, ""),
    "AWS::CloudWatch::Alarm": (_alarm, _delete_alarm, "AlarmName"),
    "AWS::CodeBuild::Project": (_build_project, _delete_build_project, "Name"),
    "AWS::FSx::FileSystem": (_file_system, None, ""),
    "AWS::FSx::DataRepositoryAssociation": (_association, None, ""),
    "AWS::EC2::SecurityGroupEgress": (_egress, None, ""),
    "AWS::Logs::MetricFilter": (_metric_filter, None, "FilterName"),
    "AWS::SageMaker::ModelPackageGroup": (_model_group, None, "ModelPackageGroupName"),
    "AWS::Scheduler::Schedule": (_schedule, _delete_schedule, "Name"),
    "AWS::StepFunctions::StateMachineVersion": (_machine_version, None, ""),
    "AWS::StepFunctions::StateMachineAlias": (_machine_alias, None, "Name"),
}
