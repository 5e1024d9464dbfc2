"""Security groups, endpoints, subnets."""

import pytest
from aws_cdk.assertions import Match

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


def test_efa_group_lets_nothing_else_in_and_only_https_out_to_the_world(
    prod: Synthesised, training: str
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
    assert sources == [_id(training)]


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
    assert _ports(prod, ingress, lustre, lustre) == LUSTRE
    assert _ports(prod, egress, lustre, lustre) == LUSTRE


def test_subnets_are_the_configured_zones_and_have_no_way_out(prod: Synthesised) -> None:
    subnets = prod.resources("AWS::EC2::Subnet")
    assert [subnet["AvailabilityZone"] for subnet in subnets] == prod.config.network.zones
    assert all(not subnet["MapPublicIpOnLaunch"] for subnet in subnets)
    assert all(subnet["CidrBlock"].endswith("/18") for subnet in subnets)
    template = prod.template("network")
    template.resource_count_is("AWS::EC2::InternetGateway", 0)
    template.resource_count_is("AWS::EC2::NatGateway", 0)
    template.resource_count_is("AWS::EC2::FlowLog", 1)


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
