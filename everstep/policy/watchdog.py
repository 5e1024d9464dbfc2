"""Is this job within its phase's budget? The watchdog and InspectAttempt ask the same question."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple, TypeGuard

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
RESTARTS = frozenset({"Restarting", "Interrupted"})
"""Transitions by which the service starts the same job again."""
STEPS_KEPT = 21
REPORTS_BELONG_TOGETHER_SECONDS = 1800
_WITH_FILES = frozenset({Phase.DOWNLOADING, Phase.WARMUP, Phase.STEP, Phase.VALIDATION, Phase.SAVE})
"""Phases in which a job may wait for its data or its checkpoints."""
_BEFORE_TRAINING = frozenset({Phase.PENDING, Phase.STARTING, Phase.DOWNLOADING})


class Seen(BaseModel):
    """What is known of a launch between two looks; all times epoch seconds."""

    model_config = ConfigDict(frozen=True)

    phase: Phase | None = None
    phase_since_epoch: float | None = None
    last_step: int | None = None
    first_step_epoch: float | None = None
    progress_epoch: float | None = None
    training_epoch: float | None = None
    loaded_epoch: float | None = None
    service_restarts: int = 0
    step_times: list[float] = []
    slow_rank: int | None = None
    slow_ratio: float | None = None
    slow_reports: int = 0
    slow_epoch: float | None = None


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


def observe(
    seen: Seen,
    secondary_status: str,
    status_since: float,
    lines: Iterable[Line],
    *,
    restarts: int = 0,
    slow_from: float = 1.5,
) -> Seen:
    """Fold what the service and the trainer say now into what was known.

    The trainer's own phases count only while the service says Training, and only those it printed
    since: after a restart by the service the log still holds what was said before. An unknown
    secondary status changes nothing by itself. Log times are used, not the time of the look, so a
    watchdog that was away for an hour judges as if it had been there. A restart by the service that
    no one saw is known by their count: the start-up budget applies anew.
    """
    service = _SECONDARY.get(secondary_status)
    anew = restarts > seen.service_restarts
    if anew:
        seen = seen.model_copy(update={"service_restarts": restarts})
    if service is not None:
        since = status_since if anew or seen.phase != service else seen.phase_since_epoch
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
                "training_epoch": seen.training_epoch or training_since,
            }
        )
    for line in lines:
        if line.time_epoch >= training_since:
            seen = _fold(seen, line, slow_from)
    return seen


def _begins(seen: Seen, training_since: float) -> bool:
    """Training is new: also where the service restarted the job while no one looked."""
    if seen.phase is None or seen.phase in _BEFORE_TRAINING:
        return True
    return seen.phase_since_epoch is None or seen.phase_since_epoch < training_since


def _fold(seen: Seen, line: Line, slow_from: float) -> Seen:
    progress = parse_line(line.text)
    if progress is None:
        return seen
    if progress.everstep == "straggler":
        return _fold_straggler(seen, line, progress.model_extra or {}, slow_from)
    if progress.everstep == "resume" or progress.phase is Phase.WARMUP:
        seen = seen.model_copy(update={"loaded_epoch": seen.loaded_epoch or line.time_epoch})
    if progress.everstep == "step" and progress.step is not None:
        if seen.last_step is not None and progress.step == seen.last_step and seen.progress_epoch:
            return seen  # printed again, not stepped again
        said = (progress.model_extra or {}).get("step_seconds")
        times = [*seen.step_times, float(said)] if _number(said) else seen.step_times
        return seen.model_copy(
            update={
                "phase": Phase.STEP,
                "phase_since_epoch": line.time_epoch,
                "last_step": progress.step,
                "progress_epoch": line.time_epoch,
                "first_step_epoch": seen.first_step_epoch or line.time_epoch,
                "step_times": times[-STEPS_KEPT:],
            }
        )
    if progress.phase is not None and progress.phase != seen.phase:
        return seen.model_copy(
            update={"phase": progress.phase, "phase_since_epoch": line.time_epoch}
        )
    return seen


def _fold_straggler(seen: Seen, line: Line, said: dict[str, object], slow_from: float) -> Seen:
    """Reports of the same rank in a row; one below the threshold ends them."""
    rank, ratio = said.get("rank"), said.get("ratio")
    if not isinstance(rank, int) or not _number(ratio):
        return seen
    last = seen.slow_epoch
    if last is not None and line.time_epoch <= last:
        return seen  # read before
    together = last is not None and line.time_epoch - last <= REPORTS_BELONG_TOGETHER_SECONDS
    same = together and rank == seen.slow_rank
    slow = ratio >= slow_from
    return seen.model_copy(
        update={
            "slow_rank": rank,
            "slow_ratio": float(ratio),
            "slow_reports": (seen.slow_reports + 1 if same else 1) if slow else 0,
            "slow_epoch": line.time_epoch,
        }
    )


def _number(value: object) -> TypeGuard[float]:
    """That a row can hold: a program may print anything."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9


