"""A quota increase that was asked for: one row a quota, beside the runs in their table.

Key ``run_id`` = ``quota#L-1234ABCD`` (no run id holds a ``#``), ``item`` = ``increase``. While the
request is open, ``active`` = ``increase`` lists it for the watchdog.
"""

from pydantic import BaseModel, ConfigDict

INCREASE_ITEM = "increase"
OPEN = frozenset({"PENDING", "CASE_OPENED"})
APPROVED = "APPROVED"


class Held(BaseModel):
    """A quota as Service Quotas lists it."""

    model_config = ConfigDict(frozen=True)

    name: str
    value: float
    code: str
    adjustable: bool = True


class Increase(BaseModel):
    """Times are epoch seconds."""

    model_config = ConfigDict(frozen=True)

    quota: str
    code: str
    desired: float
    request_id: str
    status: str
    """AWS's own word: PENDING, CASE_OPENED, APPROVED, DENIED, CASE_CLOSED, NOT_APPROVED, …"""
    case_id: str | None = None
    asked_by: str
    """Id of the first run that needed it."""
    asked_epoch: float
    checked_epoch: float
    open: bool = True
    """Also after approval, until the new value is in force."""

    @property
    def key(self) -> str:
        return increase_key(self.code)

    def __str__(self) -> str:
        case = f", support case {self.case_id}" if self.case_id else ""
        request = f"request {self.request_id}{case}"
        return f"increase of quota {self.quota!r} to {self.desired:g} ({request})"


def increase_key(code: str) -> str:
    return f"quota#{code}"
