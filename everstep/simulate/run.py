"""One run of one seed, from event to event: what becomes of each second until the horizon.

Two clocks: ``t`` is the wall's; ``held`` stands still while the run has no hosts or waits to be
noticed, and is the one that failures are drawn on (see ``draws``). Between two events everything
has a closed form, so that a seed costs what its failures cost, whatever the number of GPUs.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from everstep.contracts.failures import Rung
from everstep.simulate.draws import Strike
from everstep.simulate.scenario import Scenario, Spares

PARTS = (
    "useful",
    "recomputed",
    "checkpoint",
    "restart",
    "hang",
    "slow",
    "waiting",
    "person",
)
"""Where a second may go. ``recomputed``: done, not saved, done again. ``slow``: lost to a
straggler. ``waiting``: for capacity, or the policy's backoff. ``person``: for someone to act."""

SAME_HOSTS = frozenset({Rung.IN_JOB, Rung.WARM_HOSTS})
PROVISION = {
    Rung.IN_JOB: "provision_in_job",
    Rung.SERVICE_REPAIR: "provision_service_repair",
    Rung.WARM_HOSTS: "provision_warm_hosts",
    Rung.NEW_HOSTS: "provision_new_hosts",
    Rung.ELSEWHERE: "provision_new_hosts",
}
SPARE = {Spares.WARM: "provision_warm_spare", Spares.HOT: "provision_hot_spare"}


@dataclass
class Tally:
    """Seconds by part, and counts."""

    parts: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    interruptions: int = 0
    run_times: int = 0
    """Of them, ends of a job's run time: nothing failed."""
    restarts: dict[str, int] = field(default_factory=dict)
    people: int = 0
    """Times that the run stood still for a person."""
    gave_up: dict[str, int] = field(default_factory=dict)
    """By class and reason of the decision."""
    first_give_up: float | None = None
    """Second of the wall's clock."""


class Slow(NamedTuple):
    """A straggler, on the clock of held hosts."""

    begin: float
    end: float
    ratio: float


