"""Dashboards, queries, alarms, budget: that what they name exists."""

import copy
import json
import re
from typing import Any

import pytest

from everstep.contracts.metrics import ALL, RUN
from everstep.contracts.names import metrics_namespace
from everstep.contracts.progress import METRICS
from stacks.config import ROOT

from .conftest import Synthesised, flatten, untagged


@pytest.fixture(scope="module")
def boards(prod: Synthesised) -> dict[str, dict[str, Any]]:
    """Bodies by the last word of their names."""
    return {
        board["DashboardName"].rsplit("-", 1)[-1]: json.loads(flatten(board["DashboardBody"]))
        for board in prod.resources("AWS::CloudWatch::Dashboard")
    }


@pytest.mark.parametrize(
    ("board", "wanted"),
    [
        (
            "fleet",
            ["ExecutionsFailed", "everstep:tokens_per_s", "everstep:mfu", "GPUUtilization",
             "5xxErrors", "DataReadBytes", "CallCount", "Attempts", "Runs", "QuotaHeadroom",
             "Goodput", "SpentUsd", "BudgetUsed", "ApproximateNumberOfMessagesVisible"],
        ),
        (
            "run",
            ["everstep:loss", "everstep:step", "everstep:tokens_per_s", "everstep:mfu",
             "GPUUtilization", "GPUMemoryUtilization", "filter run_id", "Goodput", "SpentUsd",
             "SpentGpuHours", "BudgetUsed", "5xxErrors", "DataReadBytes"],
        ),
    ],
)  # fmt: skip
def test_a_dashboard_shows(boards: dict[str, Any], board: str, wanted: list[str]) -> None:
    text = json.dumps(boards[board])
    assert [word for word in wanted if word not in text] == []


def test_every_figure_of_the_trainer_on_a_dashboard_is_one_that_it_has(
    boards: dict[str, Any],
) -> None:
    shown = set(re.findall(r"everstep:([a-z_]+)", json.dumps(boards)))
    assert shown
    assert shown <= set(METRICS)


def _searched(board: dict[str, Any]) -> set[tuple[str, tuple[str, ...]]]:
    """(metric, dimensions) of each search in the namespace of what handlers emit."""
    text = json.dumps(board).replace('\\"', "'").replace("\\'", "'")
    space = re.escape(metrics_namespace("prod"))
    found = re.findall(rf"{{\W*{space}\W*?((?:,\w+)+)}} MetricName=\W*(\w+)", text)
    return {(name, tuple(words.strip(",").split(","))) for words, name in found}


def test_dashboards_show_what_handlers_emit_and_nothing_else(boards: dict[str, Any]) -> None:
    """The other half: tests/lambdas/test_figures.py, that handlers emit the same table."""
    shown = {one for board in boards.values() for one in _searched(board)}
    assert shown == {(metric.name, metric.dimensions) for metric in ALL}
    of_run = {(metric.name, metric.dimensions) for metric in ALL if RUN in metric.dimensions}
    assert of_run == _searched(boards["run"])


def test_the_guide_lists_every_metric_with_its_dimensions() -> None:
    text = (ROOT / "docs" / "guides" / "dashboards.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", text, re.MULTILINE)
    listed = [(name, tuple(words.replace("`", "").split(", "))) for name, words in rows]
    assert listed == [(metric.name, metric.dimensions) for metric in ALL]


def test_the_query_of_all_runs_reads_fields_of_the_lines(prod: Synthesised) -> None:
    (text,) = [
        query["QueryString"]
        for query in prod.resources("AWS::Logs::QueryDefinition")
        if query["Name"].endswith("/spend-and-goodput-of-runs")
    ]
    assert set(re.findall(r"latest\((\w+)\.0\)", text)) == {
        metric.name for metric in ALL if RUN in metric.dimensions
    }


def test_handlers_emit_into_the_namespace_of_their_environment(prod: Synthesised) -> None:
    texts = [
        flatten(f["Environment"]["Variables"]["EVERSTEP_CONTROL"])
        for f in prod.resources("AWS::Lambda::Function")
        if "EVERSTEP_CONTROL" in f.get("Environment", {}).get("Variables", {})
    ]
    assert texts
    assert all('"metrics_namespace":"Everstep/prod"' in text for text in texts)


def test_the_run_dashboard_takes_any_run(boards: dict[str, Any]) -> None:
    (variable,) = boards["run"]["variables"]
    assert (variable["type"], variable["inputType"]) == ("pattern", "input")
    searches = re.findall(r"SEARCH\('(.*?)'", json.dumps(boards["run"]))
    assert len(searches) >= 9
    assert all(variable["pattern"] in search for search in searches)


def test_every_alarm_tells_the_topic_what_to_do(prod: Synthesised) -> None:
    alarms = prod.resources("AWS::CloudWatch::Alarm")
    assert len(alarms) >= 10
    for alarm in alarms:
        assert len(alarm["AlarmActions"]) == 1, alarm
        what, todo, _ = alarm["AlarmDescription"].split(". ", 2)
        assert min(len(what), len(todo)) > 20, alarm


def test_every_alarm_links_its_entry_of_the_runbook(prod: Synthesised, more: Synthesised) -> None:
    runbook = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    headings = re.findall(r"^### (Alarm: .*)$", runbook, re.MULTILINE)
    anchors = {heading.lower().replace(":", "").replace(" ", "-") for heading in headings}
    found = {
        alarm["AlarmDescription"].rsplit(" ", 1)[1]
        for stacks in (prod, more)
        for alarm in stacks.resources("AWS::CloudWatch::Alarm")
    }
    assert found == {f"{prod.config.runbook_url}#{anchor}" for anchor in anchors}


def test_saved_queries_read_logs_that_exist(prod: Synthesised) -> None:
    groups = {group.get("LogGroupName") for group in prod.resources("AWS::Logs::LogGroup")}
    queries = prod.resources("AWS::Logs::QueryDefinition")
    assert len(queries) >= 4
    for query in queries:
        assert query["Name"].startswith("everstep/prod/")
        assert set(query["LogGroupNames"]) <= groups | {"/aws/sagemaker/TrainingJobs"}


def test_the_budget_counts_this_environment_and_tells_someone(prod: Synthesised) -> None:
    (budget,) = prod.resources("AWS::Budgets::Budget")
    assert budget["Budget"]["CostFilters"] == {"TagKeyValue": ["user:environment$prod"]}
    subscribers = [n["Subscribers"] for n in budget["NotificationsWithSubscribers"]]
    assert subscribers == [[{"Address": "ml-oncall@example.com", "SubscriptionType": "EMAIL"}]] * 3


def test_functions_and_machines_are_traced(prod: Synthesised) -> None:
    assert all(
        f["TracingConfig"] == {"Mode": "Active"} for f in prod.resources("AWS::Lambda::Function")
    )
    assert all(
        m["TracingConfiguration"] == {"Enabled": True}
        for m in prod.resources("AWS::StepFunctions::StateMachine")
    )


def test_what_can_carry_tags_carries_those_for_cost_allocation(
    prod: Synthesised, more: Synthesised
) -> None:
    assert prod.config.tags == {"project": "everstep", "environment": "prod"}
    assert untagged(prod) == untagged(more) == []
    bare = copy.deepcopy(prod)
    for resource in bare.templates["network"]["Resources"].values():
        if resource["Type"] == "AWS::KMS::Key":
            del resource["Properties"]["Tags"]
    (lacking,) = untagged(bare)
    assert lacking.endswith("(AWS::KMS::Key)")
