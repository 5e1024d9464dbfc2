"""Young's and Daly's formulas, for comparison with what is simulated.

J. W. Young 1974, "A first order approximation to the optimum checkpoint interval"; J. T. Daly 2006,
"A higher order estimate of the optimum checkpoint interval for restart dumps". All in seconds:
``stall`` (training stands still for it), ``restart``, ``mtbf`` of the whole job (exponential);
``interval`` is the training time between two saves.
"""

from math import exp, expm1, inf, sqrt


def young(stall: float, mtbf: float) -> float:
    """The best interval, first order."""
    return sqrt(2 * stall * mtbf)


def daly(stall: float, mtbf: float) -> float:
    """The best interval, higher order; the MTBF itself where a save costs more than two of them."""
    if stall >= 2 * mtbf:
        return mtbf
    half = stall / (2 * mtbf)
    return sqrt(2 * stall * mtbf) * (1 + sqrt(half) / 3 + half / 9) - stall


def expected_goodput(interval: float, stall: float, restart: float, mtbf: float) -> float:
    """Useful share of the time: Daly's whole model, where failures strike restarts and saves too.

    A segment of ``interval + stall`` takes M·e^(R/M)·(e^((τ+δ)/M) − 1) seconds in the mean.
    """
    if mtbf == inf:
        return interval / (interval + stall)
    whole = mtbf * exp(restart / mtbf) * expm1((interval + stall) / mtbf)
    return interval / whole
