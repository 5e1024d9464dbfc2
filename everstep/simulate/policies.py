"""Who brings the run back: nobody, SageMaker's RetryStrategy, Everstep, an oracle."""

from collections.abc import Callable, Sequence

from everstep.contracts.failures import DecisionKind, Rung
from everstep.policy.retry import PAYS_SECONDS
from everstep.simulate.draws import Strike
from everstep.simulate.production import Past, Production, Question, Tail
from everstep.simulate.run import SAME_HOSTS, Run
from everstep.simulate.scenario import Scenario

RETRY_STRATEGY_MOST = 30
"""AWS's API reference: MaximumRetryAttempts, for an InternalServerError only."""
GOLDEN = 0.618034
NO_ROOM = Question("capacity", "capacity")
Make = Callable[[Scenario, Sequence[Strike], Production], Run]


class Everstep(Run):
    """Asks the production policy. Only the launcher's and the service's own restarts are counted
    here, by the spec's budgets, as the launcher and the service count them."""

    def __init__(self, scenario: Scenario, fate: Sequence[Strike], production: Production) -> None:
        super().__init__(scenario, fate)
        self._production = production
        self._tail = Tail()
        self._target = 0
        self._rung: Rung | None = None
        self._straggler_stops = 0
        self._repairs = 0
        self.committed()

    def committed(self) -> None:
        """The launcher's budgets are refilled."""
        self._in_job = self._rewinds = 0
        self._in_job_cause: Question | None = None

    def seconds_to_straggler_stop(self, strike: Strike) -> float | None:
        if self._straggler_stops >= self.scenario.spec.retry.straggler_restarts:
            return None
        return self._production.straggler_seconds(self.inputs["slow_ratio"].at(strike.slow))

    def recover(self, why: Strike) -> None:
        while self.t < self.horizon:
            rung = self._next_rung(why)
            struck = self.restart(rung, why)
            if struck is not None:
                why = struck
            elif not (why.stays and rung in SAME_HOSTS):
                return

    def _next_rung(self, why: Strike) -> Rung:
        question = Question(why.fault, why.symptom)
        spec = self.scenario.spec
        self._notice(why)
        if why.symptom == "planned":
            self.new_job()
            return Rung.WARM_HOSTS
        if why.symptom == "nan" and self._rewinds < spec.guard.rewinds:
            self._rewinds += 1
            return Rung.IN_JOB
        if (
            self._production.in_job(question)
            and self._in_job < spec.guard.in_job_restarts
            and self._in_job_cause != question
        ):
            self._in_job += 1
            self._in_job_cause = question
            return Rung.IN_JOB
        if (
            self._production.service_repairs(question)
            and self._repairs < spec.retry.service_restarts
        ):
            self._repairs += 1
            return Rung.SERVICE_REPAIR
        return self._new_launch(question, why)

    def _notice(self, why: Strike) -> None:
        match why.symptom:
            case "hang":
                self.spend("hang", self.inputs["collective_timeout"].at(why.notice))
            case "frozen":
                look = self.inputs["watchdog_look"].at(why.notice)
                self.spend("hang", self._production.frozen_budget + look)
                self.spend("hang", self.inputs["stop_job"].at(why.notice))
            case "slow":
                self._straggler_stops += 1
                self.spend("restart", self.inputs["stop_job"].at(why.notice))
            case "exit":
                self.spend("restart", self.inputs["notice_exit"].at(why.notice))

    def _new_launch(self, question: Question, why: Strike) -> Rung:
        self.spend("restart", self.inputs["end_of_job"].at(why.notice))
        self.spend("restart", self.inputs["decide"].at(why.decide))
        long = self._target != 0 and self.held - self.job_began >= 6 * 3600
        paid = self.progressed and self.held - self.job_began >= PAYS_SECONDS
        past = Past(question, self.progressed, self._target, self._rung, long, paid)
        rung = self._decided(past, why)
        if rung not in SAME_HOSTS:
            rung = self._find_room(rung, why)
        self._rung = rung
        self._repairs = 0
        self.new_job()
        self.committed()
        return rung

    def _decided(self, past: Past, why: Strike, turn: int = 0) -> Rung:
        """The rung that the policy chose, after the wait that it chose; or a person's."""
        self._tail.append(past, self._production)
        decision = self._production.decide(self._tail, (why.decide + turn * GOLDEN) % 1.0)
        if decision.kind is DecisionKind.GIVE_UP:
            self.tally.people += 1
            if self.tally.first_give_up is None:
                self.tally.first_give_up = self.t
            why_not = f"{self._production.failure(past.question).failure_class}: {decision.reason}"
            self.tally.gave_up[why_not] = self.tally.gave_up.get(why_not, 0) + 1
            self.spend("person", self.inputs["person"].at(why.person))
            self._tail = Tail()  # a redrive counts anew
            return Rung.NEW_HOSTS
        self.spend("waiting", decision.wait_seconds)
        self._target = decision.target
        return decision.rung or Rung.NEW_HOSTS

    def _find_room(self, rung: Rung, why: Strike) -> Rung:
        """Launches that find no capacity, until there is some or another target is tried."""
        until, turn = self.t + self.capacity_gap(why), 0
        while self.t < min(until, self.horizon):
            turn += 1
            tried = self._target
            self.spend("waiting", self.inputs["capacity_try"].at((why.gap + turn * GOLDEN) % 1.0))
            rung = self._decided(Past(NO_ROOM, False, tried, rung, False, False), why, turn)
            if self._target != tried:
                break
        return rung


