"""The cost at rest, by hand for prod, and what makes it change."""

import json

from everstep.cli.stack_cost import BY_USE, PRICED, Line, at_rest

from .conftest import Synthesised


def _lines(found: Synthesised) -> dict[str, Line]:
    return {
        f"{line.kind} {line.basis}": line
        for line in at_rest(iter(found.templates.values()))
        if line.monthly_usd
    }


def test_prod_at_rest_is_what_it_is_by_hand(prod: Synthesised) -> None:
    lines = at_rest(iter(prod.templates.values()))
    of = {line.kind: line.monthly_usd for line in reversed(lines)}
    endpoints, zones = len(prod.config.network.interface_endpoints), 3
    assert of["FSx::FileSystem"] == 1200 * 0.210
    assert round(of["EC2::VPCEndpoint"], 2) == round(endpoints * zones * 0.01 * 730, 2)
    assert of["KMS::Key"] == 2
    assert of["CloudWatch::Dashboard"] == 6
    assert [line.monthly_usd for line in lines] == sorted(
        (line.monthly_usd for line in lines), reverse=True
    )


def test_nat_and_a_larger_file_system_cost_more(prod: Synthesised, more: Synthesised) -> None:
    before, after = _lines(prod), _lines(more)
    assert round(after["EC2::NatGateway 0.045/h"].monthly_usd, 2) == 32.85
    assert "EC2::NatGateway 0.045/h" not in before
    lustre = "FSx::FileSystem 0.21/GiB"
    assert after[lustre].monthly_usd == before[lustre].monthly_usd * 16


FREE = (
    "AWS::Budgets::Budget", "AWS::CDK::Metadata", "AWS::CloudFormation::", "AWS::EC2::EIP",
    "AWS::EC2::InternetGateway", "AWS::EC2::Route", "AWS::EC2::SecurityGroup", "AWS::EC2::Subnet",
    "AWS::EC2::VPC", "AWS::FSx::DataRepositoryAssociation", "AWS::IAM::", "AWS::KMS::Alias",
    "AWS::Lambda::", "AWS::Logs::", "AWS::S3::BucketPolicy", "AWS::SNS::", "AWS::SQS::",
    "AWS::SageMaker::ModelPackageGroup",
)  # fmt: skip


def test_no_type_of_ours_is_forgotten(more: Synthesised) -> None:
    kinds = {
        resource["Type"]
        for template in more.templates.values()
        for resource in json.loads(json.dumps(template))["Resources"].values()
    }
    assert [
        k for k in kinds if k not in PRICED and k not in BY_USE and not k.startswith(FREE)
    ] == []
