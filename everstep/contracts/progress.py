"""The line by which a trainer, ours or anyone's, says how it goes.

A trainer prints one JSON object a line on standard output, with ``"everstep"`` as its
first key and the kind of line as that key's value::

    {"everstep":"step","step":12,"loss":5.1023,"tokens_per_s":8123.4,…}
    {"everstep":"phase","phase":"save","step":12}
    {"everstep":"resume","step":10,"checkpoint":"step-00000010.00001"}

Everything else that a trainer prints is log text. Only ``step`` lines are progress.
"""

import json
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

METRIC_NAMESPACE = "/aws/sagemaker/TrainingJobs"
METRICS = (
    "step",
    "loss",
    "tokens_per_s",
    "step_seconds",
    "grad_norm",
    "lr",
    "mfu",
    "memory_gib",
    "data_seconds",
    "save_seconds",
)
"""Fields of a ``step`` line that become metrics of the job. The reference trainer adds:

``mfu``: model FLOPs utilisation, 0 to 1 (known GPUs only); ``memory_gib``: peak of the device since
the start, of the process on a CPU; ``data_seconds``, ``save_seconds``: how long the step waited for
its batch and for a checkpoint's copy.
"""
_NUMBER = r"(-?[0-9.]+(?:[eE][-+]?[0-9]+)?)"


class Phase(StrEnum):
    """What a job is doing; each phase has a budget in ``spec.watch``."""

    PENDING = "pending"
    STARTING = "starting"
    DOWNLOADING = "downloading"
    WARMUP = "warmup"
    """The trainer runs but has not finished its first step of this attempt."""
    STEP = "step"
    VALIDATION = "validation"
    SAVE = "save"
    UPLOADING = "uploading"
    STOPPING = "stopping"


class ProgressLine(BaseModel):
    """A parsed line. Unknown keys are kept: trainers may say more than we read."""

    model_config = ConfigDict(extra="allow")

    everstep: str
    step: int | None = None
    phase: Phase | None = None
    loss: float | None = None


def format_line(kind: str, **fields: Any) -> str:
    """The text of a progress line, without the newline."""
    return json.dumps({"everstep": kind, **fields}, separators=(",", ":"))


def parse_line(text: str) -> ProgressLine | None:
    """None for log text, and for a line that only looks like progress."""
    start = text.find('{"everstep"')
    if start < 0:
        return None
    try:
        found, _ = _DECODER.raw_decode(text, start)  # others may write behind it
        return ProgressLine.model_validate(found)
    except (ValueError, ValidationError, RecursionError):
        return None


def _whole(digits: str) -> int | None:
    """None for one that neither a float nor a row of a table holds."""
    return int(digits) if len(digits) <= 18 else None


_DECODER = json.JSONDecoder(parse_int=_whole)


def metric_definitions() -> list[dict[str, str]]:
    """SageMaker ``MetricDefinitions`` that read step lines (≤ 40 of ≤ 500 characters)."""
    return [
        {"Name": f"everstep:{name}", "Regex": f'"everstep":\\s*"step".*?"{name}":\\s*{_NUMBER}'}
        for name in METRICS
    ]
