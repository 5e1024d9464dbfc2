"""``everstep capacity`` over regions: one that fails stops no other, and is named."""

import json
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from botocore.validate import ParamValidator
from typer.testing import CliRunner

from everstep.cli import capacity as command
from everstep.cli.errors import CliError
from everstep.cli.main import app

REAL = boto3.Session(region_name="us-east-1", aws_access_key_id="t", aws_secret_access_key="t")
SHAPE = (
    REAL.client("sagemaker").meta.service_model.operation_model("SearchTrainingPlanOfferings")
).input_shape
WISH = ["capacity", "--instance-type", "ml.p5.48xlarge", "--nodes", "2", "--days", "3"]


class Regions:
    """A session whose regions say what a test puts into them."""

    region_name: str | None = "us-east-1"
    get_available_regions = staticmethod(REAL.get_available_regions)
    get_partition_for_region = staticmethod(REAL.get_partition_for_region)

    def __init__(self, says: dict[str, Any]) -> None:
        self.says = says
        self.asked: list[dict[str, Any]] = []

    def client(self, service: str, region_name: str | None = None) -> Any:
        return Client(self, region_name or "us-east-1")


class Client:
    def __init__(self, session: Regions, region: str) -> None:
        self.session, self.region = session, region

    def search_training_plan_offerings(self, **request: Any) -> dict[str, Any]:
        report = ParamValidator().validate(request, SHAPE)
        assert not report.has_errors(), report.generate_report()
        self.session.asked.append(request)
        said = self.session.says.get(self.region, [])
        if isinstance(said, Exception):
            raise said
        return {"TrainingPlanOfferings": said}

    def get_paginator(self, name: str) -> Any:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, name)

    def get_caller_identity(self) -> dict[str, str]:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "sts")


def _offer(day: int, fee: str | None, days: int = 3, **block: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "TrainingPlanOfferingId": f"tpo-{day}",
        "TargetResources": ["training-job"],
        "CurrencyCode": "USD",
        "ReservedCapacityOfferings": [
            {
                "InstanceType": "ml.p5.48xlarge",
                "InstanceCount": 2,
                "AvailabilityZone": "eu-west-1a",
                "StartTime": datetime(2026, 12, day, 11, 30, tzinfo=UTC),
                "EndTime": datetime(2026, 12, day + days, 11, 30, tzinfo=UTC),
                **block,
            }
        ],
    }
    return row if fee is None else {**row, "UpfrontFee": fee}


def _report(monkeypatch: pytest.MonkeyPatch, session: Regions, *words: str) -> dict[str, Any]:
    monkeypatch.setattr(command.boto3, "Session", lambda: session)
    result = CliRunner().invoke(app, [*WISH, *words, "--json"])
    if result.exception is not None:
        raise result.exception
    (report,) = json.loads(result.stdout)
    return dict(report)


def test_all_regions_are_asked_and_the_failing_ones_named(monkeypatch: pytest.MonkeyPatch) -> None:
    denied = ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "Search")
    session = Regions(
        {
            "eu-west-1": [_offer(9, "100.00"), _offer(5, "xxxx.xx")],
            "us-west-2": [_offer(5, "900.00", AvailabilityZone="us-west-2b")],
            "ap-south-2": EndpointConnectionError(endpoint_url="https://x"),
            "us-east-1": denied,
        }
    )
    report = _report(monkeypatch, session, "--region", "all")
    known = REAL.get_available_regions("sagemaker")
    assert len(session.asked) == len(known) > 20
    assert [(x["region"], x["offering_id"]) for x in report["offerings"]] == [
        ("us-west-2", "tpo-5"),
        ("eu-west-1", "tpo-5"),
        ("eu-west-1", "tpo-9"),
    ]
    assert set(report["not_searched"]) == {"ap-south-2", "us-east-1"}
    assert report["not_searched"]["us-east-1"] == "AccessDeniedException: no"
    # quotas are looked up where there is something to buy, and their lack is said
    assert set(report["quotas"]) == {"eu-west-1", "us-west-2"}
    assert "cannot be looked up" in report["quotas"]["eu-west-1"]


def test_a_fee_that_is_no_figure_is_unknown_and_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Regions({"us-east-1": [_offer(5, "xxxx.xx"), _offer(7, None), _offer(9, "143.00")]})
    offers = _report(monkeypatch, session, "--by", "price")["offerings"]
    assert [x["fee"] for x in offers] == [143.0, None, None]
    assert offers[0]["fee_per_usable_instance_hour"] == pytest.approx(143 / 71.5 / 2)
    (place,) = offers[0]["spec"]["compute"]
    assert ":ACCOUNT:training-plan/p5-48xlarge-x2-20261209-1130" in place["training_plan_arn"]


def test_what_is_asked_is_days_in_hours_for_training_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Regions({})
    times = ["--after", "2026-12-24", "--before", "2027-01-31T12:00:00"]
    assert _report(monkeypatch, session, *times)["offerings"] == []
    assert session.asked == [
        {
            "InstanceType": "ml.p5.48xlarge",
            "InstanceCount": 2,
            "DurationHours": 72,
            "TargetResources": ["training-job"],
            "StartTimeAfter": datetime(2026, 12, 24, tzinfo=UTC),
            "EndTimeBefore": datetime(2027, 1, 31, 12, tzinfo=UTC),
        }
    ]


def test_an_environment_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Regions({})
    with pytest.raises(CliError, match="environment 'nope' is not in config/") as refused:
        _report(monkeypatch, session, "--env", "nope")
    assert "dev" in str(refused.value.hint)
    assert session.asked == []


def test_without_a_region_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Regions({})
    session.region_name = None
    with pytest.raises(CliError, match="no region is set"):
        _report(monkeypatch, session)
    assert session.asked == []
