"""How a fault of the table is asked for: each returns what to do to a run that has been started."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

from everstep.contracts.records import job_name
from tests.chaos.driver import OF_NO_RUN, mend, newest_checkpoint
from tests.chaos.random_faults import CONTINUE_AFTER_TURNS, HANDLERS
from tests.scenarios.lab import Lab

Ask = Callable[[Lab, str, str], None]


def nothing(lab: Lab, run_id: str, arn: str) -> None:
    """The spec has it all."""


def kill_rank(at: int) -> Ask:
    """SIGKILL to one rank of the second host, as a person or a kernel would: not to its host."""

    def ask(lab: Lab, run_id: str, arn: str) -> None:
        lab.at_step(run_id, 1, at)
        name = f"{job_name(run_id, 1)}/algo-2"
        rows = [p["pid"] for p in lab.control.processes() if p["name"] == name]
        ranks = [
            pid for pid in rows if b"trainer.main" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        os.kill(ranks[0], signal.SIGKILL)

    return ask


def kill_host(at: int) -> Ask:
    def ask(lab: Lab, run_id: str, arn: str) -> None:
        lab.at_step(run_id, 1, at)
        lab.control.kill_host(job_name(run_id, 1))

    return ask


def freeze_all(at: int) -> Ask:
    def ask(lab: Lab, run_id: str, arn: str) -> None:
        lab.at_step(run_id, 1, at)
        lab.control.freeze_host(job_name(run_id, 1))

    return ask


def slow_down(count: int, at: int = 0) -> Ask:
    """503 for the next requests of the run's hosts."""

    def ask(lab: Lab, run_id: str, arn: str) -> None:
        if at:
            lab.at_step(run_id, 1, at)
        lab.control.s3_slowdown(count, match=run_id)

    return ask


def throttle(operation: str, count: int) -> Ask:
    return lambda lab, run_id, arn: lab.control.throttle(operation, count, match=run_id)


def interrupt_spot(at: int, capacity_back: bool) -> Ask:
    def ask(lab: Lab, run_id: str, arn: str) -> None:
        lab.at_step(run_id, 1, at)
        lab.control.interrupt_spot(job_name(run_id, 1), capacity_back)

    return ask


def stop_job(at: int) -> Ask:
    """*Stop* on the job's own page in the console."""

    def ask(lab: Lab, run_id: str, arn: str) -> None:
        lab.at_step(run_id, 1, at)
        lab.cloud.client("sagemaker").stop_training_job(TrainingJobName=job_name(run_id, 1))

    return ask


def damage(at: int, how: str) -> Ask:
    """Flip a bit in the newest committed checkpoint, or remove one of its files; lose a host."""

    def ask(lab: Lab, run_id: str, arn: str) -> None:
        lab.at_step(run_id, 1, at)
        newest = lab.until(lambda: newest_checkpoint(lab, run_id), "a committed checkpoint")
        bucket, keys = newest
        data = sorted(key for key in keys if not key.endswith("/manifest.json"))[-1]
        if how == "flip":
            lab.control.corrupt_object(bucket, data)
        else:
            lab.cloud.client("s3").delete_object(Bucket=bucket, Key=data)
        lab.control.kill_host(job_name(run_id, 1))

    return ask


def every_handler_dies(lab: Lab, run_id: str, arn: str) -> None:
    """Each once, after its work, before its answer; on a way that leads past all of them."""
    for handler in HANDLERS:
        match = "" if handler in OF_NO_RUN else run_id
        lab.control.crash_lambda(handler, 1, match=match)
    lab.control.no_room(1, match=run_id)
    lab.control.capacity(CONTINUE_AFTER_TURNS, match=run_id)
    assert lab.control.fire("QuotaReport") == 1


def past_every_handler(lab: Lab, run_id: str, arn: str) -> None:
    """A watchdog that is silent until its absence is noticed, a lost host, then a bug that the run
    gives up for and a person mends; until every handler has died."""
    lab.until(lambda: len(lab.launches(run_id)) == 5, "the launch that finds room")
    lab.at_step(run_id, 5, 3)
    lab.control.schedule(on=False)
    lab.until(lambda: lab.launches(run_id)[-1].inspections, "a missing heartbeat")
    lab.control.schedule(on=True)
    lab.control.kill_host(job_name(run_id, 5))
    last = lab.end(arn)
    assert last["status"] == "FAILED", last
    mend(lab, run_id, str(last["executionArn"]))


def none_left(lab: Lab, run_id: str, arn: str) -> None:
    """Every handler has met its death."""
    lab.until(lambda: lab.control.status()["faults_left"] == {}, "no handler left that lives")
