"""Every figure of a run's report: what the page shows, and what ``--json`` gives a machine."""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from everstep.contracts.failures import Failure
from everstep.contracts.records import RunStatus
from everstep.policy.cost import Spend
from everstep.policy.goodput import Goodput
from everstep.policy.restarts import RestartTime
from everstep.report.waterfall import Part, Span

FORMAT = 1
"""Of the JSON; grows when a field changes its meaning."""


class _Figures(BaseModel):
    model_config = ConfigDict(frozen=True)


class Attempt(_Figures):
    """One launch. Times are epoch seconds."""

    launch: int
    job: str
    where: str
    purchase: str
    resume_step: int
    last_step: int | None
    planned_epoch: float
    ended_epoch: float | None
    outcome: str | None
    billable_seconds: int
    spend: Spend
    failure: Failure | None
    decision: str | None
    reason: str | None
    wait_seconds: int
    service_restarts: int
    restart: RestartTime | None
    """How this launch took over from the one before."""


class Point(_Figures):
    """Of a curve. ``x`` is in tokens, or in steps where no tokens are known."""

    x: float
    step: int
    loss: float | None
    tokens_per_s: float | None


class Resume(_Figures):
    """Where a launch went on from a checkpoint."""

    launch: int
    step: int
    x: float


class Curve(_Figures):
    unit: str
    """``tokens`` or ``steps``."""
    points: list[Point]
    """The run as it finally went."""
    again: list[list[Point]]
    """What was lost and done again, a stretch each."""
    resumes: list[Resume]
    not_finite: list[int]
    """Steps whose loss was no finite number."""


class Report(_Figures):
    format: int = FORMAT
    run_id: str
    team: str
    status: RunStatus
    headline: str
    cause: str | None
    advice: str
    runbook_url: str
    links: dict[str, str]
    """To the console."""
    created_epoch: float
    ended_epoch: float
    """Of a run that goes on: when this was written."""
    written_epoch: float
    step: int | None
    steps: int | None
    """Asked for. None of an adopted run, whose program alone knows."""
    tokens: int | None
    loss: float | None
    mfu: float | None
    """Median over the steps that told it."""
    failures: int
    attempts: list[Attempt]
    exports: list[Attempt]
    goodput: Goodput
    goodput_ratio: float | None
    total_seconds: float
    waterfall: dict[Part, float]
    spans: list[Span]
    curve: Curve
    spend: Spend
    own_file_system: Spend | None = None
    """Part of ``spend``: of all that the run made for itself."""
    hours_of: str
    """``GPU hours`` or ``host hours``: what ``spend.gpu_hours`` are."""
    environment: dict[str, str]
    spec: dict[str, Any]
    notes: list[str] = Field(default_factory=list)
    """What the figures do not know."""

    @model_validator(mode="after")
    def _sums(self) -> Self:
        told, slack = sum(self.waterfall.values()), 1e-6 * max(1.0, self.total_seconds)
        if abs(told - self.total_seconds) > slack:
            raise ValueError(f"parts sum to {told} s, the run took {self.total_seconds} s")
        return self
