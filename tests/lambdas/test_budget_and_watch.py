"""Lives of runs at their budget's end, beside a slow rank, on idle GPUs, and on a warm pool."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from everstep.contracts.failures import FailureClass, Rung, StopReason
from everstep.contracts.payloads import State
from everstep.contracts.progress import format_line
from everstep.contracts.records import RunStatus
from everstep.policy.own_file_system import PRICE
from lambdas.aws.purse import allowance
from tests.lambdas.test_lives import Life, end, job, launched
from tests.lambdas.world import RUN, START, World

F = FailureClass
GPU = [{"instance_type": "ml.g5.2xlarge", "nodes": 2}]


def training(world: World, number: int = 1) -> None:
    world.sagemaker.move(job(number), "Training")
    steps(world, number, 1)


def steps(world: World, number: int, step: int, seconds: float = 60) -> None:
    world.now += seconds
    world.log(job(number), format_line("step", step=step, step_seconds=1.0))
    world.watch()


def deadline(seconds: float) -> dict[str, Any]:
    return {"deadline": datetime.fromtimestamp(START + seconds, UTC).isoformat()}


# --- budget ------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [{"max_gpu_hours": 1}, {"max_usd": 0.1}, deadline(3600)])
def test_a_running_job_is_warned_of_once_and_stopped_at_the_limit(
    world: World, budget: dict[str, Any]
) -> None:
    life = Life(world, budget=budget)
    launched(life)
    request = world.sagemaker.jobs[job(1)]
    assert request["TrainingJobStatus"] == "InProgress"
    assert world.launch().max_runtime_seconds == 3600
    assert world.launch().budget_bound
    training(world)
    for minute in range(2, 61):
        steps(world, 1, minute)
    warned = [m for m in world.messages() if "nears its budget" in m]
    assert len(warned) == 1
    steps(world, 1, 62)
    assert world.sagemaker.stops == [job(1)]
    assert world.launch().stop_reason is StopReason.BUDGET
    world.put_checkpoint(60)
    end(world, 1, "Stopped")
    assert life.wake() is State.GIVE_UP
    assert (life.error, world.run().status) == ("Budget", RunStatus.GAVE_UP)
    assert world.sagemaker.created == [job(1)]


def test_the_next_job_may_run_only_as_long_as_the_budget_leaves(world: World) -> None:
    life = Life(world, budget={"max_gpu_hours": 1.5})
    launched(life)
    world.put_checkpoint(9)
    end(world, 1, "Failed", "InternalServerError: x")  # an hour was billed
    assert life.wake() is State.LAUNCH_ATTEMPT
    second = world.launch(2)
    assert (second.max_runtime_seconds, second.spent_gpu_hours) == (1800, 1.0)
    world.put_checkpoint(19, launch=2)
    world.sagemaker.end(job(2), "Stopped", "MaxRuntimeExceeded")
    world.watch()
    assert life.wake() is State.GIVE_UP
    assert life.error == "Budget"


def test_a_reclaimed_jobs_hours_are_those_that_it_had_hosts(world: World) -> None:
    """DescribeTrainingJob's TrainingTimeInSeconds: the rest of ten hours it waited for spot."""
    life = Life(world, budget={"max_gpu_hours": 3})
    launched(life)
    training(world)
    world.now += 10 * 3600
    world.sagemaker.jobs[job(1)].update(TrainingTimeInSeconds=7200)
    world.put_checkpoint(9)
    end(world, 1, "Failed", "InternalServerError: x")
    assert life.wake() is State.LAUNCH_ATTEMPT
    assert world.launch(2).spent_gpu_hours == 2.0


def test_the_file_system_shortens_the_next_job(world: World) -> None:
    """As much again as the host, an hour."""
    prices = {"ml.m5.large": 0.1, PRICE: 0.1 * 730 / 2400}
    world.env = world.env.model_copy(update={"prices_usd": prices, "run_file_systems": True})
    data = {"prefix": "stdlib", "mode": "fsx", "scratch_gib": 2400}
    run = world.put_run(spec={"data": data, "budget": {"max_usd": 1.0}})
    found = allowance(run, [], run.spec.target(0), world.services())
    assert isinstance(found, dict)
    assert found["max_runtime_seconds"] == pytest.approx(5 * 3600, abs=1)
    assert found["budget_bound"]


def test_a_warning_does_not_say_that_nothing_was_spent(world: World) -> None:
    """The watchdog doesn't read the run's earlier launches for it."""
    life = Life(world, budget={"max_gpu_hours": 1})
    launched(life)
    training(world)
    for minute in range(2, 55):
        steps(world, 1, minute)
    (warned,) = [m for m in world.messages() if "nears its budget" in m]
    assert f"everstep retry {RUN} --set budget.max_gpu_hours=N" in warned
    assert json.loads(warned.splitlines()[-1])["gpu_hours"] is None


