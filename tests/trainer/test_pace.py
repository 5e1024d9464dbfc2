"""When checkpoints are due, and the interval that follows what they cost."""

from pathlib import Path

import pytest

from everstep.contracts.check import check_spec
from everstep.contracts.training_spec import Checkpoint
from everstep.policy.checkpoint_interval import interval, mean_time_between_failures
from tests.trainer.harness import Alone, of_kind
from trainer.checkpoint import pace as module
from trainer.checkpoint.pace import Pace
from trainer.config import TrainerConfig
from trainer.errors import ConfigError
from trainer.host import Worker
from trainer.report import Reporter

WORKER = Worker(world_size=64, local_world_size=8, node_dir=Path("/nowhere"), started_epoch=0.0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_minutes_are_counted_from_the_last_save(clock: list[float]) -> None:
    pace = Pace(Checkpoint(every_minutes=2), WORKER, Reporter(1))
    clock[0] += 119
    assert not pace.due()
    clock[0] += 2
    assert pace.due()
    pace.saved(0.0)
    assert not pace.due()
    pace.stepped(1.0, False, 5.0)
    assert pace.seconds == 120, "a given interval is not changed by what is measured"


def test_steps_are_not_counted_here() -> None:
    assert Pace(Checkpoint(every_steps=5), WORKER, Reporter(1)).seconds is None


def test_the_interval_follows_the_measured_cost(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Checkpoint(failures_per_node_day=0.1)
    pace = Pace(settings, WORKER, Reporter(0))
    assert pace.seconds == module.FIRST_SECONDS
    for _ in range(5):
        pace.stepped(2.0, False, 0.0)
    pace.saved(0.5)
    clock[0] += 1e6
    assert not pace.due(), "one is in flight"
    pace.stepped(3.0, True, 0.0)
    pace.stepped(4.0, True, 0.0)
    assert pace.cost() == pytest.approx(0.5 + 1.0 + 2.0)
    pace.stepped(2.0, False, 40.0)
    mtbf = mean_time_between_failures(8, 0.1)
    assert pace.seconds == interval(3.5, 40.0, mtbf)
    log = capsys.readouterr().err
    assert "one costs 3.50 s" in log
    assert "8 nodes fail every 30 h (0.1 failures a node and day" in log


def test_measured_in_training(alone: Alone, monkeypatch: pytest.MonkeyPatch) -> None:
    """One save is measured; on a host that fails once in five months no other is due soon."""
    monkeypatch.setattr(module, "FIRST_SECONDS", 0.0)
    lines = alone(checkpoint__every_steps="null", stop__steps=30)
    assert [line["step"] for line in of_kind(lines, "committed")] == [1, 30]


@pytest.mark.parametrize(
    ("section", "path"),
    [
        ({"failures_per_node_day": 0.1, "every_steps": 5}, "checkpoint.failures_per_node_day"),
        ({"failures_per_node_day": 0.1, "every_minutes": 5}, "checkpoint.failures_per_node_day"),
    ],
)
def test_what_does_not_go_together_is_refused(section: dict[str, object], path: str) -> None:
    spec = {
        "model": "tiny",
        "data": "datasets/stdlib",
        "compute": [{"instance_type": "ml.m5.large"}],
        "stop": {"steps": 10},
        "checkpoint": section,
    }
    assert [problem.path for problem in check_spec(spec)[1]] == [path]
    flat = {f"checkpoint.{key}": str(value).lower() for key, value in section.items()}
    with pytest.raises(ConfigError, match=path):
        TrainerConfig.from_flat({"model.preset": "tiny", "stop.steps": "10"} | flat)


@pytest.mark.parametrize("asked", [True, False])
def test_a_spec_of_a_former_release_is_accepted(asked: bool) -> None:
    found = Checkpoint.model_validate({"auto_interval": asked, "every_minutes": None})
    assert found.measured
    assert not Checkpoint.model_validate({"auto_interval": asked, "every_steps": 5}).measured
