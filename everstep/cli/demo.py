"""``everstep local demo``: the main job, for real, on this machine."""

import json
import os
import signal
import tempfile
import time
from pathlib import Path
from types import FrameType
from typing import Any

from everstep.cli.cloud import Cloud
from everstep.cli.deploy import ROOT, remove
from everstep.cli.errors import SPEC_PAGE, fail
from everstep.cli.local import MINUTE, begin, emulator, populate
from everstep.cli.output import emit, say, show_end
from everstep.cli.spec_file import read_json
from everstep.cli.view import RunView
from everstep.contracts.check import check_spec
from everstep.contracts.problems import describe
from everstep.contracts.records import RunStatus, job_name
from everstep.contracts.run_spec import RunSpec

RUN_SECONDS = 300.0
POLL_SECONDS = 0.3
VICTIM = "algo-2"
OWNER = "owner"
"""File with the id of the process that removes the folder when it ends."""


def run_demo(spec_file: Path, as_json: bool) -> int:
    """The exit code: 0 only if the host died, the run resumed from a checkpoint, and arrived."""
    raw = read_json(spec_file)
    spec, problems = check_spec(raw)
    if spec is None:
        fail(
            describe(problems, str(spec_file)),
            "give a spec that `everstep run` would take",
            see=SPEC_PAGE,
        )
    (ROOT / ".everstep").mkdir(exist_ok=True)
    clear_killed(ROOT / ".everstep")
    work = Path(tempfile.mkdtemp(prefix="demo-", dir=ROOT / ".everstep"))
    (work / OWNER).write_text(str(os.getpid()))
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    started = time.monotonic()

    def tell(text: str) -> None:
        say(f"{time.monotonic() - started:6.1f} s  {text}")

    service = emulator()
    try:
        tell("starting the emulator (AWS on this machine: a test double, not the cloud)")
        endpoint = begin(service, work, minute=MINUTE, with_parent=True)
        environ = {**os.environ, **endpoint.environment}
        tell(f"it answers at {endpoint.endpoint}")
        cloud = populate(environ, endpoint.endpoint, work, tell)
        view = _run(cloud, raw, spec, endpoint.endpoint, tell)
    except BaseException as error:
        _quiet()
        service.stop(work)
        if isinstance(error, KeyboardInterrupt):
            remove(work)
        else:
            (work / OWNER).unlink()
            tell(f"its logs are kept in {work}")
        raise
    _quiet()
    service.stop(work)
    remove(work)
    if as_json:
        emit({**view.summary(), "timeline": view.timeline()})
    else:
        show_end(view)
    resumed = [x for x in view.launches[1:] if x.resume_step > 0]
    arrived = view.run.status is RunStatus.DONE and bool(resumed)
    say("the run survived a dead host" if arrived else "the demo did not show what it should")
    return 0 if arrived else 1


def clear_killed(folder: Path) -> None:
    """Remove what demos left that were killed: one that failed has kept its logs, without owner."""
    from emulator.processes import alive

    for owner in folder.glob(f"demo-*/{OWNER}"):
        pid = owner.read_text()
        if pid.isdecimal() and not alive(int(pid)):
            remove(owner.parent)


def _run(cloud: Cloud, raw: Any, spec: RunSpec, endpoint: str, tell: Any) -> RunView:
    from emulator.control import Control

    run_id = f"demo-{os.getpid()}"
    answer = cloud.client("stepfunctions").start_execution(
        stateMachineArn=cloud.machine_arn(None), name=run_id, input=json.dumps(raw)
    )
    tell(f"execution {run_id} started: {spec.compute[0].nodes} hosts")
    return _follow(cloud, answer["executionArn"], Control(endpoint), spec.stop.steps // 2, tell)


def _follow(cloud: Cloud, arn: str, control: Any, kill_at: int, tell: Any) -> RunView:
    run_id = arn.rsplit(":", 1)[-1]
    killed, said, deadline = False, "", time.monotonic() + RUN_SECONDS
    machine = cloud.client("stepfunctions")
    while time.monotonic() < deadline:
        launches = cloud.launches(run_id)
        if launches:
            steps = cloud.steps(run_id, launches[-1].launch)
            last = steps[-1].step if steps else 0
            line = _line(launches[-1], last)
            if line != said:
                tell(line)
                said = line
            if not killed and last >= kill_at:
                control.kill_host(job_name(run_id, 1), VICTIM)
                tell(f"killed host {VICTIM} with SIGKILL, at step {last}")
                killed = True
        ended = machine.describe_execution(executionArn=arn)
        if ended["status"] != "RUNNING":
            if not launches:
                fail(f"the run was refused: {ended.get('cause')}", "mend the spec", 1)
            return RunView.load(cloud, run_id)
        time.sleep(POLL_SECONDS)
    return fail(
        f"run {run_id} did not end in {RUN_SECONDS:.0f} s: {said}",
        "a busy machine? run it again, or `everstep local up` and look",
        1,
    )


def _line(launch: Any, last: int) -> str:
    if launch.decision:
        return f"launch {launch.launch}: {launch.failure.failure_class} → {launch.decision.kind}"
    if launch.failure:
        return f"launch {launch.launch}: classified {launch.failure.failure_class}"
    if launch.outcome:
        return f"launch {launch.launch}: job {launch.outcome.status}"
    resumed = f", resuming at step {launch.resume_step}" if launch.resume_step else ""
    progress = f", step {last // 10 * 10}" if last >= 10 else ""
    return f"launch {launch.launch}: {launch.phase or 'planned'}{resumed}{progress}"


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _quiet() -> None:
    """Cleaning up is not interrupted a second time."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
