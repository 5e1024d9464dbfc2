"""(class, history, progress, budget) → decision. One table, pure; every class has a row."""

import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pydantic import BaseModel

from everstep.contracts.failures import (
    Action,
    Decision,
    DecisionKind,
    Failure,
    FailureClass,
    Rung,
)
from everstep.contracts.records import Launch
from everstep.contracts.run_spec import RunSpec
from everstep.policy.cost import Spend, over
from everstep.policy.ladder import Choice, choose

F, K = FailureClass, DecisionKind


class Row(NamedTuple):
    """What a class gets.

    ``patience`` multiplies ``retry.no_progress_limit``: faults of hosts may come in a row by
    chance, faults of the program may not. A class that waits is bounded by
    ``retry.wait_deadline_hours`` instead. How it is tried again is the ladder's: ``RUNGS``.
    """

    kind: DecisionKind
    spends_attempt: bool = True
    patience: int = 1
    backoff: bool = True
    poison: bool = False
    """The same cause twice running, without progress, ends the run whatever the limits say."""


TABLE: dict[FailureClass, Row] = {
    F.BAD_CONFIG: Row(K.GIVE_UP),
    F.BAD_DATA: Row(K.GIVE_UP),
    F.BUDGET: Row(K.GIVE_UP),
    F.CAPACITY: Row(K.RETRY, spends_attempt=False),
    F.COMMUNICATION_HANG: Row(K.RETRY, patience=3),
    F.DIVERGED: Row(K.RETRY, poison=True),
    F.EXPORT_FAILED: Row(K.GIVE_UP),
    F.HANG: Row(K.RETRY, patience=3),
    F.IDLE: Row(K.RETRY),
    F.INCOMPLETE: Row(K.RETRY, poison=True),
    F.INFRASTRUCTURE: Row(K.RETRY, patience=3),
    F.INTERRUPTED: Row(K.RETRY, patience=5),
    F.MAX_RUNTIME: Row(K.CONTINUE, spends_attempt=False, backoff=False),
    F.OUT_OF_MEMORY_GPU: Row(K.GIVE_UP),
    F.OUT_OF_MEMORY_HOST: Row(K.GIVE_UP),
    F.QUOTA: Row(K.WAIT, spends_attempt=False),
    F.STORAGE_TRANSIENT: Row(K.RETRY, patience=3),
    F.STRAGGLER: Row(K.RETRY, patience=3, backoff=False),
    F.THROTTLING: Row(K.RETRY, spends_attempt=False),
    F.UNKNOWN: Row(K.RETRY, poison=True),
    F.USER_CODE: Row(K.RETRY, poison=True),
    F.USER_STOP: Row(K.GIVE_UP),
}

_VARYING = re.compile(r"0x[0-9a-fA-F]+|\d+")

RETURN_AFTER_SECONDS = 6 * 3600
"""An attempt elsewhere that ran so long gives way to the first choice, when it ends."""

PAYS_SECONDS = 900.0
"""An attempt that trained so long and committed a new checkpoint was worth its start: those before
it no longer count against ``retry.max_attempts``. A 54-day run on 16,384 GPUs fails every three
hours; what fails sooner than this, time after time, is worth a look by a person."""

WITHOUT_ATTEMPT = frozenset(c for c, row in TABLE.items() if not row.spends_attempt)


class History(BaseModel):
    """What came before, and what it cost. ``launches`` are those that count, oldest first,
    the one that just failed last."""

    launches: Sequence[Launch]
    waited_seconds: float = 0.0
    """In WaitForRoom. What Backoff waited is in the launches' decisions."""
    spend: Spend = Spend()
    now: float = 0.0
    created_epoch: float = 0.0
    """When the run was accepted: a deadline's share counts from here."""


def made_progress(launch: Launch) -> bool:
    """A new checkpoint was committed. Steps that were not saved will be redone: no progress."""
    return launch.committed_step is not None and launch.committed_step > launch.resume_step