class Run(ABC):
    """Time, training and restarts: the same for every policy. ``recover`` is the policy."""

    feels_slow = True

    def __init__(self, scenario: Scenario, fate: Sequence[Strike]) -> None:
        self.scenario, self.inputs = scenario, scenario.inputs
        self._fate, self._next = fate, 0
        self.horizon = scenario.horizon
        self.t = self.held = 0.0
        self.tally = Tally()
        self.stall, self.durable = self.inputs["stall"].mean, self.inputs["durable"].mean
        # One save is in flight at most: a next one that is due earlier waits for it.
        self.interval = max(scenario.interval, self.durable)
        self.job_began = 0.0
        self.progressed = False
        """The job has committed a checkpoint."""
        self.slow: Slow | None = None
        self._provision_left = 0.0

    # --- the run

    def simulate(self) -> Tally:
        while self.t < self.horizon:
            why = self.train()
            if why is None or self.t >= self.horizon:
                break
            self.tally.interruptions += 1
            self.tally.run_times += why.symptom == "max_runtime"
            self.recover(why)
        return self.tally

    @abstractmethod
    def recover(self, why: Strike) -> None:
        """From the moment that training stopped until it goes on."""

    def seconds_to_straggler_stop(self, strike: Strike) -> float | None:
        """Until a job is moved away from a slow host; None: it is endured."""
        return None

    def committed(self) -> None:  # noqa: B027 - most policies do not mind
        """A checkpoint was committed since training began or went on."""

    # --- time

    def spend(self, part: str, seconds: float, *, held: bool = False) -> None:
        """Not beyond the horizon."""
        seconds = min(seconds, self.horizon - self.t)
        self.tally.parts[part] += seconds
        self.t += seconds
        if held:
            self.held += seconds

    # --- training

    def train(self) -> Strike | None:
        """Until something ends it; None at the horizon."""
        began = self.held
        limit = self.horizon - self.t
        last: Strike | None = None
        job_left = self._job_left()
        if job_left < limit:
            limit, last = job_left, _event("max_runtime")
        while self._next < len(self._fate):
            strike = self._fate[self._next]
            if strike.at - began >= limit:
                break
            self._next += 1
            if strike.symptom != "slow":
                limit, last = strike.at - began, strike
                break
            if not self.feels_slow or (self.slow is not None and self.slow.end > strike.at):
                continue
            ratio = self.inputs["slow_ratio"].at(strike.slow)
            self.slow = Slow(
                strike.at, strike.at + self.inputs["slow_seconds"].at(strike.gap), ratio
            )
            stop = self.seconds_to_straggler_stop(strike)
            if stop is not None and strike.at + stop - began < limit:
                limit, last = strike.at + stop - began, strike
        self._account(began, max(0.0, limit), last)
        return last

    def _account(self, began: float, seconds: float, last: Strike | None) -> None:
        """Training from ``began`` on the held clock: saves, what they kept, what is lost."""
        cycle = self.interval + self.stall
        whole, rest = divmod(seconds, cycle)
        work = min(seconds, whole * self.interval + min(rest, self.interval))
        commits = (seconds - self.durable) // cycle if seconds >= self.durable else 0.0
        safe, kept = commits * self.interval, commits * cycle
        saves = last is not None and self.saves_first(last)
        if last is None or saves:
            safe, kept = work, seconds
        lost = 0.0
        if self.slow is not None:
            overlap = min(self.slow.end, began + kept) - max(self.slow.begin, began)
            lost = max(0.0, overlap) * (self.interval / cycle) * (1 - 1 / self.slow.ratio)
            lost = min(lost, safe)
        parts = self.tally.parts
        parts["useful"] += safe - lost
        parts["slow"] += lost
        parts["recomputed"] += work - safe
        parts["checkpoint"] += seconds - work
        self.t += seconds
        self.held += seconds
        if safe > 0:
            self.progressed = True
            self.committed()
        if saves:
            self.spend("checkpoint", self.stall + self.durable)

    def _job_left(self) -> float:
        whole = self.scenario.spec.stop.max_runtime_hours * 3600
        return max(0.0, whole - (self.held - self.job_began))

    def saves_first(self, last: Strike) -> bool:
        """Whether a checkpoint still fits before the end."""
        if last.symptom == "reclaim":
            return self.stall + self.durable <= self.inputs["grace"].mean
        return last.symptom in ("planned", "max_runtime")

    # --- restarts

    def restart(self, rung: Rung, why: Strike) -> Strike | None:
        """From hosts to the first step; what struck meanwhile, or None. Hosts that were not there
        yet when it did are still waited for."""
        if rung not in SAME_HOSTS:
            self.slow = None
        name = PROVISION[rung]
        if rung not in SAME_HOSTS and self.scenario.spares is not Spares.NONE:
            name = SPARE[self.scenario.spares]
        provision = max(self.inputs[name].at(why.provision), self._provision_left)
        seconds = (
            provision
            + self.inputs["load"].at(why.load)
            + self.inputs["first_step"].at(why.first_step)
        )
        self.tally.restarts[rung] = self.tally.restarts.get(rung, 0) + 1
        began = self.held
        while self._next < len(self._fate) and self._fate[self._next].at <= began + seconds:
            strike = self._fate[self._next]
            self._next += 1
            if strike.symptom == "slow":
                continue
            gone = strike.at - began
            self._provision_left = max(0.0, provision - gone)
            self.spend("restart", gone, held=True)
            self.tally.interruptions += 1
            return strike
        self._provision_left = 0.0
        self.spend("restart", seconds, held=True)
        return None

    def new_job(self) -> None:
        self.job_began = self.held
        self.progressed = False

    @property
    def needs_capacity(self) -> bool:
        return self.scenario.spares is Spares.NONE

    def capacity_gap(self, why: Strike) -> float:
        """Seconds until there is room for new hosts."""
        name = "share_no_capacity_spot" if self.scenario.spot else "share_no_capacity"
        if not self.needs_capacity or why.capacity >= self.inputs[name].mean:
            return 0.0
        return self.inputs["capacity_gap"].at(why.gap)


def _event(symptom: str) -> Strike:
    """What comes of itself, in the middle of every range."""
    half = 0.5
    return Strike(
        at=0.0, fault=symptom, symptom=symptom, stays=False, notice=half,
        provision=half, load=half, first_step=half, slow=half, capacity=1.0, gap=half, person=half,
        decide=half,
    )  # fmt: skip
