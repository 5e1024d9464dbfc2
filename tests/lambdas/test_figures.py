"""What handlers emit: lines of the log that CloudWatch makes metrics of, equal to the records."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from everstep.contracts.metrics import (
    ALL,
    ATTEMPTS,
    BUDGET_USED,
    GOODPUT,
    QUOTA_HEADROOM,
    RUNS,
    SPENT_GPU_HOURS,
    SPENT_USD,
    Metric,
)
from everstep.contracts.payloads import State
from everstep.contracts.progress import format_line
from everstep.policy.cost import spend_of
from everstep.policy.goodput import StepTime, goodput
from lambdas.quota_report.handler import act as quota_report
from tests.lambdas.test_lives import Life, end, job, launched
from tests.lambdas.test_write_report import trained, write
from tests.lambdas.world import RUN, World

USAGE = "ml.m5.large for training job usage"
OF_RUN = {"Team": "research", "Run": RUN}
LOST = "InternalServerError: We lost it."


class Emitted(NamedTuple):
    metric: Metric
    dimensions: dict[str, str]
    value: float


Read = Callable[[], list[Emitted]]


@pytest.fixture
def read(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Read:
    """All that was emitted since it was last asked."""
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "everstep")  # as the stack sets it

    def emitted() -> list[Emitted]:
        lines = [line for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
        return [one for line in lines for one in _parse(json.loads(line))]

    return emitted


def _parse(line: dict[str, Any]) -> list[Emitted]:
    """By the specification of the embedded metric format."""
    (directive,) = line["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "Everstep/local"
    (names,) = directive["Dimensions"]
    found = []
    for one in directive["Metrics"]:
        metric = Metric(one["Name"], one["Unit"], tuple(names))
        (value,) = line[metric.name]
        found.append(Emitted(metric, {name: line[name] for name in names}, value))
    return found


def of(found: list[Emitted], metric: Metric, **dimensions: str) -> list[float]:
    wanted = dimensions or OF_RUN
    return [x.value for x in found if x.metric == metric and x.dimensions == wanted]


def step(world: World, number: int, at: int, seconds: float = 60.0) -> None:
    world.now += seconds
    world.log(job(number), format_line("step", step=at, step_seconds=seconds))
    world.watch()


def a_life(world: World) -> Life:
    """Two jobs: one is lost after its third step, the other one trains to the end."""
    life = Life(world, budget={"max_usd": 1})
    launched(life)
    world.sagemaker.move(job(1), "Training")
    for at in (1, 2, 3):
        step(world, 1, at)
    world.put_checkpoint(2)
    end(world, 1, "Failed", LOST)
    assert life.wake() is State.LAUNCH_ATTEMPT
    world.sagemaker.move(job(2), "Training")
    for at in (3, 4):
        step(world, 2, at)
    world.put_checkpoint(100, final=True)
    end(world, 2, "Completed")
    assert life.wake() is State.DONE
    return life


def test_handlers_emit_every_metric_of_the_table_and_no_other(world: World, read: Read) -> None:
    a_life(world)
    assert {x.metric for x in read()} == set(ALL)


def test_what_a_run_spends_is_emitted_at_each_look_and_is_the_records_once_it_is_over(
    world: World, read: Read
) -> None:
    a_life(world)
    write(world)
    found = read()
    for metric in (SPENT_USD, SPENT_GPU_HOURS, BUDGET_USED):
        assert of(found, metric) == sorted(of(found, metric))
        assert len(of(found, metric)) == 6  # five looks, and the report
    spend = spend_of(world.store.launches(RUN), world.env.prices_usd)
    assert spend.usd == pytest.approx(2 * 0.1)  # an hour each is what SageMaker bills
    assert of(found, SPENT_USD)[-1] == pytest.approx(spend.usd)
    assert of(found, SPENT_GPU_HOURS)[-1] == pytest.approx(spend.gpu_hours)
    assert of(found, BUDGET_USED)[-1] == pytest.approx(20)
    # Before the first step there is no goodput to tell of; then minutes of steps in minutes of job.
    assert of(found, GOODPUT)[:3] == pytest.approx([100, 100, 100])
    steps = {1: [1, 2, 3], 2: [3, 4]}
    paid = goodput(
        world.store.launches(RUN),
        {n: [StepTime(step=s, seconds=60.0) for s in of_launch] for n, of_launch in steps.items()},
        world.now,
    )
    assert paid.ratio == pytest.approx(4 * 60 / 7200)
    assert of(found, GOODPUT)[-1] == pytest.approx(100 * (paid.ratio or 0))


def test_attempts_and_runs_are_counted_once_by_class(world: World, read: Read) -> None:
    life = a_life(world)
    world.act(State.FINISH, life.payload)  # again, as after a lost answer
    found = read()
    wanted = Counter(
        x.failure.failure_class.value if x.failure else "done" for x in world.store.launches(RUN)
    )
    assert wanted == {"infrastructure": 1, "done": 1}
    for ending, count in wanted.items():
        assert sum(of(found, ATTEMPTS, Team="research", Ending=ending)) == count
    assert of(found, RUNS, Team="research", Ending="done") == [1]


def test_a_run_that_gives_up_is_counted_by_its_class(world: World, read: Read) -> None:
    life = Life(world, compute=[{"instance_type": "ml.m5.large", "nodes": 8}])
    assert life.go() is State.GIVE_UP
    found = read()
    assert of(found, RUNS, Team="research", Ending="quota") == [1]
    assert not any(x.metric == ATTEMPTS for x in found)
    life.go()  # GiveUp, invoked a second time
    assert not any(x.metric == RUNS for x in read())


def test_headroom_is_what_is_held_less_what_is_in_use(world: World, read: Read) -> None:
    launched(Life(world))
    assert of(read(), QUOTA_HEADROOM, Quota=USAGE) == [4]
    quota_report(world.services())
    found = read()
    assert of(found, QUOTA_HEADROOM, Quota=USAGE) == [3]
    assert all(not x.dimensions["Quota"].startswith("Longest") for x in found)


def test_what_is_unknown_is_not_emitted_as_nothing(world: World, read: Read) -> None:
    world.env = world.env.model_copy(update={"prices_usd": {}})
    trained(world)
    write(world)
    assert {x.metric for x in read()} == {GOODPUT, SPENT_GPU_HOURS}


def test_a_metric_costs_no_call(world: World, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    world.put_run()
    world.put_job()
    world.watch()  # what is new is written down
    world.watch()
    with_them = world.calls
    assert read()
    monkeypatch.setattr("lambdas.aws.figures.Figures._say", lambda *_: None)
    world.watch()
    assert (world.calls, read()) == (with_them, [])