def test_a_deadline_that_passes_in_a_wait_starts_no_job(world: World) -> None:
    life = Life(world, budget=deadline(50), retry={"backoff_seconds": 200})
    launched(life)
    end(world, 1, "Failed", "CapacityError: none")
    assert life.wake() is State.GIVE_UP
    assert life.error == "Budget"
    assert world.sagemaker.created == [job(1)]


def test_a_deadline_in_the_past_is_refused(world: World) -> None:
    life = Life(world, budget=deadline(-1))
    assert life.go() is State.REFUSE_SPEC
    assert "has passed" in life.payload["message"]


# --- what the watchdog sees ----------------------------------------------------------------------


def test_a_slow_rank_is_left_once_and_then_only_reported(world: World) -> None:
    life = Life(world)
    launched(life)
    for number in (1, 2):
        training(world, number)
        for at in range(6):
            world.log(job(number), format_line("straggler", rank=3, ratio=1.8))
            steps(world, number, 2 + at + 20 * number, 30)
        assert world.sagemaker.stops == [job(1)]
        if number == 1:
            world.put_checkpoint(9)
            end(world, 1, "Stopped")
            assert life.wake() is State.LAUNCH_ATTEMPT
            failure = world.launch(1).failure
            assert failure.failure_class is F.STRAGGLER
            assert "rank 3 took 1.80 ×" in failure.cause
            assert world.launch(2).straggler_stops == 1
            assert world.launch(2).rung is Rung.NEW_HOSTS


@pytest.mark.parametrize(("busy", "stops"), [(0.0, [job(1)]), (640.0, []), (None, [])])
def test_gpus_that_idle_while_steps_are_claimed_end_the_attempt(
    world: World, busy: float | None, stops: list[str]
) -> None:
    world.quotas.values["ml.g5.2xlarge for training job usage"] = 2.0
    life = Life(world, compute=GPU)
    launched(life)
    training(world)
    for host in (1, 2) if busy is not None else ():
        world.metrics.busy[f"{job(1)}/algo-{host}"] = busy if host == 2 else 0.0
    calls = []
    for minute in range(2, 34):
        steps(world, 1, minute)
        calls.append(world.metrics.calls)
    assert world.sagemaker.stops == stops
    assert calls[20] == 0  # not asked before it could tell
    if stops:
        end(world, 1, "Stopped")
        assert life.wake() is State.LAUNCH_ATTEMPT
        assert world.launch(1).failure.failure_class is F.IDLE


def test_a_log_that_falls_silent_is_a_hang_where_the_spec_asks(world: World) -> None:
    life = Life(world, watch={"silence": 600, "step": 5000})
    launched(life)
    training(world)
    world.now += 400
    world.log(job(1), "compiling…", host="algo-2-1")
    world.now += 300
    world.watch()
    assert world.sagemaker.stops == []
    world.now += 400
    world.watch()
    assert world.sagemaker.stops == [job(1)]
    assert "no host logged a line for 600 s" in world.launch().stop_detail


def test_the_rows_tell_each_part_of_a_restart(world: World) -> None:
    from everstep.policy.restarts import restart_time

    life = Life(world)
    launched(life)
    training(world)
    world.now += 40
    end(world, 1, "Failed", "InternalServerError: x")
    assert life.wake() is State.LAUNCH_ATTEMPT
    world.now += 200
    world.sagemaker.move(job(2), "Training")
    world.now += 30
    world.log(job(2), format_line("resume", step=1, checkpoint="c"))
    steps(world, 2, 2, 10)
    time = restart_time(world.launch(1), world.launch(2))
    assert (time.notice, time.provision, time.load, time.first_step) == (40, 200, 30, 10)


# --- warm pools --------------------------------------------------------------------------------

POOL = [{"instance_type": "ml.m5.large", "warm_pool_seconds": 600}]


def test_a_crash_of_the_program_keeps_its_hosts_and_a_hosts_fault_does_not(world: World) -> None:
    life = Life(world, compute=POOL, retry={"backoff_seconds": 1})
    launched(life)
    world.put_checkpoint(9)
    world.put_failure_file(1)
    end(world, 1, "Failed", "AlgorithmError: x")
    assert life.wake() is State.LAUNCH_ATTEMPT
    assert world.launch(2).rung is Rung.WARM_HOSTS
    assert world.sagemaker.pools_ended == []
    world.log(job(2), "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus")
    end(world, 2, "Failed", "AlgorithmError: x")
    assert life.wake() is State.LAUNCH_ATTEMPT
    assert world.launch(3).rung is Rung.NEW_HOSTS
    assert world.sagemaker.pools_ended == [job(2)]
