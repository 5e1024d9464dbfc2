"""``everstep classify``: a line of JSON a line of input, nothing secret, bad input refused."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from everstep.contracts.failures import UserRule
from tests.cli.test_errors import check_refused, everstep

LINES = [
    {"id": "a", "text": "ValueError: DB_PASSWORD=hunter2hunter2", "where": "CloudWatch log"},
    {
        "id": "b",
        "text": "CapacityError: Unable to provision requested ML compute capacity.",
        "where": "FailureReason of DescribeTrainingJob",
    },
    {"id": "c", "text": "Stopped - Training job stopped", "where": "DescribeTrainingJob status"},
]


def test_each_line_is_answered_in_order_and_without_secrets(tmp_path: Path) -> None:
    file = tmp_path / "messages.jsonl"
    file.write_text("\n".join(map(json.dumps, LINES)))
    done = everstep("classify", "--jsonl", str(file))
    assert done.returncode == 0, done.stderr
    assert "hunter2" not in done.stdout
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(x["id"], x["class"], x["action"]) for x in answers] == [
        ("a", "user_code", "do_not_retry"),
        ("b", "capacity", "retry_backoff"),
        ("c", "unknown", "do_not_retry"),  # the data that this form is of has no user_stop
    ]
    assert all(set(x) == {"id", "class", "action", "cause"} for x in answers)


def test_an_explanation_names_the_rule_and_what_it_outranked() -> None:
    text = "[rank1]: Watchdog caught collective operation timeout\n[rank3]: KeyError: 'x'"
    done = everstep("classify", "--explain", text=text)
    assert done.returncode == 0, done.stderr
    for part in ("user_code", "rank        3", "rule        python", "outranked   collective"):
        assert part in done.stdout
    assert "a cause outranks a victim" in done.stdout


def test_rules_of_ones_own_are_tried_out(tmp_path: Path) -> None:
    rules = tmp_path / "mine.toml"
    rules.write_text('[[rules]]\nid = "mine"\npattern = "tape is full"\nclass = "bad_config"\n')
    done = everstep("classify", "--rules", str(rules), text="ValueError: the tape is full")
    assert "bad_config" in done.stdout
    rules.write_text('[[rules]]\nid = "mine"\npattern = "("\nclass = "gremlins"\n')
    done = everstep("classify", "--rules", str(rules), text="x")
    check_refused(done, 2, "rules.0.pattern", "rules.0.class")


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        r"(\w+\s?)*:",
        "(?:aa|a)+b",
        "(a?a?)*b",
        "(?P<x>(?:a{1,9}){1,20})b",
        "(?=(a*)*b)xyz",
    ],
)
def test_a_rule_that_could_hang_is_refused(pattern: str) -> None:
    with pytest.raises(ValidationError, match=r"repeats what itself repeats.*hint"):
        UserRule.model_validate({"id": "mine", "pattern": pattern, "class": "bad_config"})


@pytest.mark.parametrize(
    "pattern",
    [r"tape .*(?:full|torn)", r"(?:\d{1,3}\.){3}\d+", "(?:[0-9a-f]{2}:)+ dead", "(a|b)+c"],
)
def test_a_rule_of_one_repeat_is_taken(pattern: str) -> None:
    UserRule.model_validate({"id": "mine", "pattern": pattern, "class": "bad_config"})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 1: is not JSON"),
        ("[]", "is not a JSON object"),
        ('{"id": "a", "text": "x"}', "'where' is missing"),
        ('{"id": "a", "text": "x", "where": "a dream"}', "unknown kind 'a dream'"),
        ('{"id": 1, "text": "x", "where": "CloudWatch log"}', "'id' is missing or no text"),
    ],
)
def test_a_wrong_line_is_named_and_nothing_is_answered(line: str, said: str) -> None:
    check_refused(everstep("classify", "--jsonl", "-", text=line), 2, said)


def test_no_text_and_no_file_are_refused() -> None:
    check_refused(everstep("classify", text=" "), 2, "there is no text")
    check_refused(everstep("classify", "no/such.log"), 2, "No such file")
    check_refused(everstep("classify", "a", "--jsonl", "b"), 2, "both")
