"""State machines in CloudFormation: definitions from S3 and with substitutions, ARNs, updates."""

import json
from typing import Any

from moto.s3.models import s3_backends
from moto.stepfunctions.models import StateMachine
from moto.stepfunctions.parser.models import stepfunctions_parser_backends
from moto.stepfunctions.utils import cfn_to_api_tags

from emulator.names import ACCOUNT, PARTITION, REGION
from emulator.patching import replace


def patch_state_machines() -> None:
    """Put our creation, update and attributes in place of moto's."""

    def get_cfn_attribute(self: StateMachine, name: str) -> Any:
        if name == "Arn":
            return self.arn
        if name == "StateMachineRevisionId":
            return "INITIAL"
        return attribute(self, name)

    attribute = replace(StateMachine, "get_cfn_attribute", get_cfn_attribute)
    known = ("Arn", "Name", "StateMachineRevisionId")
    replace(StateMachine, "has_cfn_attr", classmethod(lambda cls, attr: attr in known))
    replace(StateMachine, "cloudformation_name_type", staticmethod(lambda: "StateMachineName"))
    replace(StateMachine, "create_from_cloudformation_json", classmethod(_create))
    replace(StateMachine, "update_from_cloudformation_json", classmethod(_update))
    replace(StateMachine, "delete", _delete)


def _delete(self: StateMachine, account: str, region: str) -> None:
    _backend().delete_state_machine(self.arn)


def _create(
    cls: Any,
    /,
    resource_name: str,
    cloudformation_json: dict[str, Any],
    account_id: str,
    region_name: str,
    **kwargs: Any,
) -> StateMachine:
    properties = cloudformation_json["Properties"]
    name = properties.get("StateMachineName", resource_name[:80])
    return _backend().create_state_machine(
        name,
        definition_of(properties),
        properties["RoleArn"],
        tags=cfn_to_api_tags(properties.get("Tags", [])),
        sm_type=properties.get("StateMachineType"),
    )


def _update(
    cls: Any,
    /,
    original_resource: StateMachine,
    new_resource_name: str,
    cloudformation_json: dict[str, Any],
    account_id: str,
    region_name: str,
) -> StateMachine:
    properties = cloudformation_json["Properties"]
    return _backend().update_state_machine(
        original_resource.arn,
        definition=definition_of(properties),
        role_arn=properties["RoleArn"],
    )


def definition_of(properties: dict[str, Any]) -> str:
    """The ASL text of a template's state machine."""
    if "DefinitionString" in properties:
        text = properties["DefinitionString"]
    elif "Definition" in properties:
        text = json.dumps(properties["Definition"])
    else:
        place = properties["DefinitionS3Location"]
        key = s3_backends[ACCOUNT][PARTITION].get_object(place["Bucket"], place["Key"])
        text = key.value.decode() if key else "{}"
    for name, value in properties.get("DefinitionSubstitutions", {}).items():
        text = text.replace(f"${{{name}}}", str(value))
    return str(text)


def _backend() -> Any:
    return stepfunctions_parser_backends[ACCOUNT][REGION]
