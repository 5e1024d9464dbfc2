"""CloudFormation, as far as moto's engine falls short of it.

Types that moto does not know are accepted with sane ``Ref`` and ``GetAtt`` values and listed
aloud; updates run in dependency order; deletions come last, as in AWS.
"""

import json
import logging
import threading
from typing import Any

from moto.cloudformation import parsing
from moto.core.common_models import CloudFormationModel

from emulator.cfn_attributes import patch_attributes
from emulator.cfn_changes import ResourceFailed, patch_changes
from emulator.cfn_deletion import RETAINED, patch_deletion
from emulator.cfn_functions import patch_functions
from emulator.cfn_machine import patch_state_machines
from emulator.cfn_order import in_order
from emulator.cfn_types import define_types
from emulator.names import arn
from emulator.patching import replace
from emulator.world import World

logger = logging.getLogger("emulator")

SILENT = {"AWS::CDK::Metadata"}


class CloudFormation:
    """Prepares moto's engine; keeps the list of what is accepted but not emulated."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lock = threading.Lock()
        self._accepted: dict[str, list[str]] = {}
        define_types(world)
        patch_attributes()
        patch_changes()
        patch_deletion(world)
        patch_functions()
        patch_state_machines()
        known = parsing.resource_class_from_type
        # moto caches its list of types; ours must be in it.
        parsing.get_model_list.cache_clear()
        parsing.get_model_map.cache_clear()
        parsing.get_name_type_map.cache_clear()
        types = parsing.get_model_map()
        accepted: dict[str, type[CloudFormationModel]] = {}

        def class_of(resource_type: str) -> Any:
            if resource_type in parsing.NULL_MODELS or resource_type in types:
                return known(resource_type)
            if resource_type not in accepted:
                accepted[resource_type] = _accepted_class(self._note)
            return accepted[resource_type]

        replace(parsing, "resource_class_from_type", class_of)
        replace(parsing.ResourceMap, "update", _update)

    def _note(self, resource_type: str, logical_id: str) -> None:
        if resource_type in SILENT:
            return
        with self._lock:
            ids = self._accepted.setdefault(resource_type, [])
            if logical_id in ids:
                return
            ids.append(logical_id)
            text = json.dumps(self._accepted, indent=2, sort_keys=True)
            (self._world.state / "unsupported.json").write_text(text)
        logger.warning("accepted but not emulated: %s (%s)", resource_type, logical_id)


class Accepted(CloudFormationModel):
    """A resource that exists only in its stack."""

    def __init__(self, name: str, resource_type: str, properties: dict[str, Any]) -> None:
        self.name = name
        self.type = resource_type
        self.properties = properties

    @staticmethod
    def cloudformation_type() -> str:
        return "Emulator::Accepted"

    @staticmethod
    def cloudformation_name_type() -> str:
        return ""

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        return True

    @property
    def physical_resource_id(self) -> str:
        return self.name

    def get_cfn_attribute(self, attribute: str) -> Any:
        """An ARN where one is asked for, a property of that name, or the physical id."""
        if attribute.endswith("Arn"):
            _, service, kind = [*self.type.split("::"), "", ""][:3]
            return arn(service.lower(), f"{kind.lower()}/{self.name}")
        return self.properties.get(attribute, self.name)

    def delete(self, account_id: str, region: str) -> None:
        """Nothing exists beside the stack."""


def _accepted_class(note: Any) -> type[CloudFormationModel]:
    class Of(Accepted):
        @classmethod
        def create_from_cloudformation_json(
            cls,
            resource_name: str,
            cloudformation_json: dict[str, Any],
            account_id: str,
            region_name: str,
            **kwargs: Any,
        ) -> Accepted:
            kind = cloudformation_json["Type"]
            note(kind, kwargs["LogicalId"])
            return cls(resource_name, kind, cloudformation_json.get("Properties", {}))

        @classmethod
        def delete_from_cloudformation_json(cls, *_: Any) -> None:
            """Nothing exists beside the stack."""

        def is_created(self) -> bool:
            return True

        @classmethod
        def update_from_cloudformation_json(
            cls,
            original_resource: Any,
            new_resource_name: str,
            cloudformation_json: dict[str, Any],
            account_id: str,
            region_name: str,
        ) -> Accepted:
            original_resource.properties = cloudformation_json.get("Properties", {})
            return original_resource

    return Of


def _update(self: Any, template: dict[str, Any], parameters: dict[str, Any] | None = None) -> None:
    """Add and change in dependency order, then remove.

    moto removes first and changes last: a new Lambda version would be cut from the old code.
    """
    changes = self.build_resource_diff(template, parameters)
    old = self._resource_json_map
    self._template = template
    if parameters:
        self.input_parameters = parameters
    self.load_mapping()
    self.load_parameters()
    self.load_conditions()
    new = template["Resources"]
    # While both exist, what is to be removed must still be found by its old definition.
    self._resource_json_map = {**old, **new}
    for name in in_order(new):
        condition = new[name].get("Condition")
        if condition and not self.lazy_condition_map[condition]:
            continue
        try:
            _make(self, name, new[name], old.get(name), changes)
        except Exception as error:
            raise ResourceFailed(name, new[name]["Type"], error) from error
    for name in reversed(in_order({key: old[key] for key in changes["Remove"]})):
        resource = self._parsed_resources.pop(name, None)
        if resource is not None and old[name].get("DeletionPolicy") not in RETAINED:
            self._delete_resource(resource, old[name])
    self._resource_json_map = new


def _make(
    self: Any,
    name: str,
    template: dict[str, Any],
    former: dict[str, Any] | None,
    changes: dict[str, Any],
) -> None:
    if name in changes["Add"]:
        self[name]
    elif former and template.get("Properties") == former.get("Properties"):
        return  # policies of deletion and metadata are the stack's to know
    elif name in changes["Modify"]:
        changed = parsing.parse_and_update_resource(
            name, template, self, account_id=self._account_id, region_name=self._region_name
        )
        if changed is not None:
            self._parsed_resources[name] = changed
