"""Traces and memory snapshots of the steps that ``report`` asks for, one file a rank."""

import gzip
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from everstep.contracts.env import TrainerEnv
from everstep.contracts.training_spec import Report
from trainer.callbacks import Callback, StepDone
from trainer.errors import ConfigError
from trainer.host import Worker
from trainer.store import open_store


def profilers(report: Report, env: TrainerEnv, worker: Worker) -> list[Callback]:
    """Raises ``ConfigError`` for a snapshot where no GPU is, or steps that run backwards."""
    found: list[Callback] = []
    if report.profile is not None:
        found.append(Window("profile", report.profile, Trace(), env, worker))
    if report.memory_snapshot is not None:
        if not torch.cuda.is_available():
            raise ConfigError(
                f"report.memory_snapshot={report.memory_snapshot}: there is no GPU",
                "leave it out; report.profile works on a CPU",
            )
        found.append(Window("memory_snapshot", report.memory_snapshot, Snapshot(), env, worker))
    return found


class Trace:
    """``torch.profiler``: a Chrome trace."""

    suffix = "json"

    def start(self) -> None:
        from torch.profiler import profile

        self._profile: Any = profile(profile_memory=True)
        self._profile.start()

    def stop(self, path: Path) -> None:
        self._profile.stop()
        self._profile.export_chrome_trace(str(path))


class Snapshot:
    """Every allocation of this GPU."""

    suffix = "pickle"

    def start(self) -> None:
        torch.cuda.memory._record_memory_history()

    def stop(self, path: Path) -> None:
        torch.cuda.memory._dump_snapshot(str(path))
        torch.cuda.memory._record_memory_history(enabled=None)


class Window:
    """Records from the end of the step before the first to the end of the last."""

    def __init__(
        self, field: str, steps: str, recorder: Trace | Snapshot, env: TrainerEnv, worker: Worker
    ) -> None:
        self._first, self._last = (int(word) for word in steps.split("-"))
        if self._last < self._first:
            raise ConfigError(f"report.{field}={steps}: ends before it begins", "first-last")
        self._recorder, self._env = recorder, env
        suffix = f"{recorder.suffix}.gz"
        self._key = f"{env.launch:05d}/{field}/steps-{steps}-rank-{worker.rank:05d}.{suffix}"
        self._running = False
        if self._first == 1:
            self._begin()

    def after_step(self, done: StepDone) -> None:
        if self._running and done.step >= self._last:
            self._end()
        elif not self._running and done.step == self._first - 1:
            self._begin()

    def close(self) -> None:
        if self._running:
            self._end()

    def _begin(self) -> None:
        self._running = True
        self._recorder.start()

    def _end(self) -> None:
        self._running = False
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "record"
            self._recorder.stop(path)
            data = gzip.compress(path.read_bytes(), 6)
        self._write(lambda: open_store(self._env.output_uri).write(self._key, data))

    def _write(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - a lost trace must not cost the training
            print(f"trainer: cannot write {self._key}: {error}", flush=True)
