"""Who may ask for a way into a container, and what stands in the way of one who looks."""

from typing import Any

import pytest

from everstep.contracts.payloads import Team
from everstep.contracts.records import Launch
from everstep.contracts.run_spec import Group, RunSpec
from everstep.policy.remote_debug import obstacles, remote_debug_problems, target_of

TEAM = Team(
    name="research",
    job_role_arn="r",
    data_uri="s3://d/research",
    checkpoint_uri="s3://c/research",
    output_uri="s3://o/research",
    image_repository="x",
)


def spec(on: bool = True) -> RunSpec:
    return RunSpec.model_validate(
        {
            "model": "tiny",
            "data": "d",
            "stop": {"steps": 1},
            "compute": [{"instance_type": "ml.m5.large"}],
            "service": {"remote_debug": on},
        }
    )


LAUNCH = Launch(
    run_id="research--x",
    launch=2,
    job_name="research--x-00002",
    execution_arn="e",
    instance_type="ml.m5.large",
    nodes=2,
    groups=[Group(name="data", instance_type="ml.m5.large", count=1)],
    planned_epoch=0,
)


@pytest.mark.parametrize(
    ("on", "allowed", "run_id", "words"),
    [
        (False, False, "x", []),
        (True, True, "research--x", []),
        (True, False, "research--x", ["not turned on for team research"]),
        (True, True, "x", ["named after its team"]),
        (True, True, "research-x", ["named after its team"]),
        (True, False, "applied--x", ["not turned on", "named after its team"]),
    ],
)
def test_config_and_name_decide_who_may_ask(
    on: bool, allowed: bool, run_id: str, words: list[str]
) -> None:
    team = TEAM.model_copy(update={"remote_debug": allowed})
    problems = list(remote_debug_problems(spec(on), team, run_id))
    assert [p.path for p in problems] == ["service.remote_debug"] * len(words)
    assert all(word in p.message for word, p in zip(words, problems, strict=True))
    assert all(p.hint for p in problems)


@pytest.mark.parametrize(
    ("on", "status", "secondary", "host", "words"),
    [
        (True, "InProgress", "Training", 1, []),
        (True, "InProgress", "Training", 3, []),
        (True, "InProgress", "Training", 4, ["host 4 is none"]),
        (True, "InProgress", "Training", 0, ["host 0 is none"]),
        (True, "InProgress", "Downloading", 1, ["is in Downloading"]),
        (True, "Completed", "Completed", 1, ["is Completed"]),
        (False, "Failed", "Failed", 9, ["host 9", "without a way in", "is Failed"]),
    ],
)
def test_everything_that_stands_in_the_way_is_said(
    on: bool, status: str, secondary: str, host: int, words: list[str]
) -> None:
    found: list[Any] = list(obstacles(spec(on), LAUNCH, status, secondary, host))
    assert len(found) == len(words)
    assert all(word in x.what for word, x in zip(words, found, strict=True))


def test_a_container_is_called_as_session_manager_calls_it() -> None:
    assert target_of(LAUNCH, 3) == "sagemaker-training-job:research--x-00002_algo-3"
