"""A run's step lines: what was printed, and few enough points of it to draw."""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from everstep.contracts.progress import parse_line
from everstep.policy.goodput import StepTime

MOST_POINTS = 1200
"""Of a curve: more than a screen has columns. Extremes of what is left out are kept."""


class StepLine(NamedTuple):
    """One optimizer step as its trainer printed it."""

    time_epoch: float
    step: int
    seconds: float = 0.0
    save_seconds: float = 0.0
    """How long the step waited for a checkpoint's copy: not part of ``seconds``."""
    loss: float | None = None
    """None where none was printed, or no finite one."""
    tokens: int | None = None
    """Since the run's first step, this one included."""
    tokens_per_s: float | None = None
    mfu: float | None = None


Lines = Mapping[int, Sequence[StepLine]]
"""By launch number, in order of time."""


def step_lines(printed: Iterable[tuple[float, str]]) -> list[StepLine]:
    """Of (epoch seconds, text), in order of time. Anything else that was logged is left out."""
    found = []
    for at, text in printed:
        line = parse_line(text)
        if line is None or line.everstep != "step" or line.step is None:
            continue
        more: Mapping[str, Any] = line.model_extra or {}
        tokens = _number(more.get("tokens"))
        found.append(
            StepLine(
                time_epoch=at,
                step=line.step,
                seconds=max(0.0, _number(more.get("step_seconds")) or 0.0),
                save_seconds=max(0.0, _number(more.get("save_seconds")) or 0.0),
                loss=_number(line.loss),
                tokens=None if tokens is None else int(tokens),
                tokens_per_s=_number(more.get("tokens_per_s")),
                mfu=_number(more.get("mfu")),
            )
        )
    return sorted(found, key=lambda line: line.time_epoch)


def _number(value: Any) -> float | None:
    """A foreign trainer may print anything; NaN is no number that a page can draw."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if isfinite(value) else None


def times(lines: Lines) -> dict[int, list[StepTime]]:
    """As ``policy.goodput`` takes them."""
    return {
        launch: [StepTime(step=x.step, seconds=x.seconds, loss=x.loss) for x in of]
        for launch, of in lines.items()
    }


def lasting(lines: Lines) -> set[tuple[int, int]]:
    """(launch, index) of the last time that each step was done: the run as it finally went."""
    last: dict[int, tuple[int, int]] = {}
    for launch in sorted(lines):
        for index, line in enumerate(lines[launch]):
            last[line.step] = (launch, index)
    return set(last.values())


def thinned(points: Sequence[StepLine], most: int = MOST_POINTS) -> list[StepLine]:
    """At most ``most``, evenly; of each stretch the highest and lowest loss, so that a spike stays.

    The first and the last point are kept.
    """
    if len(points) <= most:
        return list(points)
    stretches = max(1, most // 2 - 1)
    kept = {0, len(points) - 1}
    for n in range(stretches):
        begin, end = n * len(points) // stretches, (n + 1) * len(points) // stretches
        known = [i for i in range(begin, end) if points[i].loss is not None] or [begin]
        kept.add(max(known, key=lambda i: points[i].loss or 0.0))
        kept.add(min(known, key=lambda i: points[i].loss or 0.0))
    return [points[i] for i in sorted(kept)]
