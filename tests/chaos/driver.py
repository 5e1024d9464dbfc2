"""One chaos run: start it, put its faults on it when their step is reached, wait for its end."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from emulator.control import ControlError
from everstep.contracts.manifest import CheckpointName
from everstep.contracts.records import parse_job_name
from tests.chaos.random_faults import AFTER_THE_END, Fault, Plan
from tests.scenarios.lab import Lab, goes_on_as

POLL_SECONDS = 0.15
OF_NO_RUN = ("Watchdog", "QuotaReport")
"""Handlers whose payload names no run: they die for all of them."""
TERMINAL = ("SUCCEEDED", "FAILED", "ABORTED", "TIMED_OUT")
DEADLINE = 420.0
"""An end that takes longer is no end: a violation."""


class Watch:
    """What runs now, asked for once for all runs. Remembers two jobs of one run at a time."""

    def __init__(self, lab: Lab, every: float = POLL_SECONDS) -> None:
        self._lab, self._every = lab, every
        self._closing = threading.Event()
        self._jobs: list[dict[str, Any]] = []
        self.doubled: set[str] = set()
        self._silent = 0
        self.reports = 0
        """Daily reports that were asked for: each must be made, however often one crashed."""
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    def job(self, run_id: str) -> tuple[str, int] | None:
        """(name, last step) of the run's job that trains now."""
        for job in self._jobs:
            name = parse_job_name(job["name"])
            if name and name[0] == run_id and job["secondary_status"] == "Training":
                return job["name"], max(job["steps"].values(), default=-1)
        return None

    def silence(self, seconds: float) -> None:
        """No schedule fires, for any run, until the last of those who asked has had enough."""
        self._silence(+1)
        threading.Thread(target=self._end_silence, args=(seconds,), daemon=True).start()

    def _end_silence(self, seconds: float) -> None:
        if not self._closing.wait(seconds):
            self._silence(-1)

    def _silence(self, change: int) -> None:
        with self._lock:
            self._silent += change
            self._lab.control.schedule(on=self._silent == 0)

    def report(self) -> None:
        """The daily report is due now."""
        with self._lock:
            assert self._lab.control.fire("QuotaReport") == 1
            self.reports += 1

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        with self._lock:
            self._lab.control.schedule(on=True)

    def _loop(self) -> None:
        while not self._closing.wait(self._every):
            jobs = self._lab.control.jobs()
            runs = [name[0] for job in jobs if (name := parse_job_name(job["name"]))]
            self.doubled |= {run for run in runs if runs.count(run) > 1}
            self._jobs = jobs


@dataclass
class Story:
    """What was done to a run, and how its execution ended."""

    plan: Plan
    arn: str
    """The execution that the run is in: the newest of ``arns``."""
    arns: list[str] = field(default_factory=list)
    status: str = "RUNNING"
    done: list[str] = field(default_factory=list)
    """Faults that were put on it."""
    missed: list[str] = field(default_factory=list)
    """Faults whose moment never came."""
    kinds: list[str] = field(default_factory=list)
    seconds: float = 0.0


def live(
    lab: Lab, watch: Watch, plan: Plan, poll: float = POLL_SECONDS, deadline: float = DEADLINE
) -> Story:
    """From start to a terminal status that no redrive of ours is about to change."""
    began = time.monotonic()
    for fault in plan.faults:
        if fault.at == 0:
            _apply(lab, watch, plan.run_id, "", "", fault)
    arn = lab.start(plan.run_id, plan.spec)
    story = Story(plan, arn, [arn])
    _note(story, [f for f in plan.faults if f.at == 0])
    waiting = [f for f in plan.faults if f.at > 0]
    try:
        while time.monotonic() - began < deadline:
            ended = lab.execution(story.arn)
            story.status = str(ended["status"])
            if (successor := goes_on_as(ended)) is not None:
                story.arn = successor
                story.arns.append(successor)
                continue
            bug = next((f for f in waiting if f.kind == "bug"), None)
            if story.status == "FAILED" and bug is not None:
                waiting.remove(bug)
                mend(lab, plan.run_id, story.arn)
                _note(story, [bug])
            elif story.status in TERMINAL:
                break
            job = watch.job(plan.run_id)
            due = next((f for f in waiting if f.kind != "bug"), None)
            if due and job and job[1] >= due.at:
                waiting.remove(due)
                fault = due
                if _apply(lab, watch, plan.run_id, story.arn, job[0], fault):
                    _note(story, [fault])
                else:
                    story.missed.append(str(fault))
            time.sleep(poll)
    finally:
        if not any(f.details.get("function") == AFTER_THE_END for f in plan.faults):
            lab.control.forget(plan.run_id)  # else when that one has had its turn
    story.missed += [str(f) for f in waiting]
    story.seconds = round(time.monotonic() - began, 1)
    return story


