"""Is this job within its phase's budget? The watchdog and InspectAttempt ask the same question."""

from collections.abc import Iterable
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from everstep.contracts.events import TERMINAL_JOB_STATUSES
from everstep.contracts.failures import StopReason
from everstep.contracts.progress import Phase, parse_line
from everstep.contracts.run_spec import Watch

_SECONDARY: dict[str, Phase] = {
    "Pending": Phase.PENDING,
    "Starting": Phase.STARTING,
    "LaunchingMLInstances": Phase.STARTING,
    "PreparingTrainingStack": Phase.STARTING,
    "DownloadingTrainingImage": Phase.STARTING,
    "Restarting": Phase.STARTING,
    "Interrupted": Phase.STARTING,
    "Updating": Phase.STARTING,
    "Downloading": Phase.DOWNLOADING,
    "Uploading": Phase.UPLOADING,
    "Stopping": Phase.STOPPING,
}
_BEFORE_TRAINING = frozenset({Phase.PENDING, Phase.STARTING, Phase.DOWNLOADING})


class Seen(BaseModel):
    """What is known of a launch between two looks; all times epoch seconds."""

    model_config = ConfigDict(frozen=True)

    phase: Phase | None = None
    phase_since_epoch: float | None = None
    last_step: int | None = None
    first_step_epoch: float | None = None
    progress_epoch: float | None = None


class Line(NamedTuple):
    """One log line of the trainer that may be progress."""

    time_epoch: float
    text: str


class Verdict(BaseModel):
    """``stop`` is set when the job is out of its budget, with the words for a person."""

    model_config = ConfigDict(frozen=True)

    terminal: bool = False
    stop: StopReason | None = None
    detail: str | None = None


def observe(seen: Seen, secondary_status: str, status_since: float, lines: Iterable[Line]) -> Seen:
    """Fold what the service and the trainer say now into what was known.

    The trainer's own phases count only while the service says Training, and only those it printed
    since: after a restart by the service the log still holds what was said before. An unknown
    secondary status changes nothing by itself. Log times are used, not the time of the look, so a
    watchdog that was away for an hour judges as if it had been there.
    """
    service = _SECONDARY.get(secondary_status)
    if service is not None:
        since = status_since if seen.phase != service else seen.phase_since_epoch
        state = seen.model_copy(update={"phase": service, "phase_since_epoch": since})
        restarted = service in _BEFORE_TRAINING
        return state.model_copy(update={"progress_epoch": None}) if restarted else state
    training_since = status_since if secondary_status == "Training" else 0.0
    if training_since and _begins(seen, training_since):
        seen = seen.model_copy(
            update={
                "phase": Phase.WARMUP,
                "phase_since_epoch": training_since,
                "progress_epoch": None,
            }
        )
    for line in lines:
        if line.time_epoch >= training_since:
            seen = _fold(seen, line)
    return seen


def _begins(seen: Seen, training_since: float) -> bool:
    """Training is new: also where the service restarted the job while no one looked."""
    if seen.phase is None or seen.phase in _BEFORE_TRAINING:
        return True
    return seen.phase_since_epoch is None or seen.phase_since_epoch < training_since


def _fold(seen: Seen, line: Line) -> Seen:
    progress = parse_line(line.text)
    if progress is None:
        return seen
    if progress.everstep == "step" and progress.step is not None:
        if seen.last_step is not None and progress.step == seen.last_step and seen.progress_epoch:
            return seen  # printed again, not stepped again
        return seen.model_copy(
            update={
                "phase": Phase.STEP,
                "phase_since_epoch": line.time_epoch,
                "last_step": progress.step,
                "progress_epoch": line.time_epoch,
                "first_step_epoch": seen.first_step_epoch or line.time_epoch,
            }
        )
    if progress.phase is not None and progress.phase != seen.phase:
        return seen.model_copy(
            update={"phase": progress.phase, "phase_since_epoch": line.time_epoch}
        )
    return seen


def judge(watch: Watch, status: str, seen: Seen, now: float) -> Verdict:
    """In budget, out of it, or over."""
    if status in TERMINAL_JOB_STATUSES:
        return Verdict(terminal=True)
    if status == "Stopping" or seen.phase is None or seen.phase_since_epoch is None:
        return Verdict()  # a stop that was asked for cannot be hurried
    spent = now - seen.phase_since_epoch
    budget: int = getattr(watch, seen.phase.value)
    if spent <= budget:
        return Verdict()
    at = "" if seen.last_step is None else f" after step {seen.last_step}"
    detail = f"{spent:.0f} s in phase {seen.phase}{at}, budget watch.{seen.phase} is {budget} s"
    early = seen.phase in _BEFORE_TRAINING
    return Verdict(stop=StopReason.START_TIMEOUT if early else StopReason.HANG, detail=detail)
