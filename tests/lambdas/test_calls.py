"""How often a run's handlers call AWS: what nobody needs does not creep back. The watchdog's looks
are apart. ``make load`` counts the same on the emulator, over many runs."""

from collections import Counter

from everstep.contracts.events import ExecutionEvent
from everstep.contracts.payloads import State
from lambdas.write_report.handler import act as write_report
from tests.lambdas.test_lives import Life, end, launched
from tests.lambdas.world import World

PLAIN = 33
"""Of a run that nothing happens to, from its spec to its report; two of them list the quotas, which
a process remembers for a quarter of an hour."""
ANOTHER_LAUNCH = 27
"""From a job's crash to the next job."""


def reported(world: World, life: Life) -> None:
    event = {
        "detail-type": "Step Functions Execution Status Change",
        "detail": {"executionArn": life.arn, "name": life.name, "status": "SUCCEEDED"},
    }
    assert write_report(ExecutionEvent.model_validate(event), world.services())


def test_a_plain_run(world: World) -> None:
    life = Life(world)
    world.made.clear()
    launched(life)
    world.put_checkpoint(100, final=True)
    end(world, 1, "Completed")
    assert life.wake() is State.DONE
    reported(world, life)
    assert len(world.made) == PLAIN, Counter(world.made)


def test_another_launch_after_a_crash(world: World) -> None:
    life = Life(world)
    launched(life)
    world.put_checkpoint(40)
    world.made.clear()
    end(world, 1, "Failed", "InternalServerError: We lost it.")
    assert life.wake() is State.LAUNCH_ATTEMPT
    assert len(world.made) == ANOTHER_LAUNCH, Counter(world.made)


def test_no_handler_reads_a_row_again_that_it_has(world: World) -> None:
    """A run's row and its launches come in one call; only an event knows no more than a job."""
    life = Life(world)
    launched(life)
    world.put_checkpoint(100, final=True)
    end(world, 1, "Completed")
    life.wake()
    assert Counter(world.made)["get_item"] <= 2  # CheckQuota, OnJobEvent
