"""Stacks that go away: dependants first, and what moto's resources forget to take with them."""

import logging
from collections.abc import Callable
from typing import Any

from moto.cloudformation.exceptions import ValidationError
from moto.cloudformation.models import CloudFormationBackend
from moto.cloudformation.parsing import OutputMap, ResourceMap
from moto.cloudformation.responses import CloudFormationResponse
from moto.core.responses import ActionResult

from emulator.cfn_changes import ResourceFailed
from emulator.cfn_order import in_order
from emulator.patching import replace
from emulator.world import World

logger = logging.getLogger("emulator")

RETAINED = ("Retain", "RetainExceptOnCreate")


def patch_deletion(world: World) -> None:
    """Put our order and our deletions in place of moto's."""

    def delete_resources(self: Any) -> None:
        templates = self._resource_json_map
        left = [
            name
            for name in reversed(in_order(templates))
            if name in self._parsed_resources
            and templates[name].get("DeletionPolicy") not in RETAINED
        ]
        errors: dict[str, Exception] = {}
        while left:
            failed = [name for name in left if not _delete(world, self, name, errors)]
            if failed == left:
                raise ResourceFailed(left[0], templates[left[0]]["Type"], errors[left[0]])
            left = failed

    replace(ResourceMap, "delete", delete_resources)
    replace(CloudFormationBackend, "delete_stack", _delete_stack)
    replace(CloudFormationResponse, "update_termination_protection", _protect)


def _delete(world: World, resources: Any, name: str, errors: dict[str, Exception]) -> bool:
    resource, template = resources._parsed_resources[name], resources._resource_json_map[name]
    own = _OWN.get(template["Type"])
    try:
        if own:
            own(world, resource.physical_resource_id)
        else:
            resources._delete_resource(resource, template)
    except Exception as error:  # noqa: BLE001
        # Something that still depends on it may go in the next pass; else it is raised there.
        errors[name] = error
        return False
    resources._parsed_resources.pop(name)
    return True


def _delete_stack(self: CloudFormationBackend, name_or_stack_id: str) -> None:
    stack = self.stacks.get(name_or_stack_id) or next(
        (stack for stack in self.stacks.values() if stack.name == name_or_stack_id), None
    )
    if stack is None:
        return
    if stack.enable_termination_protection:
        raise ValidationError(
            message=f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled"
        )
    exports = [export.name for export in stack.exports]
    try:
        stack.delete()
    except ResourceFailed as error:
        logger.exception("deletion of stack %s", stack.name)
        stack.status = "DELETE_FAILED"
        stack._add_stack_event("DELETE_FAILED", resource_status_reason=str(error))
        return
    # Who describes a deleted stack would, by its outputs' references, make its resources again.
    stack.output_map = OutputMap(stack.resource_map, {"Outputs": {}}, stack.stack_id)
    del self.stacks[stack.stack_id]
    self.deleted_stacks[stack.stack_id] = stack
    for name in exports:
        self.exports.pop(name, None)


def _protect(self: Any) -> ActionResult:
    """UpdateTerminationProtection, which moto does not have and the CDK calls on every change."""
    name = self._get_param("StackName")
    (stack,) = self.cloudformation_backend.describe_stacks(name)
    stack.enable_termination_protection = self._get_bool_param("EnableTerminationProtection")
    return ActionResult({"StackId": stack.stack_id})


def _route_table(world: World, physical: str) -> None:
    client = world.client("ec2")
    for table in client.describe_route_tables(RouteTableIds=[physical])["RouteTables"]:
        for association in table["Associations"]:
            client.disassociate_route_table(AssociationId=association["RouteTableAssociationId"])
    client.delete_route_table(RouteTableId=physical)


def _security_group(world: World, physical: str) -> None:
    client = world.client("ec2")
    # Groups that name each other can only go once they no longer do.
    for group in client.describe_security_groups(GroupIds=[physical])["SecurityGroups"]:
        if group["IpPermissions"]:
            client.revoke_security_group_ingress(
                GroupId=physical, IpPermissions=group["IpPermissions"]
            )
    client.delete_security_group(GroupId=physical)


_OWN: dict[str, Callable[[World, str], Any]] = {
    "AWS::EC2::RouteTable": _route_table,
    "AWS::EC2::SecurityGroup": _security_group,
    "AWS::EC2::Subnet": lambda world, name: world.client("ec2").delete_subnet(SubnetId=name),
    "AWS::EC2::VPC": lambda world, name: world.client("ec2").delete_vpc(VpcId=name),
    "AWS::EC2::VPCEndpoint": lambda world, name: world.client("ec2").delete_vpc_endpoints(
        VpcEndpointIds=[name]
    ),
    "AWS::EC2::FlowLog": lambda world, name: world.client("ec2").delete_flow_logs(
        FlowLogIds=[name]
    ),
}
