"""What a row of the fault model, and a run that meets its fault, are made of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from everstep.contracts.failures import FailureClass as F
from tests.chaos import asks
from tests.scenarios.lab import Lab

Ask = Callable[[Lab, str, str], None]
"""(lab, run id, execution's ARN): put the fault on a run that has been started."""


@dataclass(frozen=True)
class Case:
    """One run that meets one fault."""

    name: str
    trainer: Literal["torch", "lean"]
    end: Literal["same", "arrives", "refused"]
    """``same``: the final state of an unbroken run. ``arrives``: all steps, another state, since
    batches were skipped. ``refused``: it gives up, in words."""
    ask: Ask = asks.nothing
    classes: tuple[F, ...] = ()
    """Of the launches that failed, in order."""
    launches: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)
    """Sections that are changed."""
    before: Ask = asks.nothing
    """Asked for before the start."""
    after: Ask = asks.nothing
    """Asked once it has ended."""
    says: str = ""
    """In the cause of a refusal, or in a log line of the run."""
    attempts: int | None = None


@dataclass(frozen=True)
class Row:
    """One row of the design's table."""

    fault: str
    cases: tuple[Case, ...] = ()
    shown_by: tuple[str, ...] = ()
    not_yet: str = ""


def sabotage(kind: str, at: int = 17, launches: int = 1) -> dict[str, str]:
    return {"SABOTAGE": kind, "SABOTAGE_AT": str(at), "SABOTAGE_LAUNCHES": str(launches)}


def last_words(text: str, deaths: int = 1, code: int = 1) -> dict[str, str]:
    return {
        "LEAN_DIES_AT": "12",
        "LEAN_DEATHS": str(deaths),
        "LEAN_LAST_WORDS": text,
        "LEAN_EXIT_CODE": str(code),
    }
