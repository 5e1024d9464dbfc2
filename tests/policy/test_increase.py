"""Ask, wait or refuse; every text as a person reads it."""

import pytest

from everstep.contracts.increases import Held, Increase
from everstep.policy.increase import APPLY_SECONDS, Move, followed, plan
from everstep.policy.quota import Need

QUOTA = "ml.p5.48xlarge for training job usage"
HELD = Held(name=QUOTA, value=2, code="L-1", adjustable=True)
NEED = Need(QUOTA, 8, shared=True)
ASKED = Increase(
    quota=QUOTA,
    code="L-1",
    desired=8,
    request_id="r1",
    status="PENDING",
    asked_by="my-run",
    asked_epoch=0,
    checked_epoch=0,
)
SHORT = f"needs 8 of quota '{QUOTA}', which is 2"
REQUEST = f"increase of quota '{QUOTA}' to 8 (request r1"


@pytest.mark.parametrize(
    ("known", "held", "may_ask", "move", "reason"),
    [
        (None, {}, True, Move.ASK, SHORT),
        (None, {}, False, Move.REFUSE, SHORT),
        (
            None,
            {"adjustable": False},
            True,
            Move.REFUSE,
            f"{SHORT}; AWS does not adjust this quota, so none was asked for",
        ),
        ({}, {}, False, Move.WAIT, f"{SHORT}; waits for the {REQUEST}): PENDING"),
        (
            {"status": "CASE_OPENED", "case_id": "c7"},
            {},
            True,
            Move.WAIT,
            f"{SHORT}; waits for the {REQUEST}, support case c7): CASE_OPENED",
        ),
        # AWS takes one open request a quota: the greater need asks when the smaller has ended.
        (
            {"desired": 4},
            {},
            True,
            Move.WAIT,
            f"{SHORT}; waits for the increase of quota '{QUOTA}' to 4 (request r1): PENDING",
        ),
        ({"desired": 4, "open": False, "status": "APPROVED"}, {}, True, Move.ASK, SHORT),
        (
            {"open": False, "status": "DENIED", "case_id": "c7"},
            {},
            True,
            Move.REFUSE,
            f"{SHORT}; the {REQUEST}, support case c7) ended: DENIED",
        ),
        (
            {"open": False, "status": "APPROVED"},
            {},
            True,
            Move.REFUSE,
            f"{SHORT}; the {REQUEST}) ended: APPROVED, but the new value is not in force",
        ),
    ],
)
def test_what_is_done_about_a_short_quota(
    known: dict[str, object] | None,
    held: dict[str, object],
    may_ask: bool,
    move: Move,
    reason: str,
) -> None:
    before = None if known is None else ASKED.model_copy(update=known)
    found = plan(NEED, HELD.model_copy(update=held), before, may_ask=may_ask)
    assert (found.move, found.reason) == (move, reason)


@pytest.mark.parametrize(
    ("status", "value", "now", "is_open", "ends_as"),
    [
        ("PENDING", 2, 60, True, "PENDING"),
        ("CASE_OPENED", 2, APPLY_SECONDS * 30, True, "CASE_OPENED"),
        ("APPROVED", 2, 60, True, "APPROVED"),  # not in force yet
        ("APPROVED", 8, 60, False, "APPROVED"),
        ("APPROVED", 2, APPLY_SECONDS, False, "APPROVED"),
        ("DENIED", 2, 60, False, "DENIED"),
        ("NOT_APPROVED", 2, 60, False, "NOT_APPROVED"),
        ("CASE_CLOSED", 2, 60, False, "CASE_CLOSED"),
        ("CASE_CLOSED", 8, 60, False, "APPROVED"),  # closed because it was granted
        ("SOMETHING_NEW", 2, 60, False, "SOMETHING_NEW"),
    ],
)
def test_a_request_is_followed_to_its_end(
    status: str, value: float, now: float, is_open: bool, ends_as: str
) -> None:
    after = followed(ASKED, status, "c7", value, now)
    assert (after.open, after.status, after.case_id, after.checked_epoch) == (
        is_open,
        ends_as,
        "c7",
        now,
    )
