"""Where the state machine is with a run, and what it will do next: pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from everstep.contracts.failures import DecisionKind
from everstep.contracts.payloads import State
from everstep.contracts.progress import Phase
from everstep.contracts.records import Launch, Run, RunStatus
from everstep.policy.watchdog import step_budget

QUIET_SHARE = 0.25
"""Of a phase's budget: when so much is gone, what the watchdog will do is what comes next."""
DOES: Mapping[Phase | None, str] = {
    None: "is being made",
    Phase.PENDING: "waits for SageMaker",
    Phase.STARTING: "gets its hosts",
    Phase.DOWNLOADING: "fetches its data",
    Phase.WARMUP: "starts up: no step yet",
    Phase.STEP: "trains",
    Phase.VALIDATION: "validates",
    Phase.SAVE: "saves a checkpoint",
    Phase.UPLOADING: "uploads its output",
    Phase.STOPPING: "is stopping",
}
"""Each phase, said of a launch."""


class Stage(NamedTuple):
    """Where the state machine is, and what it will do next."""

    state: str
    doing: str = ""
    since: float | None = None
    next: str = ""
    next_at: float | None = None
    stepped_at: float | None = None
    """Of the newest step, while it trains."""
    quiet: bool = False
    """Nothing was heard for a while: ``next`` is the watchdog's."""


def stage_of(
    run: Run,
    launches: Sequence[Launch],
    exports: Sequence[Launch],
    stepped: float | None,
    now: float,
) -> Stage:
    """Of a run whose execution runs. ``stepped``: when the log showed the newest step."""
    if run.waiting is not None:
        return _waits(run)
    last = launches[-1] if launches else None
    if last is None:
        return Stage(State.CHECK_QUOTA, next="plans the first launch")
    if run.final_step is not None:
        return _after_training(exports)
    if last.outcome is None:
        return _runs(run, last, stepped, now)
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
    return Stage(State.BACKOFF, "", settled, words, ends)


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


def _runs(run: Run, last: Launch, stepped: float | None, now: float) -> Stage:
    phase = last.phase
    doing = f"launch {last.launch} {DOES[phase]}"
    since = last.phase_since_epoch or last.planned_epoch
    if last.stop_reason is not None:
        words = f"launch {last.launch} is being stopped: {last.stop_reason}"
        return Stage(State.LAUNCH_ATTEMPT, words, since)
    if phase is Phase.STEP:
        # The watchdog's row is up to a minute behind the log.
        since = max(since, stepped or 0.0)
    stage = Stage(State.LAUNCH_ATTEMPT, doing, since)
    if phase is Phase.STEP:
        stage = stage._replace(since=None, stepped_at=since)
    if quiet := _quiet(run, last, since, now):
        return stage._replace(next=quiet[0], next_at=quiet[1], quiet=True)
    limit, began = last.max_runtime_seconds, last.started_epoch
    if limit is None or began is None:
        return stage._replace(next="nothing to decide while the job gets on")
    end = "gives up for the budget" if last.budget_bound else "goes on in a next job"
    return stage._replace(next=f"run time is over: {end}", next_at=began + limit)


def _quiet(run: Run, last: Launch, since: float, now: float) -> tuple[str, float] | None:
    """What the watchdog will do, and when, to a job whose phase has lasted a while."""
    if last.phase is None:
        return None
    watch = run.spec.watch
    if last.phase is Phase.STEP:
        budget = step_budget(watch, last.step_times)
        words = "no new step: stopped as a hang, and started again,"
    else:
        budget = getattr(watch, last.phase.value)
        words = f"stopped if it still {DOES[last.phase].partition(':')[0]}"
    return (words, since + budget) if now - since > QUIET_SHARE * budget else None


def _after_training(exports: Sequence[Launch]) -> Stage:
    if exports and exports[-1].outcome is None:
        last = exports[-1]
        doing = f"try {last.launch} {DOES[last.phase]}"
        return Stage(State.EXPORT_MODEL, doing, last.phase_since_epoch or last.planned_epoch)
    return Stage(State.FINISH, "training is done")


def stage_after(run: Run, execution: str) -> Stage:
    """``execution``: its status, by Step Functions."""
    if run.status is RunStatus.DONE:
        return Stage(State.DONE)
    if run.status is RunStatus.GAVE_UP:
        return Stage(State.GIVE_UP, next=f"everstep retry {run.run_id}, once the cause is mended")
    if run.ended:
        return Stage(execution, next=f"everstep retry {run.run_id} goes on")
    return Stage(execution, "its row will follow", next=f"everstep retry {run.run_id}")


def todo(run: Run) -> str:
    """For the person who looks; empty where there is nothing to do."""
    if run.status is RunStatus.GAVE_UP:
        said = (run.note or "").splitlines()
        return "; ".join(
            line.partition(": ")[2] for line in said if line.startswith(("hint: ", "runbook: "))
        )
    if run.waiting is not None:
        return "nothing; for more room end other jobs, or docs/guides/quotas.md"
    return ""