def step_budget(watch: Watch, step_times: Sequence[float]) -> int:
    """The spec's own, else a multiple of what steps take."""
    if watch.step is not None:
        return watch.step
    ceiling = max(watch.step_floor, watch.step_ceiling)
    if not step_times:
        return ceiling
    return int(min(ceiling, max(watch.step_floor, watch.step_factor * median(step_times))))


def quiet_since(watch: Watch, seen: Seen, now: float) -> float | None:
    """A time since which some log line must have come, where it is worth asking."""
    if watch.silence is None or seen.phase is None or seen.phase in _SECONDARY.values():
        return None
    begun = max(seen.phase_since_epoch or 0.0, seen.progress_epoch or 0.0)
    return now - watch.silence if now - begun > watch.silence else None


def silent(watch: Watch, seen: Seen) -> Verdict:
    """The words for a container that says nothing at all any more."""
    at = "" if seen.last_step is None else f" after step {seen.last_step}"
    detail = (
        f"no host logged a line for {watch.silence} s in phase {seen.phase}{at} (watch.silence)"
    )
    return Verdict(stop=StopReason.HANG, detail=detail)


def straggles(watch: Watch, seen: Seen) -> Verdict | None:
    """Past the threshold for as many reports as the spec says."""
    if seen.slow_reports < watch.straggler_reports:
        return None
    detail = (
        f"rank {seen.slow_rank} took {seen.slow_ratio:.2f} × the median step in "
        f"{seen.slow_reports} reports in a row (watch.straggler_ratio {watch.straggler_ratio:g})"
    )
    return Verdict(stop=StopReason.STRAGGLER, detail=detail)


def idles(watch: Watch, seen: Seen, busiest: float | None, now: float) -> Verdict | None:
    """``busiest``: the highest GPU utilisation of any host seen over the last ``watch.idle``
    seconds, None where the metrics do not cover them. Only while steps are claimed: every other
    phase may well do without GPUs."""
    if watch.idle is None or busiest is None or seen.phase is not Phase.STEP:
        return None
    stepping_since = seen.first_step_epoch
    if stepping_since is None or now - stepping_since < watch.idle or busiest > watch.idle_percent:
        return None
    detail = (
        f"the trainer says it steps (last: {seen.last_step}), and no GPU was busier than "
        f"{busiest:g} % for {watch.idle} s (watch.idle)"
    )
    return Verdict(stop=StopReason.IDLE, detail=detail)


def judge(
    watch: Watch, status: str, seen: Seen, now: float, file_system: str | None = None
) -> Verdict:
    """In budget, out of it, or over. ``file_system``: that it works on, if on one."""
    if status in TERMINAL_JOB_STATUSES:
        return Verdict(terminal=True)
    if status == "Stopping" or seen.phase is None or seen.phase_since_epoch is None:
        return Verdict()  # a stop that was asked for cannot be hurried
    spent = now - seen.phase_since_epoch
    stepping = seen.phase is Phase.STEP
    budget = step_budget(watch, seen.step_times) if stepping else getattr(watch, seen.phase.value)
    if spent <= budget:
        return Verdict()
    at = "" if seen.last_step is None else f" after step {seen.last_step}"
    detail = f"{spent:.0f} s in phase {seen.phase}{at}, budget watch.{seen.phase} is {budget} s"
    if stepping and watch.step is None and seen.step_times:
        detail += f" ({watch.step_factor:g} × the median of {median(seen.step_times):.3g} s a step)"
    if file_system is not None and seen.phase in _WITH_FILES:
        detail += f"; it works on {file_system}: a file system that stalls looks the same"
    early = seen.phase in _BEFORE_TRAINING
    return Verdict(stop=StopReason.START_TIMEOUT if early else StopReason.HANG, detail=detail)