def paid_off(launch: Launch) -> bool:
    """It made progress, and trained for ``PAYS_SECONDS``."""
    ended = launch.outcome.ended_epoch if launch.outcome else None
    if launch.training_epoch is None or ended is None:
        return False
    return made_progress(launch) and ended - launch.training_epoch >= PAYS_SECONDS


def attempts_that_count(launches: Sequence[Launch]) -> int:
    """Attempts against ``retry.max_attempts``: from the last one that paid off, itself included."""
    count = 0
    for launch in reversed(launches):
        failure = launch.failure
        count += failure is None or failure.failure_class not in WITHOUT_ATTEMPT
        if paid_off(launch):
            break
    return count


def streak_without_progress(launches: Sequence[Launch], patience: int) -> int:
    """Launches at the end of the history without a new commit that a class of this patience is
    blamed for: those of classes as patient or less. An exception is not to blame for the hosts that
    died before it; a host that dies once more is one of a row of failures, whatever they were.

    Every endless sequence still ends: of the classes that come again and again, the most patient
    one counts them all. MAX_RUNTIME counts although it spends no attempt: a job that commits
    nothing in its whole run time would go on for ever.
    """
    count = 0
    for launch in reversed(launches):
        failure = launch.failure
        if failure and failure.failure_class in WITHOUT_ATTEMPT - {F.MAX_RUNTIME}:
            continue
        if made_progress(launch):
            break
        count += failure is None or TABLE[failure.failure_class].patience <= patience
    return count


def same_class_in_a_row(launches: Sequence[Launch]) -> int:
    """How many launches at the end failed with the class of the last one, without progress."""
    last = launches[-1].failure
    count = 0
    for launch in reversed(launches):
        if last is None or launch.failure is None:
            break
        if launch.failure.failure_class != last.failure_class or (count and made_progress(launch)):
            break
        count += 1
    return count


def decide(
    spec: RunSpec, failure: Failure, history: History, draw: Callable[[], float]
) -> Decision:
    """``draw`` returns a number in [0, 1): the jitter of the backoff."""
    row, launches = TABLE[failure.failure_class], history.launches
    last = launches[-1]
    hopeless = failure.action is Action.DO_NOT_RETRY and not _may_be_raised(spec, failure, last)
    if row.kind is K.GIVE_UP or hopeless:
        return _give_up(f"{failure.failure_class} is not cured by another attempt")
    end = over(spec.budget, history.spend, history.now, history.created_epoch)
    if end:
        return _give_up(end, F.BUDGET)
    if failure.failure_class is F.MAX_RUNTIME and last.budget_bound:
        whole = f"{last.max_runtime_seconds} s, which were all that the budget left"
        return _give_up(f"the job ran for {whole}", F.BUDGET)
    if row.poison and _poisoned(launches):
        return _give_up("the same cause twice running, and nothing committed in between")
    spent = attempts_that_count(launches)
    if spent >= spec.retry.max_attempts:
        return _give_up(f"{spent} attempts of {spec.retry.max_attempts} are spent")
    waits = not row.spends_attempt and row.kind is not K.CONTINUE
    streak = streak_without_progress(launches, row.patience)
    limit = spec.retry.no_progress_limit * row.patience
    if streak >= limit and not waits:
        return _give_up(f"{streak} attempts in a row committed no new checkpoint (limit {limit})")
    if failure.failure_class is F.UNKNOWN and not made_progress(last):
        return _give_up("an unknown cause is retried only where the attempt had made progress")
    if failure.failure_class is F.DIVERGED and not _got_on(launches):
        return _give_up("it diverged before the first checkpoint: not for its hosts")
    left = spec.retry.wait_deadline_hours * 3600 - history.waited_seconds - backed_off(launches)
    if waits and left <= 0:
        return _give_up(f"waited {spec.retry.wait_deadline_hours:g} h for {failure.failure_class}")

    repeats = same_class_in_a_row(launches)
    wait = _backoff(spec, row, repeats, made_progress(last), draw)
    if waits:
        # Never nothing: what spends neither attempts nor time would go on for ever.
        wait = max(1, min(wait, math.ceil(left)))
    alike = _that_cost(launches) if row.spends_attempt else launches
    choice = choose(spec, failure.failure_class, alike, made_progress(last), wait)
    if choice is not None and _first_choice_again(last, row):
        choice = Choice(Rung.ELSEWHERE, 0)
    elsewhere = choice is not None and choice.rung is Rung.ELSEWHERE
    return Decision(
        kind=K.RETRY_ELSEWHERE if elsewhere and row.kind is K.RETRY else row.kind,
        reason=f"{failure.failure_class}: "
        + ("resume from the last checkpoint" if made_progress(last) else "try again"),
        wait_seconds=wait,
        target=last.target if choice is None else choice.target,
        spends_attempt=row.spends_attempt,
        rung=None if choice is None else choice.rung,
    )


