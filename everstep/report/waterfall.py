"""Where a run's time went: every second of it in exactly one part.

Rows say when a launch was planned, ended and why; step lines say what was done in between. The
time axis is cut where rows and lines have a time, so that the parts sum to the whole.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from everstep.contracts.failures import DecisionKind, FailureClass
from everstep.contracts.records import Launch, Run
from everstep.report.steps import Lines, StepLine, lasting


class Part(StrEnum):
    """In the order in which they are shown."""

    USEFUL = "useful"
    """Steps that the final weights are made of."""
    RECOMPUTED = "recomputed"
    """Steps that were done again later."""
    CHECKPOINT = "checkpoint"
    """Steps that waited for a checkpoint's copy."""
    START = "start"
    """From the run's acceptance to its first step."""
    RESTART = "restart"
    """From a failed launch's last step to the next one's first."""
    WAITING = "waiting"
    """For quota or capacity."""
    HANG = "hang"
    """From the last step of a launch that hung until it was stopped."""
    OTHER = "other"
    """Validation, the final save, export; between steps whatever no line accounts for."""


HANGS = {
    FailureClass.HANG,
    FailureClass.COMMUNICATION_HANG,
    FailureClass.IDLE,
}
NO_ROOM = {FailureClass.CAPACITY, FailureClass.QUOTA, FailureClass.THROTTLING}


class Span(BaseModel):
    """A stretch of the run's time; epoch seconds. ``parts`` sum to its length."""

    model_config = ConfigDict(frozen=True)

    begin: float
    end: float
    launch: int | None = None
    """None between two launches."""
    training: bool = False
    """From the first step to the last: then ``parts`` may be several."""
    parts: dict[Part, float]


def spans(run: Run, launches: Sequence[Launch], lines: Lines, ended: float) -> list[Span]:
    """The run from its acceptance to ``ended``, without a hole."""
    return [span for span in _cut(run, launches, lines, ended) if span.end > span.begin]


def _cut(run: Run, launches: Sequence[Launch], lines: Lines, ended: float) -> Iterator[Span]:
    at, last, stepped, former = run.created_epoch, lasting(lines), False, None
    waited = run.waited_seconds
    for index, launch in enumerate(launches):
        own = lines.get(launch.launch, ())
        begin = _within(at, launch.planned_epoch, ended)
        following = launches[index + 1].planned_epoch if index + 1 < len(launches) else ended
        end = _within(begin, _end_of(launch, following), ended)
        away = Part.RESTART if former is not None else Part.START
        wait = begin - at if _was_told_to_wait(former) else min(begin - at, waited)
        waited = max(0.0, waited - wait)
        yield _span(at, at + wait, Part.WAITING)
        yield _span(at + wait, begin, away)
        first, final = _steps(launch, own, begin, end)
        if first is None or final is None:
            yield _span(begin, end, _idle_part(launch, former, stepped), launch.launch)
        else:
            yield _span(begin, first, Part.RESTART if stepped else Part.START, launch.launch)
            yield Span(
                begin=first,
                end=final,
                launch=launch.launch,
                training=True,
                parts=_training(launch.launch, own, last, final - first),
            )
            yield _span(final, end, _after_steps(launch), launch.launch)
            stepped = True
        at, former = end, launch
    wait = ended - at if _was_told_to_wait(former) else min(ended - at, waited)
    yield _span(at, at + wait, Part.WAITING)
    yield _span(at + wait, ended, Part.OTHER if former is not None else Part.START)


def _span(begin: float, end: float, part: Part, launch: int | None = None) -> Span:
    return Span(begin=begin, end=end, launch=launch, parts={part: end - begin})


def _within(low: float, at: float, high: float) -> float:
    """Clocks of several machines: a time never goes back."""
    return max(low, min(at, high))


def _end_of(launch: Launch, following: float) -> float:
    ended = launch.outcome.ended_epoch if launch.outcome else None
    if ended is None:
        ended = launch.settled_epoch
    return following if ended is None else ended


def _steps(
    launch: Launch, own: Sequence[StepLine], begin: float, end: float
) -> tuple[float | None, float | None]:
    """When the first step began and the last one was told; the row's word where no line is left."""
    if own:
        first = own[0].time_epoch - own[0].seconds - own[0].save_seconds
        first = _within(begin, first, end)
        return first, _within(first, own[-1].time_epoch, end)
    if launch.first_step_epoch is None or launch.progress_epoch is None:
        return None, None
    first = _within(begin, launch.first_step_epoch, end)
    return first, _within(first, launch.progress_epoch, end)


def _training(
    number: int, own: Sequence[StepLine], last: set[tuple[int, int]], length: float
) -> dict[Part, float]:
    """What the steps took. Lines are told late and in heaps, so that their seconds are taken and
    not their times; they may not exceed the length that they had."""
    found = dict.fromkeys((Part.USEFUL, Part.RECOMPUTED, Part.CHECKPOINT, Part.RESTART), 0.0)
    for index, line in enumerate(own):
        useful = (number, index) in last
        found[Part.USEFUL if useful else Part.RECOMPUTED] += line.seconds
        found[Part.CHECKPOINT] += line.save_seconds
        if index and line.step <= own[index - 1].step:  # restarted in the job, or rewound
            began = line.time_epoch - line.seconds - line.save_seconds
            found[Part.RESTART] += max(0.0, began - own[index - 1].time_epoch)
    told = sum(found.values())
    if told > length:
        found = {part: seconds * length / told for part, seconds in found.items()}
    found[Part.OTHER] = max(0.0, length - sum(found.values()))
    return {part: seconds for part, seconds in found.items() if seconds}


def _was_told_to_wait(former: Launch | None) -> bool:
    decision = former.decision if former is not None else None
    return decision is not None and decision.kind is DecisionKind.WAIT


def _idle_part(launch: Launch, former: Launch | None, stepped: bool) -> Part:
    """Of a launch without a step."""
    if launch.failure is not None and launch.failure.failure_class in NO_ROOM:
        return Part.WAITING
    return Part.RESTART if stepped or former is not None or launch.failure else Part.START


def _after_steps(launch: Launch) -> Part:
    if launch.failure is None:
        return Part.OTHER
    return Part.HANG if launch.failure.failure_class in HANGS else Part.RESTART
