"""The reviewers themselves: rules that see what they are for, suppressions that are needed."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from aws_cdk import App, Duration, Environment, Stack, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Annotations, Match

from everstep.contracts.payloads import HANDLER_STATES, RULE_HANDLERS
from stacks.acknowledge import acknowledge
from stacks.config import ROOT, check
from stacks.network import NetworkStack
from stacks.proof.document import page
from stacks.proof.options import asked_for
from stacks.proof.resolved import Place, documents, load, place_of
from stacks.proof.rules import RULES, EverstepChecks
from stacks.suppressions import (
    HADOLINT,
    IAM_LINT,
    IAM_LINT_ELSEWHERE,
    SUPPRESSIONS,
    plugin_of,
)
from stacks.wildcards import ENDPOINTS, WILDCARDS

from .conftest import Synthesised, violations


def _group(stack: Stack) -> ec2.CfnSecurityGroup:
    return ec2.CfnSecurityGroup(stack, "Group", group_description="g")


def _no_self_egress(stack: Stack) -> None:
    group = _group(stack).attr_group_id
    ec2.CfnSecurityGroupIngress(
        stack, "In", group_id=group, ip_protocol="-1", source_security_group_id=group
    )


def _all_from_elsewhere(stack: Stack) -> None:
    group = _group(stack).attr_group_id
    ec2.CfnSecurityGroupIngress(
        stack, "In", group_id=group, ip_protocol="-1", source_security_group_id="sg-other"
    )


def _lustre(stack: Stack, capacity: int = 1200, **more: object) -> fsx.CfnFileSystem:
    return fsx.CfnFileSystem(
        stack,
        "Lustre",
        file_system_type="LUSTRE",
        storage_type="SSD",
        storage_capacity=capacity,
        lustre_configuration=fsx.CfnFileSystem.LustreConfigurationProperty(
            deployment_type="PERSISTENT_2", per_unit_storage_throughput=250, efa_enabled=True
        ),
        **{"subnet_ids": ["subnet-1"], "kms_key_id": "k", **more},  # type: ignore[arg-type]
    )


def _auto_export(stack: Stack) -> None:
    association = fsx.CfnDataRepositoryAssociation
    association(
        stack,
        "Link",
        file_system_id="fs-1",
        file_system_path="/checkpoints",
        data_repository_path="s3://b/",
        s3=association.S3Property(
            auto_export_policy=association.AutoExportPolicyProperty(events=["NEW"])
        ),
    )


def _expiring(stack: Stack) -> None:
    s3.Bucket(stack, "Store", lifecycle_rules=[s3.LifecycleRule(expiration=Duration.days(30))])


def _unbound_role(stack: Stack) -> None:
    iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))


def _policy(stack: Stack, *actions: str, resource: str = "arn:aws:iam::1:role/x") -> None:
    role = iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    for action in actions:
        role.add_to_policy(iam.PolicyStatement(actions=[action], resources=[resource]))


def _whole_batches(stack: Stack) -> None:
    lambda_.CfnEventSourceMapping(stack, "Map", function_name="f", event_source_arn="q")


def _public(stack: Stack) -> None:
    ec2.CfnSubnet(stack, "Subnet", vpc_id="vpc-1", map_public_ip_on_launch=True)


WRONG: dict[str, Callable[[Stack], object]] = {
    "EfaSelfEgress": _no_self_egress,
    "AllTrafficFromOthers": _all_from_elsewhere,
    "LustreKey": lambda stack: _lustre(stack, 19200, kms_key_id=None),
    "LustreEfaCapacity": _lustre,
    "LustreOneSubnet": lambda stack: _lustre(stack, 19200, subnet_ids=["a", "b"]),
    "LustreAutoExport": _auto_export,
    "CurrentObjectsExpire": _expiring,
    "SageMakerRoleBound": _unbound_role,
    "PassRoleService": lambda stack: _policy(stack, "iam:PassRole"),
    "CreateJobPassesRole": lambda stack: _policy(stack, "sagemaker:CreateTrainingJob"),
    "PartialBatches": _whole_batches,
    "SubnetPublicAddress": _public,
}


def test_there_is_a_wrong_template_for_each_rule_of_ours() -> None:
    assert set(WRONG) == {rule.name for rule in RULES}


@pytest.mark.parametrize("name", WRONG)
def test_a_rule_of_ours_sees_what_it_is_for_and_no_other_does(name: str, tmp_path: Path) -> None:
    app = App(outdir=str(tmp_path), analytics_reporting=False)
    WRONG[name](Stack(app, "Bad"))
    Validations.of(app).add_plugins(EverstepChecks(app))
    with pytest.raises(RuntimeError):
        app.synth()
    ours = [v["ruleName"] for v in violations(tmp_path) if v["ruleName"].startswith("Everstep")]
    assert ours == [f"Everstep-{name}"]


def test_every_suppression_is_needed_and_is_one_resource_at_a_time(
    prod: Synthesised, options: Path
) -> None:
    used = {
        (violation["ruleName"], violation["reason"])
        for folder in (prod.folder, options)
        for plugin in json.loads((folder / "validation-report.json").read_text())["pluginReports"]
        for violation in plugin.get("suppressedViolations", [])
        # at the resource itself, or the policy around it: never at a stack
        if violation["acknowledgedAt"].count("/") >= 2
    }
    elsewhere = ("checkov", "cfn-lint", "Annotation")  # the tests below
    for row in SUPPRESSIONS:
        rules = [rule for rule in row.rules if plugin_of(rule) not in elsewhere]
        if rules:
            assert any((rule, row.reason) in used for rule in rules), row


def test_cfn_lint_is_silenced_where_cdk_names_a_role_twice_and_nowhere_else(
    prod: Synthesised,
) -> None:
    silenced = 0
    for template in prod.templates.values():
        for name, resource in template["Resources"].items():
            ignored = resource.get("Metadata", {}).get("cfn-lint", {})
            given = resource["Properties"]
            role = given.get("Role") or given.get("RoleArn")
            twice = isinstance(role, dict) and role.get("Fn::GetAtt", [None])[0] in resource.get(
                "DependsOn", []
            )
            of_ours = resource["Type"] in {row.kind for row in SUPPRESSIONS}
            assert bool(ignored) == (twice and of_ours), name
            assert not ignored or ignored == {"config": {"ignore_checks": ["W3005"]}}
            silenced += bool(ignored)
    assert silenced == len(HANDLER_STATES) + len(RULE_HANDLERS) + len(prod.config.teams)
    assert not list(ROOT.glob(".cfnlintrc*"))  # a file would silence a rule everywhere


def test_the_warning_of_someone_elses_subnets_is_there_until_its_row_is_applied() -> None:
    config, _ = check(asked_for("guest"))
    assert config is not None
    env = Environment(account=config.account, region=config.region)
    stack = NetworkStack(App(), "guest", env_name="guest", config=config, env=env)
    warning = Match.string_like_regexp("noSubnetRouteTableId")
    assert Annotations.from_stack(stack).find_warning("*", warning)
    stack = NetworkStack(App(), "guest", env_name="guest", config=config, env=env)
    acknowledge([stack])
    assert Annotations.from_stack(stack).find_warning("*", warning) == []


def test_hadolint_is_silenced_on_lines_that_have_a_reason() -> None:
    text = "\n".join(path.read_text() for path in (ROOT / "containers").glob("*.Dockerfile"))
    assert set(re.findall(r"(?<=hadolint ignore=)\S+", text)) == set(HADOLINT)
    assert "hadolint global" not in text
    assert not [*ROOT.glob(".hadolint*"), *(ROOT / "containers").glob(".hadolint*")]


def test_checkov_skips_are_on_resources(prod: Synthesised) -> None:
    ids = {
        skip["id"]
        for template in prod.templates.values()
        for resource in template["Resources"].values()
        for skip in resource.get("Metadata", {}).get("checkov", {}).get("skip", [])
    }
    assert ids == {
        rule for row in SUPPRESSIONS for rule in row.rules if plugin_of(rule) == "checkov"
    }


def test_the_page_for_reviewers_lists_every_suppression_and_wildcard(
    prod: Synthesised, options: Path
) -> None:
    text = page(prod.folder, options)
    assert "NO REASON" not in text
    reasons = [row.reason for row in SUPPRESSIONS] + [row.reason for row in WILDCARDS]
    for table in (ENDPOINTS, IAM_LINT, IAM_LINT_ELSEWHERE, HADOLINT):
        reasons += table.values()
    assert [reason for reason in reasons if reason not in text] == []
    assert re.search(r"JobRoleApplied.*PutMetricData.*keeps it to SageMaker's namespace", text)


def test_the_page_repeats_nothing_of_prod_among_what_config_has_to_ask_for(
    prod: Synthesised, options: Path
) -> None:
    beside = page(prod.folder, options).partition("only where config asks for it")[2]
    assert "PublicSubnet1/DefaultRoute" in beside
    assert "ssmmessages:OpenDataChannel" in beside
    assert "starport-layer-bucket" in beside
    assert "noSubnetRouteTableId" in beside
    assert "AwsSolutions-L1" not in beside
    assert "xray:" not in beside


def test_policies_resolve_to_whole_arns(prod: Synthesised) -> None:
    assert place_of(prod.folder) == Place("aws", "us-east-1", "444455556666")
    found = list(documents(load(prod.folder, place_of(prod.folder))))
    kinds = {"identity", "boundary", "trust", "resource"}
    assert {document.kind for document in found} == kinds
    for document in found:
        for statement in document.document["Statement"]:
            resources = statement.get("Resource", [])
            for name in [resources] if isinstance(resources, str) else resources:
                name = name.replace("${aws:PrincipalTag/team}", "research")
                assert name == "*" or re.fullmatch(r"arn:aws:[a-z0-9-]+:[^{}]*", name), name
                assert "unknown" not in name
