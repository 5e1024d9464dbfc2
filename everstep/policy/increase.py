"""What to do about a quota that can never hold a need: ask, wait for an answer, or refuse."""

from enum import StrEnum
from typing import NamedTuple

from everstep.contracts.increases import APPROVED, OPEN, Held, Increase
from everstep.policy.quota import Need

APPLY_SECONDS = 86_400
"""An approved value is in force soon; after a day it is said that it is not."""


class Move(StrEnum):
    ASK = "ask"
    WAIT = "wait"
    REFUSE = "refuse"


class Plan(NamedTuple):
    move: Move
    reason: str


def plan(need: Need, held: Held, known: Increase | None, *, may_ask: bool) -> Plan:
    """``known``: the last request for this quota, whoever asked. One that is open is waited for by
    all; AWS takes only one open request a quota, so a greater need asks when it has ended."""
    short = f"needs {need.amount:g} of quota {need.quota!r}, which is {held.value:g}"
    if known is not None and known.open:
        return Plan(Move.WAIT, f"{short}; waits for the {known}: {known.status}")
    if known is not None and need.amount <= known.desired:
        return Plan(Move.REFUSE, f"{short}; the {known} ended: {known.status}{_afterwards(known)}")
    if not may_ask:
        return Plan(Move.REFUSE, short)
    if not held.adjustable:
        return Plan(Move.REFUSE, f"{short}; AWS does not adjust this quota, so none was asked for")
    return Plan(Move.ASK, short)


def followed(
    known: Increase, status: str, case_id: str | None, value: float, now: float
) -> Increase:
    """The request after a look at it; ``value`` is what the quota is now. A closed case says
    nothing by itself: what counts is the value. Approval counts once it is in force."""
    waiting = status in OPEN or (status == APPROVED and now - known.asked_epoch < APPLY_SECONDS)
    in_force = value >= known.desired
    return known.model_copy(
        update={
            "status": APPROVED if in_force else status,
            "case_id": case_id or known.case_id,
            "checked_epoch": now,
            "open": waiting and not in_force,
        }
    )


def _afterwards(known: Increase) -> str:
    if known.status == APPROVED:
        return ", but the new value is not in force"
    return ""
