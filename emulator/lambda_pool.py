"""Runs deployed functions: bundles unpacked, warm workers kept, time-outs enforced."""

import hashlib
import io
import json
import logging
import threading
import time
import uuid
import zipfile
from collections import defaultdict, deque
from pathlib import Path
from typing import Any

from flask import has_request_context, request
from moto.awslambda.models import LambdaFunction
from moto.awslambda_simple.models import LambdaSimpleBackend, lambda_simple_backends

from emulator.access_log import AccessLog
from emulator.lambda_layer import build_layer
from emulator.lambda_process import LambdaProcess, WorkerGone
from emulator.names import ACCOUNT, REGION
from emulator.patching import replace
from emulator.world import World

logger = logging.getLogger("emulator")

MOST_WORKERS = 8
"""Concurrent workers a function, as a reserved concurrency would: the machine is small."""
IDLE_SECONDS = 120.0
MOST_SECONDS = 20_000
"""Durations that are remembered a function."""
ASYNC_RETRIES = 2


class LambdaPool:
    """All functions' workers."""

    def __init__(self, world: World, access: AccessLog) -> None:
        self._world = world
        self._access = access
        self._layer = build_layer(world.state / "layer")
        self._lock = threading.Lock()
        self._idle: dict[str, list[LambdaProcess]] = defaultdict(list)
        self._slots: dict[str, threading.Semaphore] = {}
        self.stats: dict[str, dict[str, Any]] = {}
        self._seconds: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=MOST_SECONDS))
        pool = self

        def invoke(
            self: Any, function_name: str, qualifier: Any, body: Any, headers: Any, out: Any
        ) -> bytes:
            # moto looks for the parameter under a name that no SDK sends.
            asked = request.args.get("Qualifier") if has_request_context() else None
            return pool._answer_api(function_name, qualifier or asked, body, headers, out)

        replace(LambdaSimpleBackend, "invoke", invoke)

    def start(self) -> None:
        """Begin to cull idle workers."""
        self._world.every(lambda: 5.0, self._cull, "lambda-cull")

    def find(self, name: str, qualifier: str | None = None) -> LambdaFunction:
        """A function by name or ARN, with version or alias. Raises moto's not-found error."""
        return lambda_simple_backends[ACCOUNT][REGION].get_function(name, qualifier)

    def names(self) -> list[str]:
        """Deployed functions."""
        return list(lambda_simple_backends[ACCOUNT][REGION]._lambdas._functions)

    def invoke(self, name: str, event: Any, qualifier: str | None = None) -> dict[str, Any]:
        """Run to the end. ``{"payload": text}``, with ``"error": kind`` where it failed."""
        function = self.find(name, qualifier)
        with self._slot(function.function_name):
            return self._run(function, event)

    def statistics(self) -> dict[str, dict[str, Any]]:
        """By function: counts, memory, and seconds with their median and 95th percentile."""
        with self._lock:
            rows = {name: dict(row) for name, row in self.stats.items()}
            sorted_seconds = {name: sorted(self._seconds[name]) for name in rows}
        for name, row in rows.items():
            seconds = sorted_seconds[name]
            for key, part in (("p50", 0.5), ("p95", 0.95)):
                row[key] = round(seconds[int(part * (len(seconds) - 1))], 4)
        return rows

    def note_queue(self, name: str, queue_arn: str) -> None:
        """Record that Lambda polls a queue with the function's role."""
        function = self.find(name)
        self._access.runtime(function.function_name, function.role, queue_arn)

    def invoke_async(self, name: str, event: Any) -> threading.Thread:
        """Run in the background; tried again twice on an error, as Lambda does."""

        def body() -> None:
            for attempt in range(1 + ASYNC_RETRIES):
                if attempt and self._world.closing.wait(self._world.scaled(60.0 * attempt)):
                    return
                if "error" not in self.invoke(name, event):
                    return

        return self._world.background(body, f"async {name}")

    def _slot(self, name: str) -> threading.Semaphore:
        with self._lock:
            return self._slots.setdefault(name, threading.Semaphore(MOST_WORKERS))

    def _run(self, function: LambdaFunction, event: Any) -> dict[str, Any]:
        name, request_id = function.function_name, str(uuid.uuid4())
        worker, cold = self._take(function)
        begun = time.monotonic()
        try:
            answer = worker.invoke(event, request_id, float(function.timeout), self._access)
            # The work is done and the answer is on its way: now the process dies.
            fault = f"lambda:{name}"
            if self._world.faults.any_left(fault) and self._world.faults.take(
                fault, json.dumps(event)
            ):
                worker.kill()
                raise WorkerGone("signal: killed")
        except TimeoutError:
            worker.kill()
            kind = "Sandbox.Timedout"
            after = f"{function.timeout}.00 seconds"
            said = f"RequestId: {request_id} Error: Task timed out after {after}"
            answer = {"error": {"errorType": kind, "errorMessage": said}}
        except WorkerGone as gone:
            worker.kill()
            said = f"RequestId: {request_id} Error: Runtime exited with error: {gone}"
            answer = {"error": {"errorType": "Runtime.ExitError", "errorMessage": said}}
        else:
            self._give_back(worker)
        seconds = time.monotonic() - begun
        self._note(name, cold, seconds, answer)
        worker.report(request_id, seconds, answer)
        if "error" in answer:
            answer["error"]["requestId"] = request_id
            return {"payload": json.dumps(answer["error"]), "error": "Unhandled"}
        return {"payload": answer["payload"], "version": str(function.version)}

    def _take(self, function: LambdaFunction) -> tuple[LambdaProcess, bool]:
        key = _key(function)
        with self._lock:
            while self._idle[key]:
                worker = self._idle[key].pop()
                if worker.alive:
                    return worker, False
        self._access.runtime(function.function_name, function.role)
        bundle = self._unpack(function)
        return LambdaProcess(self._world, function, key, bundle, self._layer), True

    def _give_back(self, worker: LambdaProcess) -> None:
        with self._lock:
            self._idle[worker.key].append(worker)

    def _cull(self) -> None:
        current = {
            _key(fn)
            for group in lambda_simple_backends[ACCOUNT][REGION]._lambdas._functions.values()
            for fn in [group["latest"], *group["versions"]]
            if fn
        }
        ended = []
        with self._lock:
            for key, workers in self._idle.items():
                for worker in list(workers):
                    if key not in current or worker.idle_seconds > IDLE_SECONDS:
                        workers.remove(worker)
                        ended.append(worker)
        for worker in ended:
            worker.kill()

    def _unpack(self, function: LambdaFunction) -> Path:
        digest = hashlib.sha256(function.code_bytes).hexdigest()[:16]
        folder = self._world.state / "bundles" / digest
        with self._lock:
            if not folder.exists():
                making = folder.with_suffix(".part")
                with zipfile.ZipFile(io.BytesIO(function.code_bytes)) as bundle:
                    bundle.extractall(making)
                making.rename(folder)
        return folder

    def _note(self, name: str, cold: bool, seconds: float, answer: dict[str, Any]) -> None:
        with self._lock:
            empty = {"invocations": 0, "cold": 0, "errors": 0, "seconds": 0.0, "memory_mb": 0}
            row = self.stats.setdefault(name, empty)
            row["invocations"] += 1
            row["cold"] += int(cold)
            row["errors"] += int("error" in answer)
            self._seconds[name].append(seconds)
            row["seconds"] = round(row["seconds"] + seconds, 3)
            row["memory_mb"] = max(row["memory_mb"], answer.get("memory", 0))

    def _answer_api(self, name: str, qualifier: Any, body: Any, headers: Any, out: Any) -> bytes:
        event = json.loads(body) if body else {}
        kind = headers.get("X-Amz-Invocation-Type") or "RequestResponse"
        function = self.find(name, qualifier)
        if kind == "DryRun":
            return b""
        if kind == "Event":
            self.invoke_async(function.function_arn, event)
            return b""
        result = self.invoke(name, event, qualifier)
        if "error" in result:
            out["x-amz-function-error"] = result["error"]
        else:
            out["x-amz-executed-version"] = result["version"]
        return str(result["payload"]).encode()


def _key(function: LambdaFunction) -> str:
    """Which workers may serve a function: those of its very code and configuration."""
    settings = [
        function.function_name,
        str(function.version),
        function.handler,
        function.role,
        function.memory_size,
        function.environment_vars,
        hashlib.sha256(function.code_bytes).hexdigest(),
    ]
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
