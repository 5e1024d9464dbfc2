"""Purchases, pools, groups, Trainium: each combination that is refused, and those that are not."""

from typing import Any

import pytest

from everstep.contracts.check import check_spec
from everstep.contracts.problems import Problem

P5 = {"instance_type": "ml.p5.48xlarge", "nodes": 2}
ARN = "arn:aws:sagemaker:us-east-1:111122223333:training-plan/x"
PLAN = {"purchase": "training_plan", "training_plan_arn": ARN}
FOREIGN = {"trainer": {"command": ["python", "fork.py"]}}


def _group(kind: str = "ml.c5.18xlarge", name: str = "data", **more: Any) -> dict[str, Any]:
    return {"name": name, "instance_type": kind, **more}


def problems_of(target: dict[str, Any], **sections: Any) -> list[Problem]:
    raw = {
        "model": "tiny",
        "data": "datasets/stdlib",
        "stop": {"steps": 10},
        "compute": [{**P5, **target}],
        **sections,
    }
    return check_spec(raw)[1]


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "spot and pool": (
        {"purchase": "spot", "warm_pool_seconds": 60},
        {},
        "warm_pool_seconds",
        "no warm pool for a spot job",
    ),
    "plan and pool": (
        {**PLAN, "warm_pool_seconds": 60},
        {},
        "warm_pool_seconds",
        "no pool to keep",
    ),
    "groups and pool": (
        {"groups": [_group()], "warm_pool_seconds": 60},
        FOREIGN,
        "warm_pool_seconds",
        "no warm pool for a heterogeneous cluster",
    ),
    "pool above the guide's hour": (
        {"warm_pool_seconds": 3601},
        {},
        "warm_pool_seconds",
        "less than or equal to 3600",
    ),
    "plan without its ARN": ({"purchase": "training_plan"}, {}, "training_plan_arn", "go together"),
    "ARN without a plan": ({"training_plan_arn": ARN}, {}, "training_plan_arn", "go together"),
    "spot with a plan's ARN": (
        {"purchase": "spot", "training_plan_arn": ARN},
        {},
        "training_plan_arn",
        "go together",
    ),
    "plan of a type that none holds": (
        {**PLAN, "instance_type": "ml.g5.48xlarge"},
        {},
        "instance_type",
        "no training plan holds this type",
    ),
    "groups in a plan": ({**PLAN, "groups": [_group()]}, FOREIGN, "groups", "one type"),
    "unknown type of a group": (
        {"groups": [_group("ml.c5.17xlarge")]},
        FOREIGN,
        "groups.0.instance_type",
        "unknown instance type",
    ),
    "six groups": (
        {"groups": [_group(name=f"g{n}") for n in range(5)]},
        FOREIGN,
        "groups",
        "at most 4",
    ),
    "a second training group": (
        {"groups": [_group(name="train")]},
        FOREIGN,
        "groups.0.name",
        "second group",
    ),
    "two groups of one name": (
        {"groups": [_group(), _group()]},
        FOREIGN,
        "groups.1.name",
        "second group",
    ),
    "data for no group": (
        {"groups": [_group()], "data_groups": ["dta"]},
        FOREIGN,
        "data_groups",
        "is no group of this job",
    ),
    "data for groups where there are none": (
        {"data_groups": ["train"]},
        {},
        "data_groups",
        "is no group of this job",
    ),
    "data for a group without a channel": (
        {"groups": [_group()], "data_groups": ["data"]},
        {**FOREIGN, "data": {"prefix": "a", "mode": "s3"}},
        "data_groups",
        "has no channel",
    ),
    "other GPUs beside the reference trainer": (
        {"groups": [_group("ml.g5.48xlarge")]},
        {},
        "groups",
        "wait for the slowest",
    ),
    "CPU hosts beside the reference trainer": (
        {"groups": [_group()]},
        {},
        "groups",
        "nothing to do",
    ),
    "the same GPUs beside the reference trainer": (
        {"groups": [_group("ml.p5.48xlarge")]},
        {},
        "groups",
        "more nodes",
    ),
    "torchrun over groups": (
        {"groups": [_group()]},
        {"trainer": {"command": ["train.py"], "launcher": "torchrun"}},
        "launcher",
        "hosts that do not train",
    ),
    "Trainium with the reference trainer": (
        {"instance_type": "ml.trn1.32xlarge"},
        {},
        "instance_type",
        "not on Trainium",
    ),
}


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
        ({"groups": [_group(count=2)], "data_groups": ["train", "data"]}, FOREIGN),
        ({"groups": [_group("ml.g5.48xlarge")]}, FOREIGN),
        ({"instance_type": "ml.trn2.48xlarge", **PLAN}, FOREIGN),
    ],
)
def test_what_goes_together_is_taken(target: dict[str, Any], sections: dict[str, Any]) -> None:
    assert problems_of(target, **sections) == []
