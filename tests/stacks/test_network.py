"""Security groups, endpoints, subnets."""

import json
import tomllib

import pytest
from aws_cdk import App, Environment
from aws_cdk.assertions import Match

from emulator.access import evaluate, statements_of
from stacks.config import CONFIG_FOLDER, check
from stacks.config_rules import TRAINING_ENDPOINTS
from stacks.logs_key import logs_suffix
from stacks.network import NetworkStack

from .conftest import Synthesised, flatten

LUSTRE = {(988, 988), (1018, 1023)}


def _group(prod: Synthesised, description: str) -> str:
    found = prod.template("network").find_resources(
        "AWS::EC2::SecurityGroup", {"Properties": {"GroupDescription": description}}
    )
    assert len(found) == 1
    return next(iter(found))


@pytest.fixture(scope="module")
def training(prod: Synthesised) -> str:
    return _group(prod, "Everstep training hosts")


@pytest.fixture(scope="module")
def lustre(prod: Synthesised) -> str:
    return _group(prod, "Everstep FSx for Lustre")


def _id(group: str) -> dict[str, list[str]]:
    return {"Fn::GetAtt": [group, "GroupId"]}


def test_efa_group_has_all_traffic_to_and_from_itself(prod: Synthesised, training: str) -> None:
    template = prod.template("network")
    template.has_resource_properties(
        "AWS::EC2::SecurityGroupEgress",
        {
            "GroupId": _id(training),
            "DestinationSecurityGroupId": _id(training),
            "IpProtocol": "-1",
        },
    )
    template.has_resource_properties(
        "AWS::EC2::SecurityGroupIngress",
        {"GroupId": _id(training), "SourceSecurityGroupId": _id(training), "IpProtocol": "-1"},
    )


def test_efa_group_lets_only_lustre_in_too_and_only_https_out_to_the_world(
    prod: Synthesised, training: str, lustre: str
) -> None:
    group = prod.templates["network"]["Resources"][training]["Properties"]
    assert "SecurityGroupIngress" not in group
    assert [(rule["CidrIp"], rule["FromPort"]) for rule in group["SecurityGroupEgress"]] == [
        ("0.0.0.0/0", 443)
    ]
    sources = [
        rule["SourceSecurityGroupId"]
        for rule in prod.resources("AWS::EC2::SecurityGroupIngress")
        if rule["GroupId"] == _id(training)
    ]
    assert sources == [*[_id(lustre)] * len(LUSTRE), _id(training)]


def _ports(prod: Synthesised, kind: str, group: str, other: str) -> set[tuple[int, int]]:
    end = "SourceSecurityGroupId" if kind.endswith("Ingress") else "DestinationSecurityGroupId"
    return {
        (rule["FromPort"], rule["ToPort"])
        for rule in prod.resources(kind)
        if rule["GroupId"] == _id(group) and rule[end] == _id(other) and "FromPort" in rule
    }


def test_lustre_ports_are_open_both_ways_and_between_servers(
    prod: Synthesised, training: str, lustre: str
) -> None:
    egress, ingress = "AWS::EC2::SecurityGroupEgress", "AWS::EC2::SecurityGroupIngress"
    assert _ports(prod, egress, training, lustre) == LUSTRE
    assert _ports(prod, ingress, lustre, training) == LUSTRE
    assert _ports(prod, egress, lustre, training) == LUSTRE
    assert _ports(prod, ingress, training, lustre) == LUSTRE
    assert _ports(prod, ingress, lustre, lustre) == LUSTRE
    assert _ports(prod, egress, lustre, lustre) == LUSTRE


def test_a_file_system_with_efa_has_all_traffic_with_itself_and_its_clients(
    more: Synthesised,
) -> None:
    """FSx makes none otherwise: "insufficient security group permissions"."""
    hosts, servers = (_group(more, f"Everstep {of}") for of in ("training hosts", "FSx for Lustre"))
    for end in ("Source", "Destination"):
        kind = f"AWS::EC2::SecurityGroup{'Ingress' if end == 'Source' else 'Egress'}"
        between = {
            (rule["GroupId"]["Fn::GetAtt"][0], rule[f"{end}SecurityGroupId"]["Fn::GetAtt"][0])
            for rule in more.resources(kind)
            if rule["IpProtocol"] == "-1"
        }
        assert between == {(one, other) for one in (hosts, servers) for other in (hosts, servers)}