def _note(story: Story, faults: list[Fault]) -> None:
    story.done += [str(f) for f in faults]
    story.kinds += [f.kind for f in faults]


def _status(lab: Lab, arn: str) -> str:
    return str(lab.execution(arn)["status"])


def _apply(lab: Lab, watch: Watch, run_id: str, arn: str, job: str, fault: Fault) -> bool:
    """False where its moment had passed: the job or the host ended in between."""
    control, details = lab.control, fault.details
    actions: dict[str, Callable[[], object]] = {
        "no_room": lambda: control.no_room(details["count"], match=run_id),
        "capacity": lambda: control.capacity(details["count"], match=run_id),
        "throttle": lambda: control.throttle(**details, match=run_id),
        "crash_lambda": lambda: _crash(lab, watch, run_id, **details),
        "file_system": lambda: control.file_system(**details, match=run_id),
        "events": lambda: control.events(**details, match=run_id),
        "s3_slowdown": lambda: control.s3_slowdown(details["count"], match=run_id),
        "schedule_off": lambda: watch.silence(details["seconds"]),
        "freeze": lambda: control.freeze_host(job, details["host"]),
        "kill_host": lambda: control.kill_host(job, details["host"]),
        "kill_process": lambda: control.kill_process(job, details["host"]),
        "interrupt_spot": lambda: control.interrupt_spot(job, details["capacity_back"]),
        "stop_redrive": lambda: _stop_redrive(lab, run_id, arn, job, details["at_once"]),
        "corrupt_newest": lambda: _corrupt(lab, run_id, job, details["host"]),
    }
    try:
        return actions[fault.kind]() is not False
    except ControlError:
        return False


def _crash(lab: Lab, watch: Watch, run_id: str, function: str, times: int) -> None:
    lab.control.crash_lambda(function, times, match="" if function in OF_NO_RUN else run_id)
    if function == "QuotaReport":
        watch.report()


def mend(lab: Lab, run_id: str, arn: str) -> None:
    """The run gave up; a person takes the bug out, and presses *Redrive*."""
    lab.put(f"{lab.cloud.run(run_id).team.checkpoint_uri}/{run_id}/mended", "yes")
    lab.cloud.client("stepfunctions").redrive_execution(executionArn=arn)


def _stop_redrive(lab: Lab, run_id: str, arn: str, job: str, at_once: bool) -> bool:
    """Someone presses *Stop execution*, and *Redrive*: at once, or once the job has stopped."""
    machine = lab.cloud.client("stepfunctions")
    machine.stop_execution(executionArn=arn)
    lab.until(lambda: _status(lab, arn) != "RUNNING", f"the stop of {arn}")
    if _status(lab, arn) != "ABORTED":
        return False  # it had just ended by itself
    if not at_once:
        ended = ("Stopped", "Completed", "Failed")
        lab.until(
            lambda: (
                lab.cloud.client("sagemaker").describe_training_job(TrainingJobName=job)[
                    "TrainingJobStatus"
                ]
                in ended
            ),
            f"the end of {job}",
            90,
        )
    machine.redrive_execution(executionArn=arn)
    return True


def _corrupt(lab: Lab, run_id: str, job: str, host: str) -> bool:
    """Flip a bit in a data file of the newest committed checkpoint, then lose the host."""
    newest = newest_checkpoint(lab, run_id)
    if newest is None:
        return False
    bucket, keys = newest
    data = sorted(k for k in keys if not k.endswith("/manifest.json"))
    if not data:
        return False  # on Lustre: S3 has the manifest alone
    try:
        lab.control.corrupt_object(bucket, data[0])
    except ControlError:
        return False  # retention took it in between
    lab.control.kill_host(job, host)
    return True


def newest_checkpoint(lab: Lab, run_id: str) -> tuple[str, list[str]] | None:
    """Bucket and keys of the newest committed checkpoint."""
    run = lab.cloud.run(run_id)
    bucket, _, prefix = run.team.checkpoint_uri.removeprefix("s3://").partition("/")
    folders: dict[str, list[str]] = {}
    try:
        pages = (
            lab.cloud.client("s3")
            .get_paginator("list_objects_v2")
            .paginate(Bucket=bucket, Prefix=f"{prefix}/{run_id}/")
        )
        for page in pages:
            for item in page.get("Contents", []):
                name = item["Key"].removeprefix(f"{prefix}/{run_id}/").partition("/")[0]
                folders.setdefault(name, []).append(item["Key"])
    except ClientError:
        return None
    committed = {
        name.order: keys
        for folder, keys in folders.items()
        if (name := CheckpointName.parse(folder))
        and any(k.endswith("/manifest.json") for k in keys)
    }
    return (bucket, committed[max(committed)]) if committed else None