def _got_on(launches: Sequence[Launch]) -> bool:
    """The run had committed something, in these launches or before a redrive."""
    return launches[-1].resume_step > 0 or any(made_progress(x) for x in launches)


def _may_be_raised(spec: RunSpec, failure: Failure, last: Launch) -> bool:
    """A job refused for a quota that can never hold it, in a run that may ask for an increase: it
    waits like a run of which CheckQuota found the same, and CheckQuota does the asking."""
    return failure.failure_class is F.QUOTA and spec.quota.request_increase and not last.created


def _first_choice_again(last: Launch, row: Row) -> bool:
    """After an attempt elsewhere that got on for hours: what drove the run away may be over."""
    ended = last.outcome.ended_epoch if last.outcome else None
    began = last.training_epoch or last.planned_epoch
    long = ended is not None and ended - began >= RETURN_AFTER_SECONDS
    return last.target != 0 and made_progress(last) and (long or row.kind is K.CONTINUE)


def _that_cost(launches: Sequence[Launch]) -> list[Launch]:
    """Without those that spent no attempt."""
    return [x for x in launches if not x.failure or x.failure.failure_class not in WITHOUT_ATTEMPT]


def backed_off(launches: Sequence[Launch]) -> float:
    """Seconds that Backoff has waited for quota, capacity or the API, by the decisions made."""
    return sum(
        x.decision.wait_seconds
        for x in launches
        if x.decision and not x.decision.spends_attempt and x.decision.kind is not K.WAIT
    )


def _poisoned(launches: Sequence[Launch]) -> bool:
    """Addresses, process ids and ranks differ between two deaths of the same cause; so may the last
    step that was logged: the rank that logs is a victim when another one dies first. What diverges
    may be a spike on one host and not a number on the next."""
    two = _that_cost(launches)[-2:]
    causes = [
        (
            x.failure.failure_class,
            x.failure.failure_class is F.DIVERGED or _VARYING.sub("#", x.failure.cause),
        )
        for x in two
        if x.failure
    ]
    return len(causes) == 2 and causes[0] == causes[1] and not made_progress(two[1])


def _backoff(
    spec: RunSpec, row: Row, repeats: int, progressed: bool, draw: Callable[[], float]
) -> int:
    """Full jitter (whole seconds): none after an attempt that made progress."""
    if not row.backoff or (progressed and row.spends_attempt):
        return 0
    doubled = spec.retry.backoff_seconds * 2.0 ** min(max(repeats, 1) - 1, 16)
    ceiling = min(spec.retry.backoff_cap_seconds, doubled)
    return int(draw() * (math.floor(ceiling) + 1))


def _give_up(reason: str, as_class: FailureClass | None = None) -> Decision:
    return Decision(kind=K.GIVE_UP, reason=reason, spends_attempt=True, gives_up_as=as_class)
