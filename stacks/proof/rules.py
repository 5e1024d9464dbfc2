"""cdk-nag rules for training: what AwsSolutions and NIST have no rule for.

Each rule is a function of one resource, true where it is as it should be. A finding is suppressed
like any other, by its name ``Everstep-…``, in ``stacks.suppressions``.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import jsii
from aws_cdk import CfnResource, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from cdk_nag import IApplyRule, NagMessageLevel, NagPack, NagRuleCompliance

from stacks.file_system_rules import EFA_CAPACITY_STEP

ALL_TRAFFIC = "-1"


class Rule(NamedTuple):
    name: str
    kind: type[CfnResource]
    holds: Callable[[Any], bool]
    why: str


def _resolved(node: CfnResource, value: Any) -> Any:
    return Stack.of(node).resolve(value)


def _siblings(node: CfnResource, kind: type[Any]) -> Iterator[Any]:
    return (one for one in Stack.of(node).node.find_all() if isinstance(one, kind))


def _self_ingress_has_egress(rule: ec2.CfnSecurityGroupIngress) -> bool:
    group = _resolved(rule, rule.group_id)
    source = _resolved(rule, rule.source_security_group_id)
    if rule.ip_protocol != ALL_TRAFFIC or group != source:
        return True
    return any(
        other.ip_protocol == ALL_TRAFFIC
        and _resolved(other, other.group_id) == group
        and _resolved(other, other.destination_security_group_id) == group
        for other in _siblings(rule, ec2.CfnSecurityGroupEgress)
    )


def _all_traffic_stays_inside(rule: ec2.CfnSecurityGroupIngress) -> bool:
    if rule.ip_protocol != ALL_TRAFFIC:
        return True
    source = _resolved(rule, rule.source_security_group_id)
    return bool(source == _resolved(rule, rule.group_id))


def _lustre(system: fsx.CfnFileSystem) -> Any:
    return cast(Any, system.lustre_configuration)


def _lustre_has_key(system: fsx.CfnFileSystem) -> bool:
    # Scratch file systems take no key of ours: FSx encrypts them with its own.
    return system.kms_key_id is not None or _lustre(system).deployment_type == "SCRATCH_2"


def _lustre_efa_fits(system: fsx.CfnFileSystem) -> bool:
    settings = _lustre(system)
    if not settings.efa_enabled or system.storage_type != "SSD":
        return True
    step = EFA_CAPACITY_STEP.get(int(settings.per_unit_storage_throughput or 0))
    return step is not None and int(system.storage_capacity or 0) % step == 0


def _in_one_subnet(system: fsx.CfnFileSystem) -> bool:
    return len(system.subnet_ids) == 1


def _export_is_not_automatic(association: fsx.CfnDataRepositoryAssociation) -> bool:
    settings = cast(Any, association.s3)
    export = settings.auto_export_policy if settings else None
    path = str(association.file_system_path)
    return export is None or path.startswith("/exports")


def _current_objects_stay(bucket: s3.CfnBucket) -> bool:
    # The L2's rules are lazy, and jsii cannot hand them over but as all of the properties.
    lifecycle = _resolved(bucket, bucket._cfn_properties).get("lifecycleConfiguration") or {}
    return not any(
        "expirationInDays" in rule or "expirationDate" in rule
        for rule in lifecycle.get("rules", [])
    )


def _statements(document: Any) -> list[dict[str, Any]]:
    return cast(list[dict[str, Any]], (document or {}).get("Statement", []))


def _role_of_sagemaker_is_bound(role: iam.CfnRole) -> bool:
    """Else another account's SageMaker could be told to use the role: the confused deputy."""
    return all(
        "aws:SourceAccount" in str(statement.get("Condition", {}))
        for statement in _statements(_resolved(role, role.assume_role_policy_document))
        if "sagemaker.amazonaws.com" in str(statement.get("Principal", {}))
    )


def _pass_role_names_service(policy: iam.CfnPolicy) -> bool:
    return all(
        "iam:PassedToService" in str(statement.get("Condition", {}))
        for statement in _statements(_resolved(policy, policy.policy_document))
        if statement["Effect"] == "Allow" and "iam:PassRole" in str(statement.get("Action"))
    )


