"""``start.checkpoint``: a run that begins from another run's checkpoint, looked for in time."""

from typing import Any

import pytest

from everstep.contracts.payloads import State
from tests.lambdas.test_lives import Life
from tests.lambdas.world import TEAM, World

OTHER = "other-run"
STEP = "step-00000040.00002"
BEGIN = {"checkpoint": f"{OTHER}/{STEP}"}


def put_other(world: World) -> None:
    assert world.put_checkpoint(40, launch=2, run=OTHER) == STEP


def test_its_first_launch_begins_at_the_others_step(world: World) -> None:
    put_other(world)
    life = Life(world, start=BEGIN)
    assert life.go() is State.LAUNCH_ATTEMPT
    launch = world.launch()
    assert (launch.resume_step, launch.resume_checkpoint) == (40, None)
    environment = world.sagemaker.jobs[launch.job_name]["Environment"]
    assert environment["EVERSTEP_START_FROM"] == f"{TEAM.checkpoint_uri}/{OTHER}/{STEP}"
    assert "EVERSTEP_START_WITH" not in environment


def test_weights_alone_begin_at_step_0(world: World) -> None:
    put_other(world)
    life = Life(world, start=BEGIN | {"weights_only": True})
    assert life.go() is State.LAUNCH_ATTEMPT
    launch = world.launch()
    assert launch.resume_step == 0
    assert world.sagemaker.jobs[launch.job_name]["Environment"]["EVERSTEP_START_WITH"] == "weights"


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ({"checkpoint": f"{OTHER}/step-00000041.00002"}, f"{OTHER}/{STEP}"),
        ({"checkpoint": f"nobody/{STEP}"}, "run nobody has none"),
        ({"checkpoint": f"../secret/{STEP}"}, "start.checkpoint"),
        ({"checkpoint": STEP}, "start.checkpoint"),
        ({"weights_only": True}, "of which checkpoint is not said"),
    ],
)
def test_what_is_not_there_is_refused(world: World, start: dict[str, Any], words: str) -> None:
    put_other(world)
    life = Life(world, start=start)
    assert life.go() is State.REFUSE_SPEC
    assert words in life.payload["message"]


def test_a_run_that_would_have_nothing_to_do_is_refused(world: World) -> None:
    put_other(world)
    life = Life(world, start=BEGIN, stop={"steps": 40})
    assert life.go() is State.REFUSE_SPEC
    assert "is at step 40, and the run's last step is 40" in life.payload["message"]
    weights = Life(world, start=BEGIN | {"weights_only": True}, stop={"steps": 40})
    assert weights.go() is not State.REFUSE_SPEC


def test_once_it_has_its_own_checkpoint_the_other_may_go(world: World) -> None:
    """A continuation of the run, ``-cNN``, is checked anew."""
    world.put_checkpoint(60)
    assert Life(world, start=BEGIN).go() is not State.REFUSE_SPEC
