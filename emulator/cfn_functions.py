"""Lambda functions, versions and aliases in CloudFormation."""

from typing import Any

from moto.awslambda.models import LambdaFunction
from moto.awslambda_simple.models import lambda_simple_backends
from moto.core.common_models import CloudFormationModel

from emulator.names import ACCOUNT, REGION, arn
from emulator.patching import replace


def patch_functions() -> None:
    """Updates keep to what moto can take: a layer of another account is not to be had here."""

    def update(
        cls: Any,
        original_resource: LambdaFunction,
        new_resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
    ) -> LambdaFunction:
        properties = cloudformation_json["Properties"]
        settings = {key: value for key, value in properties.items() if key != "Layers"}
        settings.setdefault("Environment", {"Variables": {}})
        settings["Environment"].setdefault("Variables", {})
        original_resource.update_configuration(settings)
        original_resource.update_function_code(properties["Code"])
        return original_resource

    replace(LambdaFunction, "update_from_cloudformation_json", classmethod(update))


class FunctionVersion(CloudFormationModel):
    """``AWS::Lambda::Version``: its Ref is the version's ARN."""

    def __init__(self, function: str, version: str) -> None:
        self.function = function
        self.version = version

    @staticmethod
    def cloudformation_type() -> str:
        return "AWS::Lambda::Version"

    @staticmethod
    def cloudformation_name_type() -> str:
        return ""

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        return attr in ("Version", "FunctionArn")

    @property
    def physical_resource_id(self) -> str:
        return arn("lambda", f"function:{self.function}:{self.version}")

    def get_cfn_attribute(self, attribute: str) -> str:
        """``Version`` is the number."""
        return self.version if attribute == "Version" else self.physical_resource_id

    @classmethod
    def create_from_cloudformation_json(
        cls,
        resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
        **kwargs: Any,
    ) -> "FunctionVersion":
        name = _name(cloudformation_json["Properties"]["FunctionName"])
        published = _backend().publish_version(name)
        return cls(name, str(published.version if published else "$LATEST"))

    @classmethod
    def update_from_cloudformation_json(
        cls,
        original_resource: Any,
        new_resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
    ) -> Any:
        return original_resource

    def delete(self, account_id: str, region: str) -> None:
        """A version that is still the newest of a function stays: another stack may name it."""


class FunctionAlias(CloudFormationModel):
    """``AWS::Lambda::Alias``: its Ref is the alias's ARN."""

    def __init__(self, function: str, name: str) -> None:
        self.function = function
        self.name = name

    @staticmethod
    def cloudformation_type() -> str:
        return "AWS::Lambda::Alias"

    @staticmethod
    def cloudformation_name_type() -> str:
        return "Name"

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        return attr == "AliasArn"

    @property
    def physical_resource_id(self) -> str:
        return arn("lambda", f"function:{self.function}:{self.name}")

    def get_cfn_attribute(self, attribute: str) -> str:
        """Only its ARN can be asked for."""
        return self.physical_resource_id

    @classmethod
    def create_from_cloudformation_json(
        cls,
        resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
        **kwargs: Any,
    ) -> "FunctionAlias":
        properties = cloudformation_json["Properties"]
        function = _name(properties["FunctionName"])
        version = str(properties["FunctionVersion"])
        _backend().create_alias(properties["Name"], function, version, "", "")
        return cls(function, properties["Name"])

    @classmethod
    def update_from_cloudformation_json(
        cls,
        original_resource: Any,
        new_resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
    ) -> Any:
        version = str(cloudformation_json["Properties"]["FunctionVersion"])
        alias = original_resource
        _backend().update_alias(alias.name, alias.function, version, None, None)
        return alias

    def delete(self, account_id: str, region: str) -> None:
        """End the alias, unless its function has gone already."""
        if self.function in _backend()._lambdas._functions:
            _backend().delete_alias(self.name, self.function)


def _backend() -> Any:
    return lambda_simple_backends[ACCOUNT][REGION]


def _name(name_or_arn: str) -> str:
    return name_or_arn.split(":function:")[-1].split(":")[0]
