"""What is measured at each step, and the places that it is written to.

One table (``everstep.contracts.progress.METRICS``) names the fields; the progress line, the job's
metrics, TensorBoard and MLflow show the same ones.
"""

import os
import resource
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import torch

from everstep.contracts.env import TrainerEnv
from everstep.contracts.flops import flops_per_token, peak_flops
from everstep.contracts.progress import METRICS
from trainer.callbacks import Callback, StepDone
from trainer.config import TrainerConfig
from trainer.errors import ConfigError
from trainer.host import Worker
from trainer.profiling import profilers
from trainer.report import Reporter

Fields = Mapping[str, float]


class Sink(Protocol):
    """A place for metrics, on rank 0 alone."""

    def write(self, step: int, fields: Fields) -> None: ...

    def close(self) -> None: ...


def reporting(
    config: TrainerConfig, env: TrainerEnv, worker: Worker, report: Reporter
) -> list[Callback]:
    """The callbacks of the ``report`` section, the progress line's first.

    Raises ``ConfigError`` where a place is asked for that cannot be written to from here.
    """
    sinks: list[Sink] = []
    if worker.rank == 0:
        if config.report.tensorboard:
            sinks.append(TensorBoard(_tensorboard_folder(env, worker)))
        if config.report.mlflow:
            sinks.append(MLflow(config.report.mlflow, env, config, report))
    cuda = torch.cuda.is_available()
    peak = peak_flops(torch.cuda.get_device_name()) if cuda else None
    per_token = flops_per_token(
        config.shape, config.train.sequence_length, frozen=config.model.lora is not None
    )
    best = None if peak is None else peak * worker.world_size / per_token
    return [Progress(report, best, sinks), *profilers(config.report, env, worker)]


class Progress:
    """The progress line of each step, and the same figures in every sink."""

    def __init__(self, report: Reporter, best: float | None, sinks: list[Sink]) -> None:
        """``best``: tokens/s of all ranks together at the hardware's peak, where it is known."""
        self._report, self._best, self._sinks = report, best, sinks

    def after_step(self, done: StepDone) -> None:
        rate = done.step_tokens / done.seconds
        values: dict[str, float] = {
            "step": done.step,
            "loss": done.loss,
            "tokens_per_s": round(rate, 1),
            "step_seconds": round(done.seconds, 6),
            "grad_norm": done.grad_norm,
            "lr": done.lr,
            "memory_gib": round(_peak_memory() / 2**30, 3),
            "data_seconds": round(done.data_seconds, 6),
            "save_seconds": round(done.save_seconds, 6),
        }
        if self._best is not None:
            values["mfu"] = round(rate / self._best, 4)
        fields = {name: values[name] for name in METRICS if name in values}
        self._report.line("step", **fields, tokens=done.tokens)
        for sink in self._sinks:
            sink.write(done.step, {k: v for k, v in fields.items() if k != "step"})

    def close(self) -> None:
        for sink in self._sinks:
            sink.close()


class TensorBoard:
    """Event files in a folder."""

    def __init__(self, folder: Path) -> None:
        _need("tensorboard", "report.tensorboard")
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(folder))

    def write(self, step: int, fields: Fields) -> None:
        for name, value in fields.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class MLflow:
    """One MLflow run a run of ours, found again by its tag at every launch.

    A tracking server that does not answer costs metrics, never training.
    """

    EVERY_STEPS = 10
    """Metrics are sent in batches: a request a step would make the server part of the step."""

    def __init__(self, uri: str, env: TrainerEnv, config: TrainerConfig, report: Reporter) -> None:
        self._report = report
        _need("mlflow", "report.mlflow")
        if uri.startswith("arn:"):
            _need("sagemaker_mlflow", "report.mlflow with an ARN")
        from mlflow.tracking import MlflowClient

        if uri.startswith("file:"):
            # the one store that needs no server and no database; MLflow wants to hear that we know
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        self._client: Any = MlflowClient(tracking_uri=uri)
        self._waiting: list[tuple[int, Fields]] = []
        self._run: str | None = None
        self._try(lambda: self._open(env.run_id, config))

    def write(self, step: int, fields: Fields) -> None:
        self._waiting.append((step, fields))
        if len(self._waiting) >= self.EVERY_STEPS:
            self._send()

    def close(self) -> None:
        self._send()

    def _open(self, run_id: str, config: TrainerConfig) -> None:
        found = self._client.get_experiment_by_name("everstep")
        experiment = found.experiment_id if found else self._client.create_experiment("everstep")
        tag = "everstep.run_id"
        runs = self._client.search_runs([experiment], f"tags.`{tag}` = '{run_id}'", max_results=1)
        if runs:
            self._run = runs[0].info.run_id
            return
        made = self._client.create_run(experiment, run_name=run_id, tags={tag: run_id})
        self._run = made.info.run_id
        for name in ("model", "parallelism", "train"):
            for key, value in getattr(config, name).model_dump(exclude_defaults=True).items():
                self._client.log_param(self._run, f"{name}.{key}", value)

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        if self._run is None or not waiting:
            return
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [
            Metric(name, value, now, step)
            for step, fields in waiting
            for name, value in fields.items()
        ]
        self._try(lambda: self._client.log_batch(self._run, metrics=metrics))

    def _try(self, act: Callable[[], Any]) -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - whatever a tracking server does, training goes on
            self._report.log(f"MLflow: {type(error).__name__}: {error}")


def _need(module: str, what: str) -> None:
    from importlib.util import find_spec

    if find_spec(module) is None:
        raise ConfigError(
            f"{what}: the Python module {module!r} is not in this image",
            f"pip install {module.replace('_', '-')}, or leave {what.split()[0]} out",
        )


def _tensorboard_folder(env: TrainerEnv, worker: Worker) -> Path:
    """SageMaker's own folder, which it copies to S3; a folder of the output for use alone."""
    if worker.ml.root.is_dir():
        return worker.ml.root / "output" / "tensorboard"
    return Path(env.output_uri) / "tensorboard"


def _peak_memory() -> int:
    """Bytes: of the device since the start, or of this process where there is none."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
