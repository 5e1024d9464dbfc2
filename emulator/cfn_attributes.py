"""Properties and attributes that moto's CloudFormation gets wrong."""

from typing import Any

from moto.cloudformation.parsing import ResourceMap
from moto.kms.models import Key
from moto.logs.models import LogGroup
from moto.ssm.models import ssm_backends

from emulator.patching import replace


def patch_attributes() -> None:
    """Keys' tags and updates, log groups' ARNs, parameters that keep their former value."""
    _patch_keys()
    _patch_parameters()

    def get_cfn_attribute(self: LogGroup, name: str) -> str:
        found = str(attribute(self, name))
        # As AWS gives it: with the streams, so that a grant on it covers them.
        return f"{found}:*" if name == "Arn" and not found.endswith(":*") else found

    attribute = replace(LogGroup, "get_cfn_attribute", get_cfn_attribute)


def _patch_parameters() -> None:
    def read(self: Any, value: str, value_type: str) -> Any:
        backend = ssm_backends[self._account_id][self._region_name]
        # With UsePreviousValue moto hands over what it had read, not the parameter's name.
        return original(self, value, value_type) if backend.get_parameter(value) else value

    original = replace(ResourceMap, "parse_ssm_parameter", read)


def _patch_keys() -> None:
    def create_key(cls: Any, name: str, template: Any, *rest: Any, **more: Any) -> Any:
        # The template has Key and Value; moto's service wants its API's own names.
        properties = dict(template["Properties"])
        properties["Tags"] = [
            {"TagKey": tag["Key"], "TagValue": tag["Value"]} for tag in properties.get("Tags", [])
        ]
        return create(name, {**template, "Properties": properties}, *rest, **more)

    def update_key(cls: Any, original_resource: Key, *_: Any, **arguments: Any) -> Key:
        properties = arguments["cloudformation_json"]["Properties"]
        original_resource.policy = properties["KeyPolicy"]
        return original_resource

    create = replace(Key, "create_from_cloudformation_json", classmethod(create_key))
    replace(Key, "update_from_cloudformation_json", classmethod(update_key))
