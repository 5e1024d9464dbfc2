"""Change sets that fail as they do on AWS: with a reason in the stack's events, rolled back."""

import logging
from typing import Any

from flask import has_request_context, request
from moto.cloudformation.exceptions import CloudFormationError
from moto.cloudformation.models import CloudFormationBackend, Event

from emulator.patching import replace

logger = logging.getLogger("emulator")


class ChangeSetNotFound(CloudFormationError):  # type: ignore[misc, unused-ignore]
    """The code by which the CDK knows that a deletion is done."""

    code = "ChangeSetNotFound"


class ResourceFailed(Exception):
    """A resource could not be made or changed."""

    def __init__(self, logical_id: str, resource_type: str, error: Exception) -> None:
        text = getattr(error, "message", None) or getattr(error, "description", None) or error
        super().__init__(f"{logical_id} ({resource_type}): {type(error).__name__}: {text}")
        self.logical_id = logical_id
        self.resource_type = resource_type


def patch_changes() -> None:
    """moto answers a failed change with HTTP 500, and takes the retry for a success."""
    replace(CloudFormationBackend, "execute_change_set", _execute)
    replace(CloudFormationBackend, "delete_change_set", _delete)
    replace(CloudFormationBackend, "describe_change_set", _describe)


def _execute(
    self: CloudFormationBackend, change_set_name: str, stack_name: str | None = None
) -> None:
    found = _find(self, change_set_name, stack_name)
    if found is None:
        raise ChangeSetNotFound(f"ChangeSet [{change_set_name}] does not exist")
    stack, kind = self.stacks[found.stack_id], found.change_set_type
    stack._add_stack_event(f"{kind}_IN_PROGRESS", resource_status_reason="User Initiated")
    # A stack made by a change set has not been shown what the others export.
    stack.resource_map.cross_stack_resources = self.exports
    try:
        found.apply()
    except ResourceFailed as error:
        logger.exception("stack %s", stack.name)
        _fail(stack, kind, error)
        return
    stack.status = f"{kind}_COMPLETE"
    stack.template = found.template
    stack._parse_template()
    stack.output_map = stack._create_output_map()
    for export in stack.exports:
        self.exports[export.name] = export
    found.execution_status = "EXECUTE_COMPLETE"
    stack._add_stack_event(f"{kind}_COMPLETE")


def _find(self: CloudFormationBackend, name: str, stack_name: str | None) -> Any:
    """By ARN, or by name: the CDK gives every stack's change set the same one."""
    if name in self.change_sets:
        return self.change_sets[name]
    # moto's responses pass no stack on for some operations; the request has it.
    asked = stack_name or (request.values.get("StackName") if has_request_context() else None)
    for change_set in reversed(list(self.change_sets.values())):
        same = asked in (None, change_set.stack_name, change_set.stack_id)
        if change_set.change_set_name == name and same:
            return change_set
    return None


def _delete(self: CloudFormationBackend, change_set_name: str) -> None:
    # To delete one that is not there is no error on AWS.
    found = _find(self, change_set_name, None)
    if found:
        self.change_sets.pop(found.change_set_id, None)


def _describe(self: CloudFormationBackend, change_set_name: str) -> Any:
    found = _find(self, change_set_name, None)
    if found is None:
        raise ChangeSetNotFound(f"ChangeSet [{change_set_name}] does not exist")
    return found


def _fail(stack: Any, kind: str, error: ResourceFailed) -> None:
    stack.events.append(
        Event(
            stack_id=stack.stack_id,
            stack_name=stack.name,
            logical_resource_id=error.logical_id,
            physical_resource_id="",
            resource_type=error.resource_type,
            resource_status=f"{kind}_FAILED",
            resource_status_reason=str(error),
            resource_properties=None,
        )
    )
    # An update is not undone here: what was changed before the failure stays changed.
    ended = "ROLLBACK_COMPLETE" if kind == "CREATE" else "UPDATE_ROLLBACK_COMPLETE"
    stack.status = ended
    stack._add_stack_event(ended, resource_status_reason=str(error))
