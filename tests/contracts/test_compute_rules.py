"""Purchases, pools, groups, Trainium: each combination that is refused, and those that are not."""

from typing import Any

import pytest

from everstep.contracts.check import check_spec
from everstep.contracts.problems import Problem
from tests.contracts.wrong_specs import FOREIGN, P5, PLAN, REFUSED, group


def problems_of(target: dict[str, Any], **sections: Any) -> list[Problem]:
    raw = {
        "model": "tiny",
        "data": "datasets/stdlib",
        "stop": {"steps": 10},
        "compute": [{**P5, **target}],
        **sections,
    }
    return check_spec(raw)[1]


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_go_together_is_refused_with_path_and_hint(name: str) -> None:
    target, sections, path, words = REFUSED[name]
    problems = problems_of(target, **sections)
    assert len(problems) == 1, problems
    assert problems[0].path.endswith(path)
    assert words in problems[0].message
    assert problems[0].hint


@pytest.mark.parametrize(
    ("target", "sections"),
    [
        (PLAN, {}),
        ({"purchase": "spot"}, {}),
        ({"warm_pool_seconds": 3600}, {}),
        ({"groups": [group(count=2)], "data_groups": ["train", "data"]}, FOREIGN),
        ({"groups": [group("ml.g5.48xlarge")]}, FOREIGN),
        ({"instance_type": "ml.trn2.48xlarge", **PLAN}, FOREIGN),
    ],
)
def test_what_goes_together_is_taken(target: dict[str, Any], sections: dict[str, Any]) -> None:
    assert problems_of(target, **sections) == []
