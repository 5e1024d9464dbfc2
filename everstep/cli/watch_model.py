"""What ``everstep watch`` shows, from the run's rows and the trainer's lines: pure."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from everstep.contracts.failures import DecisionKind
from everstep.contracts.payloads import State
from everstep.contracts.progress import parse_line
from everstep.contracts.records import Launch, Run, RunStatus
from everstep.policy.cost import spend_of, used

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
    trouble: str = ""
    """Why what is shown may be old."""

    @property
    def share(self) -> float | None:
        """Of the steps, 0 to 1."""
        return min(1.0, self.step / self.steps) if self.steps else None


class Stage(NamedTuple):
    """Where the state machine is, and what it will do next."""

    state: str
    doing: str = ""
    since: float | None = None
    next: str = ""
    next_at: float | None = None


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
    spend = spend_of([*launches, *exports], prices_usd, now)
    alive = execution in ("RUNNING", "PENDING_REDRIVE")
    stage = _stage(run, launches, exports) if alive else _after(run, execution)
    began = launches[-1].planned_epoch if launches else now
    fresh = [r for r in readings if r.time >= began]
    last = fresh[-1] if fresh else None
    busy = bool(launches) and launches[-1].outcome is None
    step = _step(run, launches, last)
    steps = None if run.adopted else run.spec.stop.steps
    pace = _pace(launches, fresh)
    eta = max(0, steps - step) * pace if steps and pace and alive else None
    if last is not None and busy and eta is not None and stage.next_at is not None:
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
        eta_seconds=eta,
        step_seconds=pace,
        loss=losses[-1] if losses else None,
        losses=thinned(losses, CURVE),
        tokens_per_s=last.tokens_per_s if last and busy else None,
        mfu=last.mfu if last and busy else None,
        saved_step=max([saved, *(x.committed_step or x.resume_step for x in launches)]),
        spent=f"{spend.gpu_hours:,.2f} GPU hours, "
        + ("price unknown" if spend.usd is None else f"{spend.usd:,.2f} USD on demand"),
        budget=[u.words for u in used(run.spec.budget, spend, now, run.created_epoch)],
        attempts=[_attempt(x, last if x is launches[-1] else None) for x in launches],
        note=run.note or "",
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


def _stage(run: Run, launches: Sequence[Launch], exports: Sequence[Launch]) -> Stage:
    if run.waiting is not None:
        return _waits(run)
    last = launches[-1] if launches else None
    if last is None:
        return Stage(State.CHECK_QUOTA, next="plans the first launch")
    if run.final_step is not None:
        return _after_training(exports)
    if last.outcome is None:
        return _runs(run, last)
    settled = last.settled_epoch
    if last.failure is None:
        done = last.outcome.status == "Completed"
        state = State.VERIFY_OUTCOME if done else State.CLASSIFY
        return Stage(state, f"launch {last.launch}", settled)
    decision = last.decision
    if decision is None:
        return Stage(State.DECIDE, f"launch {last.launch}", settled)
    if decision.kind is DecisionKind.GIVE_UP:
        return Stage(State.GIVE_UP, decision.reason, settled)
    words = f"launch {last.launch + 1}: {decision.kind} ({decision.reason})"
    if not decision.wait_seconds:
        return Stage(State.CHECK_QUOTA, "", settled, words)
    # The row has no time of the decision itself: it follows the outcome by some seconds.
    ends = None if settled is None else settled + decision.wait_seconds
    return Stage(State.BACKOFF, f"{decision.wait_seconds} s", settled, words, ends)


def _waits(run: Run) -> Stage:
    waiting = run.waiting
    assert waiting is not None
    deadline = waiting.since_epoch + run.spec.retry.wait_deadline_hours * 3600 - run.waited_seconds
    if run.spec.budget.deadline is not None:
        deadline = min(deadline, run.spec.budget.deadline.timestamp())
    return Stage(
        State.WAIT_FOR_ROOM,
        waiting.reason,
        waiting.since_epoch,
        "goes on when there is room; gives up",
        deadline,
    )


def _runs(run: Run, last: Launch) -> Stage:
    doing = f"launch {last.launch}, {last.phase or 'not made yet'}"
    since = last.phase_since_epoch or last.planned_epoch
    if last.stop_reason is not None:
        return Stage(State.LAUNCH_ATTEMPT, f"{doing}: being stopped, {last.stop_reason}", since)
    limit, began = last.max_runtime_seconds, last.started_epoch
    if limit is None or began is None:
        return Stage(State.LAUNCH_ATTEMPT, doing, since, "nothing to decide while the job gets on")
    end = "gives up for the budget" if last.budget_bound else "goes on in a next job"
    return Stage(State.LAUNCH_ATTEMPT, doing, since, f"run time is over: {end}", began + limit)


def _after_training(exports: Sequence[Launch]) -> Stage:
    if exports and exports[-1].outcome is None:
        last = exports[-1]
        doing = f"try {last.launch}, {last.phase or 'not made yet'}"
        return Stage(State.EXPORT_MODEL, doing, last.phase_since_epoch or last.planned_epoch)
    return Stage(State.FINISH, "training is done")


def _after(run: Run, execution: str) -> Stage:
    if run.status is RunStatus.DONE:
        return Stage(State.DONE)
    if run.status is RunStatus.GAVE_UP:
        return Stage(State.GIVE_UP, next=f"everstep retry {run.run_id}, once the cause is mended")
    if run.ended:
        return Stage(execution, next=f"everstep retry {run.run_id} goes on")
    return Stage(execution, "its row will follow", next=f"everstep retry {run.run_id}")


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
