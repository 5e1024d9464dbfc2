"""Changing a run's spec: values, lists, sections, and what is refused."""

import copy
from typing import Any

import pytest

from everstep.cli.errors import CliError
from everstep.cli.spec_of import changed, spec_of
from everstep.contracts.check import check_spec
from tests.cli import watched


def spec() -> dict[str, Any]:
    return copy.deepcopy(spec_of(watched.run()))


def test_a_runs_spec_is_written_as_a_person_would() -> None:
    found = spec()
    assert found == {
        **watched.SPEC,
        "model": {"preset": "llama2-70b"},
        "data": {"prefix": "datasets/corpus"},
    }
    assert check_spec(found)[0] == watched.run().spec


def test_values_are_json_or_text_and_null_takes_away() -> None:
    found = changed(
        spec(),
        [
            "train.lr=1e-4",
            "compute.0.zone=us-east-1b",
            "budget.max_usd=null",
            "retry.max_attempts=3",
        ],
    )
    assert found["train"] == {"lr": 1e-4}
    assert found["compute"][0]["zone"] == "us-east-1b"
    assert "max_usd" not in found["budget"]
    assert found["retry"] == {"max_attempts": 3}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("train.lr", "is no change"),
        ("=3", "is no change"),
        ("train.lrr=3", "train.lrr"),
        ("compute.7.zone=a", "'7' is none of the list"),
        ("compute.first.zone=a", "'first' is none of the list"),
        ("model.preset.name=a", "'preset' has a value of its own"),
        ("stop.steps=0", "stop.steps"),
        ("stop=null", "stop"),
    ],
)
def test_what_is_refused(change: str, said: str) -> None:
    with pytest.raises(CliError) as raised:
        changed(spec(), [change])
    assert said in raised.value.what
    assert raised.value.hint