def test_without_internet_no_endpoint_serves_keys_of_another_account() -> None:
    raw = tomllib.loads((CONFIG_FOLDER / "prod.toml").read_text())
    raw["network"] |= {"no_internet": True, "interface_endpoints": list(TRAINING_ENDPOINTS)}
    config, problems = check(raw)
    assert config is not None, problems
    app = App(context={"@aws-cdk/core:enablePartitionLiterals": True})
    env = Environment(account=config.account, region=config.region)
    NetworkStack(app, "closed", env_name="closed", config=config, env=env)
    resources = app.synth().get_stack_by_name("closed").template["Resources"].values()
    endpoints = [r["Properties"] for r in resources if r["Type"] == "AWS::EC2::VPCEndpoint"]
    assert len(endpoints) == len(TRAINING_ENDPOINTS) + 2
    assert not {"AWS::EC2::InternetGateway", "AWS::EC2::NatGateway", "AWS::EC2::Route"} & {
        r["Type"] for r in resources
    }
    theirs = {"aws:PrincipalAccount": "999988887777"}
    for endpoint in endpoints:
        statements = statements_of([endpoint["PolicyDocument"]])
        for action in ("s3:PutObject", "logs:PutLogEvents", "kms:Encrypt", "sts:AssumeRole"):
            ours = {"aws:PrincipalAccount": config.account}
            assert evaluate(statements, action, "arn:aws:s3:::anywhere/x", ours).allowed
            assert not evaluate(statements, action, "arn:aws:s3:::anywhere/x", theirs).allowed
            assert not evaluate(statements, action, "arn:aws:s3:::anywhere/x", {}).allowed
    (s3,) = [e for e in endpoints if flatten(e["ServiceName"]).endswith(".s3")]
    layer = "arn:aws:s3:::prod-us-east-1-starport-layer-bucket/x"
    assert evaluate(statements_of([s3["PolicyDocument"]]), "s3:GetObject", layer, {}).allowed


def test_subnets_are_the_configured_zones_and_have_no_way_out(prod: Synthesised) -> None:
    subnets = prod.resources("AWS::EC2::Subnet")
    assert [subnet["AvailabilityZone"] for subnet in subnets] == prod.config.network.zones
    assert all(not subnet["MapPublicIpOnLaunch"] for subnet in subnets)
    assert all(subnet["CidrBlock"].endswith("/18") for subnet in subnets)
    template = prod.template("network")
    template.resource_count_is("AWS::EC2::InternetGateway", 0)
    template.resource_count_is("AWS::EC2::NatGateway", 0)
    template.resource_count_is("AWS::EC2::FlowLog", 1)


def _groups_of(prod: Synthesised, part: str) -> dict[str, list[str]]:
    """Service principal → log groups, of the keys of a stack that let CloudWatch Logs in."""
    found = {}
    for resource in prod.templates[part]["Resources"].values():
        if resource["Type"] != "AWS::KMS::Key":
            continue
        for statement in resource["Properties"]["KeyPolicy"]["Statement"]:
            if statement.get("Sid") == "Logs":
                (operator,) = statement["Condition"]
                (names,) = statement["Condition"][operator].values()
                assert set(statement["Condition"][operator]) == {
                    "kms:EncryptionContext:aws:logs:arn"
                }
                arns = [flatten(n) for n in (names if isinstance(names, list) else [names])]
                found[statement["Principal"]["Service"]] = arns
    return found


def test_each_log_group_has_a_key_that_serves_the_environments_groups_alone(
    prod: Synthesised,
) -> None:
    groups = prod.resources("AWS::Logs::LogGroup")
    assert all("KmsKeyId" in group for group in groups)
    account = "arn:aws:logs:us-east-1:444455556666:log-group:"
    service = "logs.us-east-1.amazonaws.com"
    assert _groups_of(prod, "network") == {
        service: [
            f"{account}everstep-prod-network-*",
            f"{account}/aws/codebuild/everstep-prod-trainer",
        ]
    }
    (patterns,) = _groups_of(prod, "control-plane").values()
    starts = [pattern.removeprefix(account).rstrip("*") for pattern in patterns]
    named = [flatten(group["LogGroupName"]) for group in groups if "LogGroupName" in group]
    below = {"/aws/codebuild/everstep-prod-trainer"}
    assert {name for name in named if not name.startswith(tuple(starts))} == below


def test_flow_logs_and_builds_share_the_key_that_lies_below_them(prod: Synthesised) -> None:
    def keys(part: str) -> str:
        return json.dumps(
            [
                resource["Properties"]["KmsKeyId"]
                for resource in prod.templates[part]["Resources"].values()
                if resource["Type"] == "AWS::Logs::LogGroup"
            ]
        )

    assert "LogsKey" in keys("network")
    assert "LogsKey" in keys("images")
    assert "LogsKey" not in keys("control-plane")


@pytest.mark.parametrize(
    ("region", "suffix"),
    [
        ("us-east-1", "amazonaws.com"), ("us-gov-west-1", "amazonaws.com"),
        ("cn-north-1", "amazonaws.com.cn"),
    ],
)  # fmt: skip
def test_the_logs_service_is_the_partitions(region: str, suffix: str) -> None:
    assert logs_suffix(region) == suffix


def test_endpoints(prod: Synthesised) -> None:
    endpoints = prod.resources("AWS::EC2::VPCEndpoint")
    gateways = [e for e in endpoints if e["VpcEndpointType"] == "Gateway"]
    assert {flatten(e["ServiceName"]).rsplit(".", 1)[-1] for e in gateways} == {"s3", "dynamodb"}
    names = [
        flatten(e["ServiceName"]).split("us-east-1.")[-1]
        for e in endpoints
        if e["VpcEndpointType"] == "Interface"
    ]
    assert names == prod.config.network.interface_endpoints
    prod.template("network").all_resources_properties(
        "AWS::EC2::SecurityGroup",
        {"SecurityGroupIngress": Match.absent()},
    )
