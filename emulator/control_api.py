"""Faults and settings, asked for from outside under ``/_everstep/``."""

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from emulator import cfn_fsx
from emulator.fsx_stall import Stall
from emulator.names import AwsError
from emulator.training.job import Job
from emulator.training.storage import flip_bit

if TYPE_CHECKING:
    from emulator.server import Emulator

Body = dict[str, Any]


class ControlApi:
    """One method an order; the table below is the whole API."""

    def __init__(self, emulator: "Emulator") -> None:
        self._emulator = emulator
        self._faults = emulator.world.faults
        self._orders: dict[tuple[str, str], Callable[[Body], Body]] = {
            ("GET", "status"): self._status,
            ("GET", "processes"): lambda _: {"processes": emulator.world.processes.live()},
            ("GET", "functions"): lambda _: {"functions": emulator.lambdas.statistics()},
            ("GET", "jobs"): self._jobs,
            ("POST", "kill_host"): self._kill_host,
            ("POST", "freeze_host"): lambda body: self._signal(body, signal.SIGSTOP),
            ("POST", "thaw"): lambda body: self._signal(body, signal.SIGCONT),
            ("POST", "kill_process"): self._kill_process,
            ("POST", "interrupt_spot"): self._interrupt_spot,
            ("POST", "forget"): self._forget,
            ("POST", "throttle"): lambda body: self._add(f"throttle:{body['operation']}", body),
            ("POST", "capacity"): lambda body: self._add("capacity", body),
            ("POST", "no_room"): lambda body: self._add("no_room", body),
            ("POST", "file_system"): lambda body: self._add(f"fsx_{body['fault']}", body),
            ("POST", "fire"): self._fire,
            ("POST", "crash_lambda"): self._crash_lambda,
            ("POST", "events"): self._events,
            ("POST", "schedule"): self._schedule,
            ("POST", "minute"): self._minute,
            ("POST", "settings"): self._settings,
            ("POST", "quota"): self._quota,
            ("POST", "quota_answer"): self._quota_answer,
            ("POST", "hold_builds"): self._hold_builds,
            ("POST", "end_builds"): self._end_builds,
            ("POST", "training_plan"): lambda body: {
                "arn": self._emulator.training.plans.put(**body)
            },
            ("POST", "s3_slowdown"): self._s3_slowdown,
            ("POST", "stall_file_systems"): self._stall,
            ("POST", "corrupt_object"): self._corrupt,
        }

    def handle(self, method: str, name: str, body: Body) -> Body:
        """Answer one request."""
        order = self._orders.get((method, name))
        if order is None:
            raise AwsError("NotFound", f"no {method} {name}", 404)
        return order(body)

    def _status(self, body: Body) -> Body:
        world = self._emulator.world
        running = self._emulator.training.running()
        return {
            "idle": not running,
            "running_jobs": [job.record.name for job in running],
            "minute": world.minute,
            "faults_left": self._faults.left(),
            "state": str(world.state),
        }

    def _jobs(self, body: Body) -> Body:
        rows = [
            {
                "name": job.record.name,
                "status": job.record.status,
                "secondary_status": job.record.secondary,
                "steps": {host.name: host.step for host in job.hosts},
            }
            for job in self._emulator.training.running()
        ]
        return {"jobs": rows}

    def _kill_host(self, body: Body) -> Body:
        job, host = self._job(body), body["host"]
        if "at_step" in body:
            job.at_step(int(body["at_step"]), lambda: job.lose_host(host))
        else:
            job.lose_host(host)
        return {}

    def _signal(self, body: Body, number: int) -> Body:
        job, host = self._job(body), body.get("host")
        if "at_step" in body:
            job.at_step(int(body["at_step"]), lambda: job.signal(number, host))
            return {}
        return {"pids": job.signal(number, host)}

    def _kill_process(self, body: Body) -> Body:
        """Kill a host's processes without the service being to blame: an exit code, 137."""
        job, host = self._job(body), body["host"]
        order = lambda: job.signal(int(body.get("signal", signal.SIGKILL)), host)  # noqa: E731
        if "at_step" in body:
            job.at_step(int(body["at_step"]), order)
            return {}
        return {"pids": order()}

    def _interrupt_spot(self, body: Body) -> Body:
        job, back = self._job(body), bool(body.get("capacity_back", True))
        if not job.record.spot:
            raise AwsError("NotSpot", f"{job.record.name} is not a spot job")
        if "at_step" in body:
            job.at_step(int(body["at_step"]), lambda: job.interrupt(back))
        else:
            job.interrupt(back)
        return {}

    def _add(self, kind: str, body: Body) -> Body:
        self._faults.add(kind, int(body.get("count", 1)), body.get("match", ""))
        return {}

    def _forget(self, body: Body) -> Body:
        self._faults.forget(body.get("match", ""))
        return {}

    def _crash_lambda(self, body: Body) -> Body:
        """By the function's name, or a part of it that only one function has."""
        part = body["function"]
        known = [name for name in self._emulator.lambdas.names() if part in name]
        exact = [name for name in known if name == part] or known
        if len(exact) != 1:
            raise AwsError("NoSuchFunction", f"{part!r} is a part of {known or 'no function'}", 404)
        times = int(body.get("times", 1))
        self._faults.add(f"lambda:{exact[0]}", times, body.get("match", ""))
        return {"function": exact[0]}

    def _events(self, body: Body) -> Body:
        mode, count = body.get("mode", ""), body.get("count")
        if mode not in ("", "lose", "double", "triple", "late"):
            raise AwsError("BadMode", mode)
        count = None if count is None else int(count)
        self._faults.set_events(mode, count, body.get("match", ""))
        return {}

    def _schedule(self, body: Body) -> Body:
        self._faults.set_schedule(bool(body["on"]), body.get("name", ""))
        return {}

    def _fire(self, body: Body) -> Body:
        return {"fired": self._emulator.schedules.fire(body["name"])}

    def _minute(self, body: Body) -> Body:
        self._emulator.world.minute = float(body["seconds"])
        return {}

    def _settings(self, body: Body) -> Body:
        self._emulator.training.settings.change(**body)
        return {}

    def _quota(self, body: Body) -> Body:
        self._emulator.quotas.set(body["name"], float(body["value"]))
        return {}

    def _quota_answer(self, body: Body) -> Body:
        self._emulator.quotas.answer(body["name"], body["status"])
        return {}

    def _hold_builds(self, body: Body) -> Body:
        self._emulator.builds.hold = bool(body["on"])
        return {}

    def _end_builds(self, body: Body) -> Body:
        self._emulator.builds.end(body["status"])
        return {}

    def _s3_slowdown(self, body: Body) -> Body:
        who, match = body.get("who", "hosts"), body.get("match", "")
        if who not in ("hosts", "any") or (match and who == "any"):
            raise AwsError("BadWho", f"{who} {match}")
        self._faults.set_s3(int(body["count"]), who, match)
        return {}

    def _stall(self, body: Body) -> Body:
        world, seconds = self._emulator.world, float(body["seconds"])
        stall = Stall(world.state / cfn_fsx.FOLDER, seconds)

        def later() -> None:
            world.closing.wait(seconds)
            stall.end()

        world.background(later, "stalled file systems")
        return {"files": stall.files}

    def _corrupt(self, body: Body) -> Body:
        return {"byte": flip_bit(body["bucket"], body["key"])}

    def _job(self, body: Body) -> Job:
        return self._emulator.training.job(body["job"])
