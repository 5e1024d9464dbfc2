"""A seed's fate, the same for every policy: what breaks, when, and how long its repair takes.

The clock is the time that hosts are held (waiting for a person or for capacity, nothing breaks), so
every policy meets the same failures in the same order, and differences between policies are theirs.
"""

from bisect import bisect
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from everstep.simulate.inputs import DAY, load_faults
from everstep.simulate.scenario import Scenario

Array = NDArray[np.float64]
KEPT = ("notice", "provision", "load", "first_step", "slow", "capacity", "gap", "person", "decide")
COLUMNS = ("symptom", "frozen", "stays", *KEPT)
SYMPTOMS = ("hang", "slow", "nan", "exit")
BURN_IN_SECONDS, BURN_IN_FACTOR = 14 * DAY, 2.0
"""Our reading of reports of new clusters."""


class Strike(NamedTuple):
    """One thing that breaks. Uniform draws in [0, 1) by the name of what they decide."""

    at: float
    fault: str
    symptom: str
    stays: bool
    """Comes again where the hosts are the same."""
    notice: float
    provision: float
    load: float
    first_step: float
    slow: float
    capacity: float
    gap: float
    person: float
    decide: float


def strikes(scenario: Scenario, index: int) -> list[Strike]:
    """All of seed ``index``, to the horizon and one beyond."""
    times = np.random.default_rng([scenario.seed, index, 0])
    marks = np.random.default_rng([scenario.seed, index, 1])
    rates = scenario.all_rates
    names = list(rates.per_node_second)
    shares = np.array([rates.per_node_second[x] for x in names])
    total = float(shares.sum()) * scenario.nodes * _spread(scenario, index)
    if total <= 0:
        return []
    expected = total * scenario.horizon * (BURN_IN_FACTOR if scenario.burn_in else 1.0)
    hazard = np.zeros(1)
    while _when(hazard[-1:], total, scenario.burn_in)[0] <= scenario.horizon:
        more = times.standard_exponential(int(expected + 6 * expected**0.5) + 20)
        hazard = np.concatenate([hazard, hazard[-1] + np.cumsum(more)])
    at = _when(hazard[1:], total, scenario.burn_in)
    at = at[: int(np.searchsorted(at, scenario.horizon)) + 1]
    which = np.searchsorted(np.cumsum(shares) / shares.sum(), marks.random(len(at)), side="right")
    draws = np.random.default_rng([scenario.seed, index, 2]).random((len(at), len(COLUMNS)))
    return _told(scenario, names, at.tolist(), which.tolist(), draws.tolist())


def _spread(scenario: Scenario, index: int) -> float:
    if scenario.rates.spread is None:
        return 1.0
    return float(
        np.random.default_rng([scenario.seed, index, 3]).triangular(*scenario.rates.spread)
    )


def _when(hazard: Array, total: float, burn_in: bool) -> Array:
    """Cumulative hazard → time."""
    if not burn_in:
        return hazard / total
    edge = BURN_IN_FACTOR * total * BURN_IN_SECONDS
    early = hazard / (BURN_IN_FACTOR * total)
    return np.where(hazard < edge, early, BURN_IN_SECONDS + (hazard - edge) / total)


def _told(
    scenario: Scenario,
    names: list[str],
    at: list[float],
    which: list[int],
    draws: list[list[float]],
) -> list[Strike]:
    faults, inputs = load_faults()["faults"], scenario.inputs
    edges = np.cumsum([inputs[f"share_{x}"].mean for x in ("hang", "slow", "nan")]).tolist()
    frozen, stays = inputs["share_frozen"].mean, inputs["share_stays"].mean
    found = []
    for when, kind, row in zip(at, which, draws, strict=True):
        name, u = names[min(kind, len(names) - 1)], dict(zip(COLUMNS, row, strict=True))
        fault = faults[name]
        symptom = fault.get("symptom") or SYMPTOMS[bisect(edges, u["symptom"])]
        if symptom == "hang" and u["frozen"] < frozen:
            symptom = "frozen"
        # Of its own doing, a program does not fail the same way twice: nobody would train with it.
        stay = fault["host"] and (symptom in ("exit", "reclaim") or u["stays"] < stays)
        found.append(
            Strike(when, name, symptom, stay, **{x: u[x] for x in Strike._fields if x in KEPT})
        )
    return found