class ByHand(Run):
    """A person notices and starts a new job, after everything that the service does not cure."""

    attempts = 0
    """SageMaker's RetryStrategy, of one job."""

    def __init__(self, scenario: Scenario, fate: Sequence[Strike], production: Production) -> None:
        super().__init__(scenario, fate)
        self._production = production
        self._left = self.attempts

    def saves_first(self, last: Strike) -> bool:
        return last.symptom == "planned" or (
            last.symptom == "reclaim" and super().saves_first(last)
        )

    def recover(self, why: Strike) -> None:
        while self.t < self.horizon:
            struck = self.restart(self._next_rung(why), why)
            if struck is None:
                return
            why = struck

    def _next_rung(self, why: Strike) -> Rung:
        if why.symptom == "planned":
            self.new_job()
            return Rung.WARM_HOSTS
        if why.symptom == "reclaim":  # managed spot training starts the job again by itself
            self.spend("waiting", self.capacity_gap(why))
            return Rung.NEW_HOSTS
        if why.symptom == "hang":
            self.spend("hang", self.inputs["collective_timeout"].at(why.notice))
        elif why.symptom == "exit":
            self.spend("restart", self.inputs["notice_exit"].at(why.notice))
        question = Question(why.fault, why.symptom)
        if self._left > 0 and self._production.service_repairs(question):
            self._left -= 1
            return Rung.SERVICE_REPAIR
        self.tally.people += 1
        frozen = why.symptom == "frozen"
        self.spend("hang" if frozen else "person", self.inputs["person"].at(why.person))
        self.spend("waiting", self.capacity_gap(why))
        self._left = self.attempts
        self.new_job()
        return Rung.NEW_HOSTS


class RetryStrategy(ByHand):
    """SageMaker's own retries of internal errors; a person for the rest."""

    attempts = RETRY_STRATEGY_MOST


class Oracle(Run):
    """Knows what will break, when, and what cures it: saves in time, never waits to notice, never
    places work on a host that will be slow, and has no limit of a job's run time. It still pays for
    hosts, loading and room: what no policy can save."""

    feels_slow = False

    def __init__(self, scenario: Scenario, fate: Sequence[Strike], production: Production) -> None:
        super().__init__(scenario, fate)

    def _job_left(self) -> float:
        return float("inf")

    def _account(self, began: float, seconds: float, last: Strike | None) -> None:
        parts = self.tally.parts
        self.t += seconds
        self.held += seconds
        if last is None or self.saves_first(last):
            parts["useful"] += seconds
            if last is not None:
                self.spend("checkpoint", self.stall + self.durable)
            return
        save = min(seconds, self.stall)
        after = min(seconds - save, self.durable)
        parts["checkpoint"] += save
        parts["recomputed"] += after
        parts["useful"] += seconds - save - after

    def recover(self, why: Strike) -> None:
        while self.t < self.horizon:
            if why.symptom == "planned":
                rung = Rung.WARM_HOSTS
            elif why.stays:
                rung = Rung.NEW_HOSTS
                if len(self.scenario.spec.compute) == 1:
                    self.spend("waiting", self.capacity_gap(why))
            else:
                rung = Rung.IN_JOB
            struck = self.restart(rung, why)
            if struck is None:
                return
            why = struck
