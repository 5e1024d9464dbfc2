"""Where the time between two attempts went, from their rows alone."""

from pydantic import BaseModel, ConfigDict

from everstep.contracts.failures import Rung
from everstep.contracts.records import Launch


class RestartTime(BaseModel):
    """Seconds of each part; None where a row does not say. The parts follow one another."""

    model_config = ConfigDict(frozen=True)

    rung: Rung | None = None
    notice: float | None = None
    """From the last step to the outcome in the table: a hang's budget is in it."""
    decide: float | None = None
    """From there to the plan of the next launch, without the wait that was decided."""
    wait: float | None = None
    """The backoff that was decided."""
    provision: float | None = None
    """From the plan to the container's start."""
    load: float | None = None
    """To the trainer's word that it has resumed."""
    first_step: float | None = None
    total: float | None = None


def restart_time(former: Launch, launch: Launch) -> RestartTime:
    """How ``launch`` took over from ``former``."""
    ended = former.outcome.ended_epoch if former.outcome else None
    # A launch that never stepped lost its time elsewhere: from its end on.
    lost = former.progress_epoch if former.progress_epoch is not None else ended
    wait = float(former.decision.wait_seconds) if former.decision else None
    between = _span(former.settled_epoch, launch.planned_epoch)
    return RestartTime(
        rung=launch.rung,
        notice=_span(lost, former.settled_epoch),
        decide=None if between is None else max(0.0, between - (wait or 0.0)),
        wait=wait,
        provision=_span(launch.planned_epoch, launch.training_epoch),
        load=_span(launch.training_epoch, launch.loaded_epoch),
        first_step=_span(launch.loaded_epoch, launch.first_step_epoch),
        total=_span(lost, launch.first_step_epoch),
    )


def _span(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else max(0.0, end - begin)
