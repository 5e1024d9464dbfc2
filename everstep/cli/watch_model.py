"""What ``everstep watch`` shows, from the run's rows and the trainer's lines: pure."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from everstep.cli.watch_stage import stage_after, stage_of, todo
from everstep.contracts.payloads import State
from everstep.contracts.progress import parse_line
from everstep.contracts.records import Launch, Run, RunStatus
from everstep.policy.cost import hours, used
from everstep.policy.own_file_system import spend_of_run

RATE_READINGS = 200
"""Readings that the pace is taken over: saves and validations between them count."""
CURVE = 240
"""Losses kept for the curve; means of neighbours where there are more."""


class Reading(NamedTuple):
    """One step line of the trainer, with the time of the log."""

    time: float
    step: int
    loss: float | None = None
    tokens_per_s: float | None = None
    mfu: float | None = None


class Attempt(BaseModel):
    """One launch of the history."""

    model_config = ConfigDict(frozen=True)

    launch: int
    where: str
    steps: str
    ended: str
    failure: str = ""
    cause: str = ""
    decision: str = ""


class Picture(BaseModel):
    """One moment of a run. Times are epoch seconds."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    team: str = ""
    status: str
    ended: bool = False
    now: float
    state: str
    """Of the state machine, as the rows show it."""
    doing: str = ""
    since: float | None = None
    stepped_at: float | None = None
    """Of the newest step, while a job trains."""
    quiet: bool = False
    """Nothing was heard for so long that the watchdog's answer is what comes next."""
    next: str = ""
    next_at: float | None = None
    step: int = 0
    steps: int | None = None
    eta_seconds: float | None = None
    """At the present pace, without a failure."""
    step_seconds: float | None = None
    loss: float | None = None
    losses: list[float] = []
    tokens_per_s: float | None = None
    mfu: float | None = None
    saved_step: int = 0
    spent: str = ""
    budget: list[str] = []
    attempts: list[Attempt] = []
    note: str = ""
    todo: str = ""
    """What the person who looks may do."""
    trouble: str = ""
    """Why what is shown may be old."""

    @property
    def share(self) -> float | None:
        """Of the steps, 0 to 1."""
        return min(1.0, self.step / self.steps) if self.steps else None


def reading(time: float, text: str) -> Reading | None:
    line = parse_line(text)
    if line is None or line.everstep != "step" or line.step is None:
        return None
    more = line.model_extra or {}
    return Reading(
        time, line.step, line.loss, _figure(more.get("tokens_per_s")), _figure(more.get("mfu"))
    )


def committed(text: str) -> int | None:
    """The step of a checkpoint whose manifest the line tells of."""
    line = parse_line(text)
    return line.step if line is not None and line.everstep == "committed" else None


def picture(
    run: Run,
    launches: Sequence[Launch],
    exports: Sequence[Launch],
    readings: Sequence[Reading],
    *,
    execution: str,
    prices_usd: Mapping[str, float],
    now: float,
    saved: int = 0,
) -> Picture:
    """``readings``: oldest first, of earlier launches too. ``execution``: its status, by Step
    Functions. ``saved``: a committed step that the rows do not have yet."""
    spend = spend_of_run(run, [*launches, *exports], prices_usd, now)
    alive = execution in ("RUNNING", "PENDING_REDRIVE")
    began = launches[-1].planned_epoch if launches else now
    fresh = [r for r in readings if r.time >= began]
    last = fresh[-1] if fresh else None
    if alive:
        stage = stage_of(run, launches, exports, last.time if last else None, now)
    else:
        stage = stage_after(run, execution)
    busy = bool(launches) and launches[-1].outcome is None
    step = _step(run, launches, last)
    steps = None if run.adopted else run.spec.stop.steps
    pace = _pace(launches, fresh)
    eta = max(0, steps - step) * pace if steps and pace and alive else None
    if last is not None and busy and eta is not None and stage.next_at and not stage.quiet:
        arrives = last.time + eta
        if arrives < stage.next_at:
            stage = stage._replace(next="arrives at its last step", next_at=arrives)
    losses = [r.loss for r in readings if r.loss is not None]
    return Picture(
        run_id=run.run_id,
        team=run.team.name,
        status=run.status if alive or run.ended else RunStatus.STOPPED,
        ended=not alive,
        now=now,
        **stage._asdict(),
        step=step,
        steps=steps,
        eta_seconds=None if stage.quiet else eta,
        step_seconds=pace,
        loss=losses[-1] if losses else None,
        losses=thinned(losses, CURVE),
        tokens_per_s=last.tokens_per_s if last and busy else None,
        mfu=last.mfu if last and busy else None,
        saved_step=max([saved, *(x.committed_step or x.resume_step for x in launches)]),
        spent=f"{spend.gpu_hours:,.2f} {hours([*launches, *exports])}, "
        + ("price unknown" if spend.usd is None else f"{spend.usd:,.2f} USD on demand"),
        budget=[u.words for u in used(run.spec.budget, spend, now, run.created_epoch)],
        attempts=[_attempt(x, last if x is launches[-1] else None) for x in launches],
        note=run.note or "",
        todo=todo(run) if run.ended or alive else "",
    )


def without_row(run_id: str, status: str, cause: str, now: float) -> Picture:
    """A run that ValidateSpec has not accepted: not yet, or not at all."""
    if status == "RUNNING":
        return Picture(run_id=run_id, status="running", now=now, state=State.VALIDATE_SPEC)
    return Picture(
        run_id=run_id, status="refused", ended=True, now=now, state=State.REFUSE_SPEC, note=cause
    )


def thinned(values: Sequence[float], most: int) -> list[float]:
    """At most so many: means of neighbours. What is no finite number is left out."""
    finite = [v for v in values if v == v and abs(v) != float("inf")]
    if len(finite) <= most:
        return finite
    edges = [len(finite) * i // most for i in range(most + 1)]
    return [sum(finite[a:b]) / (b - a) for a, b in pairwise(edges) if b > a]


def _step(run: Run, launches: Sequence[Launch], last: Reading | None) -> int:
    if last is not None:
        return last.step
    if run.final_step is not None:
        return run.final_step
    if not launches:
        return 0
    newest = launches[-1]
    return newest.last_step if newest.last_step is not None else newest.resume_step


def _pace(launches: Sequence[Launch], readings: Sequence[Reading]) -> float | None:
    """Seconds a step: by the log's clock where it shows two steps of one start, else the rows'."""
    recent: list[Reading] = []
    for one in reversed(readings[-RATE_READINGS:]):
        if recent and one.step >= recent[-1].step:
            break  # an earlier start, which was further
        recent.append(one)
    if len(recent) > 1 and recent[0].time > recent[-1].time:
        return (recent[0].time - recent[-1].time) / (recent[0].step - recent[-1].step)
    times: Iterable[float] = launches[-1].step_times if launches else ()
    return median(times) if times else None


def _attempt(x: Launch, last: Reading | None) -> Attempt:
    reached = last.step if last and x.outcome is None else x.last_step
    return Attempt(
        launch=x.launch,
        where=x.where,
        steps=f"{x.resume_step}→{'' if reached is None else reached}",
        ended=x.outcome.status if x.outcome else "",
        failure=x.failure.failure_class if x.failure else "",
        cause=x.failure.cause if x.failure else "",
        decision=x.decision.kind if x.decision else "",
    )


def _figure(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
