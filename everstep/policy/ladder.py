"""The restart ladder as data: which rungs can cure a class, how often each may fail, which is next.

A failure takes the lowest rung that can cure it. A rung that brought no progress is not tried again
for the same cause while a higher one is left; on the highest one the no-progress rule ends the run.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from everstep.contracts.failures import FailureClass, Rung
from everstep.contracts.records import Launch
from everstep.contracts.run_spec import RunSpec

F, R = FailureClass, Rung

BUDGETS: Mapping[Rung, int] = {
    R.IN_JOB: 3,
    R.SERVICE_REPAIR: 1,
    R.WARM_HOSTS: 1,
    R.NEW_HOSTS: 1,
    R.ELSEWHERE: 16,
}
"""Tries in a row that may bring no progress. Elsewhere: once for each target a spec can have.
SERVICE_REPAIR's is spent inside the job: ``retry.service_restarts``, SageMaker's RetryStrategy."""

BELOW_US = frozenset({R.IN_JOB, R.SERVICE_REPAIR})
"""Done by the trainer's launcher and by SageMaker, within one job: named here so that the ladder is
whole, never chosen here. When they are used up, the job has failed."""

_PROGRAM = (R.IN_JOB, R.WARM_HOSTS, R.NEW_HOSTS)
_HOST = (R.SERVICE_REPAIR, R.NEW_HOSTS, R.ELSEWHERE)
_EITHER = (R.IN_JOB, R.WARM_HOSTS, R.NEW_HOSTS, R.ELSEWHERE)

RUNGS: Mapping[FailureClass, tuple[Rung, ...]] = {
    F.CAPACITY: (R.ELSEWHERE,),
    F.COMMUNICATION_HANG: _EITHER,
    F.DIVERGED: (R.NEW_HOSTS,),
    F.HANG: _EITHER,
    F.IDLE: _EITHER,
    F.INCOMPLETE: _PROGRAM,
    F.INFRASTRUCTURE: _HOST,
    F.INTERRUPTED: _HOST,
    F.MAX_RUNTIME: (R.WARM_HOSTS, R.NEW_HOSTS),
    F.STORAGE_TRANSIENT: _PROGRAM,
    F.STRAGGLER: (R.ELSEWHERE,),
    F.THROTTLING: (R.NEW_HOSTS,),
    F.UNKNOWN: _PROGRAM,
    F.USER_CODE: _PROGRAM,
}
"""For every class that is tried again. A host's fault never gets the same hosts."""

NO_POOL = ("InternalServerError", "CapacityError", "InsufficientInstanceCapacity")
"""Reasons after which SageMaker keeps no pool: it does after completions, stops and errors of the
algorithm or the client."""


class Choice(NamedTuple):
    rung: Rung
    target: int


def choose(
    spec: RunSpec,
    failure_class: FailureClass,
    launches: Sequence[Launch],
    progressed: bool,
    wait: int,
) -> Choice | None:
    """The rung of the next attempt, and where; new hosts where the ladder has no rung for it. None
    for a class that is not tried again. ``launches``: those that count, the failed one last."""
    rungs = [r for r in RUNGS.get(failure_class, ()) if r not in BELOW_US]
    last = launches[-1]
    possible = [r for r in rungs if _possible(r, spec, last, wait)]
    if not possible:
        return Choice(R.NEW_HOSTS, last.target) if rungs else None
    tried = [] if progressed else _failed(launches)
    rung = next((r for r in possible if tried.count(r) < BUDGETS[r]), possible[-1])
    step = 1 if rung is R.ELSEWHERE else 0
    return Choice(rung, (last.target + step) % len(spec.compute))


def _possible(rung: Rung, spec: RunSpec, last: Launch, wait: int) -> bool:
    if rung is R.ELSEWHERE:
        return len(spec.compute) > 1
    if rung is R.WARM_HOSTS:
        return has_pool(spec, last) and wait < spec.target(last.target).warm_pool_seconds
    return True


def rung_of(former: Launch | None, target: int) -> Rung | None:
    """Which rung a launch on this target is: as decided, but a target without room was left."""
    if former is None or former.decision is None:
        return None
    return R.ELSEWHERE if target != former.decision.target else former.decision.rung


def has_pool(spec: RunSpec, launch: Launch) -> bool:
    """SageMaker may keep this launch's hosts: they bill on until they are used or ended."""
    outcome = launch.outcome
    return bool(
        spec.target(launch.target).warm_pool_seconds
        and outcome is not None
        and outcome.status in ("Completed", "Stopped", "Failed")
        and not outcome.failure_reason.startswith(NO_POOL)
    )


def _failed(launches: Sequence[Launch]) -> list[Rung]:
    """Rungs that led, at the end of the history, to launches that failed alike without progress."""
    found: list[Rung] = []
    for former, launch in zip(reversed(launches[:-1]), reversed(launches[1:]), strict=True):
        alike = (
            launch.failure is not None
            and former.failure is not None
            and launch.failure.failure_class is former.failure.failure_class
        )
        committed = launch.committed_step
        if not alike or (committed is not None and committed > launch.resume_step):
            break
        if launch.rung is not None:
            found.append(launch.rung)
    return found
