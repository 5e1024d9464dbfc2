"""A client of the control API, for tests and the demo."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any


class ControlError(Exception):
    """The emulator refused an order."""


class Control:
    """Faults and settings of one emulator, by its endpoint."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        # Never through a proxy: the address is this machine's.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def kill_host(self, job: str, host: str = "algo-1", at_step: int | None = None) -> None:
        """Lose the machine under a host, now or once a step has been logged."""
        self._post("kill_host", job=job, host=host, at_step=at_step)

    def kill_process(
        self, job: str, host: str = "algo-1", at_step: int | None = None, signal: int = 9
    ) -> None:
        """Signal a host's processes: to SageMaker the algorithm's own end (exit code 137)."""
        self._post("kill_process", job=job, host=host, at_step=at_step, signal=signal)

    def freeze_host(self, job: str, host: str | None = None, at_step: int | None = None) -> None:
        """SIGSTOP one host, or all where none is named."""
        self._post("freeze_host", job=job, host=host, at_step=at_step)

    def thaw(self, job: str, host: str | None = None) -> None:
        """SIGCONT what was frozen."""
        self._post("thaw", job=job, host=host)

    def interrupt_spot(
        self, job: str, capacity_back: bool = True, at_step: int | None = None
    ) -> None:
        """Reclaim a spot job's machines; ``capacity_back``: the service starts it again."""
        self._post("interrupt_spot", job=job, capacity_back=capacity_back, at_step=at_step)

    def capacity(self, count: int = 1, match: str = "") -> None:
        """The next jobs (whose name contains ``match``) fail for lack of capacity."""
        self._post("capacity", count=count, match=match)

    def no_room(self, count: int = 1, match: str = "") -> None:
        """The next jobs are refused at creation: others took the quota's last room in between."""
        self._post("no_room", count=count, match=match)

    def file_system(self, fault: str, count: int = 1, match: str = "") -> None:
        """The next file systems that runs make: refused (``limit``), or ``FAILED`` (``fails``)."""
        self._post("file_system", fault=fault, count=count, match=match)

    def throttle(self, operation: str, count: int = 1, match: str = "") -> None:
        """``ThrottlingException`` for an operation's next calls, e.g. ``CreateTrainingJob``."""
        self._post("throttle", operation=operation, count=count, match=match)

    def crash_lambda(self, function: str, times: int = 1, match: str = "") -> None:
        """A function's process dies after its work on ``match``, before its answer."""
        self._post("crash_lambda", function=function, times=times, match=match)

    def events(self, mode: str = "", count: int | None = None, match: str = "") -> None:
        """``lose``, ``double``, ``triple`` or ``late`` job events; an empty mode resets."""
        self._post("events", mode=mode, count=count, match=match)

    def forget(self, match: str = "") -> None:
        """Take back what was asked for ``match``, or everything, and has not happened yet."""
        self._post("forget", match=match)

    def schedule(self, on: bool, name: str = "") -> None:
        """Silence schedules, or one by a part of its rule's name."""
        self._post("schedule", on=on, name=name)

    def fire(self, name: str) -> int:
        """Let the schedules with this part in their name be due now; how many there are."""
        return int(self._post("fire", name=name)["fired"])

    def minute(self, seconds: float) -> None:
        """How long a scheduled minute lasts."""
        self._post("minute", seconds=seconds)

    def settings(self, **seconds: float) -> None:
        """``stop_seconds``, ``provision_seconds`` …: see ``emulator.training.settings``."""
        self._post("settings", **seconds)

    def quota(self, name: str, value: float) -> None:
        """Apply a service quota."""
        self._post("quota", name=name, value=value)

    def quota_answer(self, name: str, status: str) -> None:
        """Answer a quota's open increase request: ``APPROVED``, ``DENIED``, ``CASE_OPENED`` …"""
        self._post("quota_answer", name=name, status=status)

    def hold_builds(self, on: bool = True) -> None:
        """CodeBuild builds that start from now on go on until ``end_builds``."""
        self._post("hold_builds", on=on)

    def end_builds(self, status: str) -> None:
        """End each build that goes on: ``SUCCEEDED`` (its tag is pushed), ``FAILED`` …"""
        self._post("end_builds", status=status)

    def training_plan(
        self, name: str, kind: str, count: int, start: float, end: float, zone: str
    ) -> str:
        """A training plan of one block, from ``start`` to ``end`` seconds from now; its ARN."""
        return str(
            self._post(
                "training_plan",
                name=name, kind=kind, count=count, start=start, end=end, zone=zone,
            )["arn"]
        )  # fmt: skip

    def s3_slowdown(self, count: int, who: str = "hosts", match: str = "") -> None:
        """503 SlowDown for the next S3 requests of training hosts, or of ``any``."""
        self._post("s3_slowdown", count=count, who=who, match=match)

    def stall_file_systems(self, seconds: float) -> int:
        """No file of any FSx file system can be opened for so long; how many are away."""
        return int(self._post("stall_file_systems", seconds=seconds)["files"])

    def corrupt_object(self, bucket: str, key: str) -> int:
        """Flip one bit of an object; returns the byte's position."""
        return int(self._post("corrupt_object", bucket=bucket, key=key)["byte"])

    def processes(self) -> list[dict[str, Any]]:
        """Live processes: ``pid``, ``kind`` (``lambda``, ``host``), ``name``."""
        rows: list[dict[str, Any]] = self._get("processes")["processes"]
        return rows

    def jobs(self) -> list[dict[str, Any]]:
        """Running jobs with their hosts' last steps."""
        rows: list[dict[str, Any]] = self._get("jobs")["jobs"]
        return rows

    def functions(self) -> dict[str, dict[str, Any]]:
        """Invocations, cold starts, errors, seconds and memory by function."""
        rows: dict[str, dict[str, Any]] = self._get("functions")["functions"]
        return rows

    def status(self) -> dict[str, Any]:
        """Running jobs, faults left, the minute's length."""
        return self._get("status")

    def idle(self) -> bool:
        """Whether no job is running."""
        return bool(self.status()["idle"])

    def wait(self, condition: Callable[[], Any], seconds: float = 60.0, every: float = 0.05) -> Any:
        """The first true value of ``condition``; ``TimeoutError`` after ``seconds``."""
        deadline = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {seconds:.0f} s: {condition}")
            time.sleep(every)

    def _get(self, name: str) -> dict[str, Any]:
        return self._send(urllib.request.Request(f"{self.endpoint}/_everstep/{name}"))

    def _post(self, order: str, /, **body: Any) -> dict[str, Any]:
        data = json.dumps({k: v for k, v in body.items() if v is not None}).encode()
        request = urllib.request.Request(f"{self.endpoint}/_everstep/{order}", data=data)
        return self._send(request)

    def _send(self, request: urllib.request.Request) -> dict[str, Any]:
        try:
            with self._opener.open(request, timeout=30) as response:
                answer: dict[str, Any] = json.load(response)
        except urllib.error.HTTPError as error:
            raise ControlError(error.read().decode()) from error
        return answer