def _create_job_is_not_alone(policy: iam.CfnPolicy) -> bool:
    """A policy that makes jobs without naming the roles it passes would pass none, or all."""
    text = [
        (str(statement.get("Action")), str(statement.get("Resource")))
        for statement in _statements(_resolved(policy, policy.policy_document))
    ]
    makes = any("sagemaker:CreateTrainingJob" in action for action, _ in text)
    passes = [resource for action, resource in text if "iam:PassRole" in action]
    return not makes or (bool(passes) and all(resource != "*" for resource in passes))


def _partial_batches(mapping: lambda_.CfnEventSourceMapping) -> bool:
    return mapping.function_response_types == ["ReportBatchItemFailures"]


def _no_public_address(subnet: ec2.CfnSubnet) -> bool:
    return not _resolved(subnet, subnet.map_public_ip_on_launch)


RULES = (
    Rule(
        "EfaSelfEgress",
        ec2.CfnSecurityGroupIngress,
        _self_ingress_has_egress,
        "EFA wants all traffic to the group itself too: without the egress rule, NCCL falls back "
        "to TCP without a word",
    ),
    Rule(
        "AllTrafficFromOthers",
        ec2.CfnSecurityGroupIngress,
        _all_traffic_stays_inside,
        "all protocols are for EFA inside one group, not for others",
    ),
    Rule("LustreKey", fsx.CfnFileSystem, _lustre_has_key, "persistent file systems use our key"),
    Rule(
        "LustreEfaCapacity",
        fsx.CfnFileSystem,
        _lustre_efa_fits,
        "FSx enables EFA only on certain capacities, else creation fails after minutes",
    ),
    Rule("LustreOneSubnet", fsx.CfnFileSystem, _in_one_subnet, "Lustre lies in one zone"),
    Rule(
        "LustreAutoExport",
        fsx.CfnDataRepositoryAssociation,
        _export_is_not_automatic,
        "export promises no order: a manifest could reach S3 before its data",
    ),
    Rule(
        "CurrentObjectsExpire",
        s3.CfnBucket,
        _current_objects_stay,
        "a rule that expires current objects may delete the last good checkpoint",
    ),
    Rule(
        "SageMakerRoleBound",
        iam.CfnRole,
        _role_of_sagemaker_is_bound,
        "a role that SageMaker takes names aws:SourceAccount",
    ),
    Rule(
        "PassRoleService",
        iam.CfnPolicy,
        _pass_role_names_service,
        "iam:PassRole names the service that gets the role",
    ),
    Rule(
        "CreateJobPassesRole",
        iam.CfnPolicy,
        _create_job_is_not_alone,
        "who makes training jobs passes named roles",
    ),
    Rule(
        "PartialBatches",
        lambda_.CfnEventSourceMapping,
        _partial_batches,
        "one bad job event must not bring nine good ones back",
    ),
    Rule(
        "SubnetPublicAddress",
        ec2.CfnSubnet,
        _no_public_address,
        "training hosts have no public address",
    ),
)


@jsii.implements(IApplyRule)
class _Applied:
    """One rule on one resource, as cdk-nag takes it."""

    def __init__(self, rule: Rule, node: CfnResource) -> None:
        self._rule, self._node = rule, node

    @property
    def explanation(self) -> str:
        return self._rule.why

    @property
    def info(self) -> str:
        return self._rule.why

    @property
    def level(self) -> NagMessageLevel:
        return NagMessageLevel.ERROR

    @property
    def node(self) -> CfnResource:
        return self._node

    @property
    def rule_suffix_override(self) -> str | None:
        return self._rule.name

    def rule(self, node: CfnResource) -> NagRuleCompliance:
        if self._rule.holds(self._node):
            return NagRuleCompliance.COMPLIANT
        return NagRuleCompliance.NON_COMPLIANT


class EverstepChecks(NagPack):
    """Our rules as a pack: ``Validations.of(app).add_plugins(EverstepChecks(app))``."""

    def __init__(self, scope: Any) -> None:
        super().__init__(scope)
        self._pack_name = "Everstep"

    @property
    def name(self) -> str:
        return "Everstep"

    def _check_resource(self, node: CfnResource) -> None:
        for rule in RULES:
            if isinstance(node, rule.kind):
                self._apply_rule(cast(IApplyRule, _Applied(rule, node)))
