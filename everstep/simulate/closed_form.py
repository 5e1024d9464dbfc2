"""Closed forms to compare with what is simulated (Daly's optimum: ``policy.checkpoint_interval``).

All in seconds: ``stall`` (training stands still for it), ``restart``, ``mtbf`` of the whole job
(exponential); ``interval`` is the training time between two saves.
"""

from math import exp, expm1, inf, sqrt


def young(stall: float, mtbf: float) -> float:
    """The best interval, first order (J. W. Young, CACM 17(9), 1974)."""
    return sqrt(2 * stall * mtbf)


def expected_goodput(interval: float, stall: float, restart: float, mtbf: float) -> float:
    """Useful share of the time: Daly's whole model (FGCS 22(3), 2006), where failures strike
    restarts and saves too.

    A segment of ``interval + stall`` takes M·e^(R/M)·(e^((τ+δ)/M) − 1) seconds in the mean.
    """
    if mtbf == inf:
        return interval / (interval + stall)
    whole = mtbf * exp(restart / mtbf) * expm1((interval + stall) / mtbf)
    return interval / whole
