"""Metadata in before a run, checkpoints out after it: one task, waited for, tried again, apart from
training."""

from typing import Any

import pytest

from everstep.contracts.failures import FailureClass
from everstep.contracts.payloads import State
from everstep.contracts.records import RunStatus
from everstep.policy.data_tasks import LONGEST_HOURS, MOST_TRIES
from tests.lambdas.crashes import ends_the_same_wherever_it_dies
from tests.lambdas.test_file_system import LUSTRE
from tests.lambdas.test_lives import Life, end, launched
from tests.lambdas.world import RUN, TEAM, World, refuse

PRELOAD = {"data": {"prefix": "stdlib", "mode": "fsx", "preload": True}}
EXPORT = {"checkpoint": {"storage": "fsx", "export": True}}


def life(world: World, **spec: Any) -> Life:
    made = Life(world, **spec)
    made.team = LUSTRE
    return made


class Tasks:
    """Ends each task, when it has been looked at ``looks`` times, as the list says."""

    def __init__(self, world: World, ends: list[str], looks: int = 3) -> None:
        self.world, self.ends, self.waits = world, ends, looks
        self.looks = 0
        self._honest = world.fsx.describe_data_repository_tasks
        world.fsx.describe_data_repository_tasks = self.look  # type: ignore[method-assign]

    def look(self, TaskIds: list[str]) -> dict[str, Any]:
        self.looks += 1
        if self.looks % self.waits == 0:
            more = {"FailureDetails": {"Message": "no such path"}, "Status": {"FailedCount": 2}}
            self.world.fsx.end(self.ends.pop(0), **more)
        return self._honest(TaskIds)


def test_metadata_is_imported_before_a_host_is_paid_for(world: World) -> None:
    Tasks(world, ["SUCCEEDED"])
    run = life(world, **PRELOAD)
    assert run.go() is State.LAUNCH_ATTEMPT
    (task,) = world.fsx.tasks.values()
    assert task["Type"] == "IMPORT_METADATA_FROM_REPOSITORY"
    assert task["Paths"] == [f"{TEAM.data_uri}/stdlib/"]
    assert task["FileSystemId"] == LUSTRE.file_system_id
    assert run.path.index("PrepareStorage") < run.path.index("LaunchAttempt")
    end(world, 1, "Failed", "InternalServerError: We lost it.")
    assert run.wake() is State.LAUNCH_ATTEMPT
    assert len(world.fsx.tasks) == 1, "once a run"


def test_checkpoints_are_exported_after_the_last_step(world: World) -> None:
    Tasks(world, ["FAILED", "CANCELED", "SUCCEEDED"])
    run = life(world, **EXPORT)
    launched(run)
    world.put_checkpoint(100, final=True, recorded=True)
    end(world, 1, "Completed")
    assert run.wake() is State.DONE
    assert [t["Paths"] for t in world.fsx.tasks.values()] == [[f"checkpoints/research/{RUN}"]] * 3
    assert {t["Type"] for t in world.fsx.tasks.values()} == {"EXPORT_TO_REPOSITORY"}
    assert len(world.store.launches(RUN)) == 1
    assert world.run().status is RunStatus.DONE


def test_tries_end_in_words_and_a_redrive_begins_anew(world: World) -> None:
    Tasks(world, ["FAILED"] * MOST_TRIES + ["SUCCEEDED"])
    run = life(world, **EXPORT)
    launched(run)
    world.put_checkpoint(100, final=True, recorded=True)
    end(world, 1, "Completed")
    assert run.wake() is State.GIVE_UP
    assert run.error == FailureClass.EXPORT_FAILED.error_name
    assert "no such path" in world.messages()[-1]
    assert "LaunchAttempt" not in run.path[run.path.index("VerifyOutcome") :]
    assert run.redrive() is State.DONE
    assert len(world.fsx.tasks) == MOST_TRIES + 1
    assert len(world.store.launches(RUN)) == 1


@pytest.mark.parametrize(
    ("code", "tasks"), [("BadRequest", 0), ("AccessDeniedException", 0), ("FileSystemNotFound", 0)]
)
def test_what_another_try_does_not_cure_is_not_tried_again(
    world: World, code: str, tasks: int
) -> None:
    world.fsx.refusals = [refuse(code, "that is not ours")]
    run = life(world, **PRELOAD)
    assert run.go() is State.GIVE_UP
    assert f"{code}: that is not ours" in world.messages()[-1]
    assert (len(world.fsx.tasks), world.sagemaker.created) == (tasks, [])


def test_another_runs_task_is_waited_for(world: World) -> None:
    """FSx does one at a time; that it is busy costs no try."""
    busy = refuse("DataRepositoryTaskExecuting")
    world.fsx.refusals = [busy] * (2 * MOST_TRIES)
    Tasks(world, ["SUCCEEDED"])
    run = life(world, **PRELOAD)
    assert run.go() is State.LAUNCH_ATTEMPT
    preload = world.run().preload
    assert preload is not None
    assert (preload.number, preload.done) == (1, True)


def test_a_task_that_never_ends_fits_the_history_and_is_given_up(world: World) -> None:
    run = life(world, **PRELOAD)
    began = world.now
    assert run.go() is State.GIVE_UP
    assert world.now - began >= LONGEST_HOURS * 3600
    looks = run.path.count("PrepareStorage")
    assert looks * 8 < 25_000 / 10, "a small part of an execution's events"
    assert f"not done in {LONGEST_HOURS} h" in world.messages()[-1]


def test_dying_at_any_call_makes_no_second_task() -> None:
    def preloaded(world: World) -> tuple[State, int]:
        Tasks(world, ["SUCCEEDED"])
        return life(world, **PRELOAD).go(), len(world.fsx.tasks)

    calls = ends_the_same_wherever_it_dies(
        State.PREPARE_STORAGE, preloaded, (State.LAUNCH_ATTEMPT, 1)
    )
    assert calls > 5
