"""Saved queries and the log widget of a dashboard: each field that they name is in lines that the
functions whose logs they read really write."""

import io
import json
import re
from collections import defaultdict
from contextlib import redirect_stdout
from importlib import import_module
from typing import Any, NamedTuple

import pytest

from everstep.contracts.names import function_name, handler_folder
from everstep.contracts.progress import METRICS, format_line
from lambdas.aws import services as module
from tests.lambdas.test_figures import a_life
from tests.lambdas.world import World, a_world

from .conftest import Synthesised, flatten

JOBS = "/aws/sagemaker/TrainingJobs"


class Query(NamedTuple):
    name: str
    groups: list[str]
    text: str


@pytest.fixture(scope="module")
def queries(prod: Synthesised) -> list[Query]:
    saved = [
        Query(x["Name"].rpartition("/")[2], x["LogGroupNames"], x["QueryString"])
        for x in prod.resources("AWS::Logs::QueryDefinition")
    ]
    widgets = [
        widget["properties"]
        for board in prod.resources("AWS::CloudWatch::Dashboard")
        for widget in json.loads(flatten(board["DashboardBody"]))["widgets"]
        if widget["type"] == "log"
    ]
    return saved + [
        Query(
            x["title"],
            re.findall(r"SOURCE '(.*?)'", x["query"]),
            re.sub(r"^(SOURCE '.*?' \| )+", "", x["query"]),
        )
        for x in widgets
    ]


@pytest.fixture(scope="module")
def lines() -> dict[str, list[dict[str, Any]]]:
    """By log group, of a run that lost a host and whose messages no topic took. Through
    ``handler``, as Lambda calls it: what is printed meanwhile is its log."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    out = io.StringIO()

    def call(world: World, folder: str, payload: Any) -> Any:
        patch.setattr(module, "_services", world.services())
        try:
            return import_module(f"lambdas.{folder}.handler").handler(payload, None)
        finally:
            group = f"/aws/lambda/{function_name('prod', folder)}"
            found[group] += [json.loads(line) for line in out.getvalue().splitlines()]
            out.truncate(out.seek(0))

    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), a_world() as world:
        patch.setattr(module.logger.registered_handler, "stream", out)
        patch.setattr(World, "act", lambda w, state, input: call(w, handler_folder(state), input))
        patch.setattr(World, "watch", lambda w: call(w, "watchdog", {}))
        world.env = world.env.model_copy(update={"topic_arn": f"{world.env.topic_arn}-gone"})
        a_life(world)
    return found


def _reads(text: str) -> set[str]:
    """Fields that a query reads: neither CloudWatch's own nor those that it makes."""
    found = set(re.findall(r"(?:filter |ispresent\()(\w+)", text)) - {"ispresent"}
    found |= set(re.findall(r"latest\((\w+)\.0\)", text))
    for listed in re.findall(r"(?:^fields| by) ([@\w, ]+)$", text, re.MULTILINE):
        found |= set(listed.split(", "))
    made = set(re.findall(r" as (\w+)$", text, re.MULTILINE))
    return {name for name in found if name[0] != "@"} - made


def _lets_through(text: str, line: dict[str, Any]) -> bool:
    if levels := re.search(r"filter level in \[(.*?)\]", text):
        return repr(line.get("level")) in levels[1]
    (needed,) = re.findall(r"filter (?:ispresent\()?(\w+)", text)
    return needed in line


def test_what_is_asked_of_handlers_is_in_their_lines(
    queries: list[Query], lines: dict[str, list[dict[str, Any]]]
) -> None:
    asked = [query for query in queries if query.groups != [JOBS]]
    assert len(asked) == 4
    for query in asked:
        let = [x for group in query.groups for x in lines[group] if _lets_through(query.text, x)]
        assert let, query
        assert _reads(query.text) - {key for line in let for key in line} == set(), query


def test_an_attempts_class_decision_and_next_state_are_read_at_once(
    queries: list[Query], lines: dict[str, list[dict[str, Any]]]
) -> None:
    told = [x for of_group in lines.values() for x in of_group if x.get("launch") == 1]
    assert {x["class"] for x in told if "class" in x} == {"infrastructure"}
    assert {x["decision"] for x in told if "decision" in x} == {"retry"}
    assert {"Decide", "CheckQuota"} <= {x["next"] for x in told if "next" in x}
    for name in ("attempts-and-decisions", "Attempts, classes and decisions"):
        (query,) = [x for x in queries if x.name == name]
        assert {"class", "decision", "next", "launch", "message"} <= _reads(query.text)


@pytest.mark.parametrize(
    "text",
    [
        "[ERROR] NotClassified: launch 1 of run my-run\nTraceback (most recent call last):",
        "2026-11-30T08:00:00.000Z 8f507cfc Task timed out after 30.00 seconds",
    ],
)
def test_what_the_runtime_says_of_a_handler_is_an_error_too(
    queries: list[Query], text: str
) -> None:
    """As aws-lambda-python-runtime-interface-client (bootstrap.py) writes it without JSON logs."""
    (query,) = [x for x in queries if x.name == "handler-errors"]
    assert re.search(re.findall(r"@message like /(.*)/", query.text)[0], text)


def test_what_is_asked_of_jobs_is_in_a_step_line(queries: list[Query]) -> None:
    line = format_line("step", **dict.fromkeys(METRICS, 1.5), tokens=8)
    asked = [x for query in queries for x in re.findall(r"parse @message '(.*?)' as", query.text)]
    assert len(asked) == 3
    assert [x for x in asked if not re.search(re.escape(x).replace(r"\*", ".*?"), line)] == []
