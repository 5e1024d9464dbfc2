"""The production policy's answers, each asked for once per distinct question.

Nothing is decided here: ``classify``, ``decide``, ``step_budget``, ``judge`` and ``straggles`` of
``everstep.policy`` are. A run of 400 failures asks ``decide`` 400 times, and each question differs
only in what is long past; so the history is cut where ``decide`` no longer looks, unless one of the
limits that count all of it (attempts, waiting) is near.
tests/simulate/test_production.py compares with the uncut history.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from everstep.contracts.env import FailureFile
from everstep.contracts.failures import Decision, DecisionKind, Failure, FailureClass, Rung
from everstep.contracts.progress import Phase
from everstep.contracts.records import Launch, Outcome
from everstep.contracts.run_spec import RunSpec
from everstep.policy.classify import classify
from everstep.policy.evidence import Evidence, LogLine
from everstep.policy.ladder import RUNGS
from everstep.policy.retry import (
    PAYS_SECONDS,
    RETURN_AFTER_SECONDS,
    TABLE,
    WITHOUT_ATTEMPT,
    History,
    decide,
)
from everstep.policy.watchdog import STEPS_KEPT, Seen, judge, step_budget, straggles
from everstep.simulate.inputs import load_faults

LEVELS = 64
"""The jitter is drawn in so many levels, so that equal questions come again."""
IN_JOB_CLASSES = frozenset(
    {FailureClass.COMMUNICATION_HANG, FailureClass.HANG, FailureClass.STORAGE_TRANSIENT}
)
"""What the trainer's launcher restarts by itself (``trainer.in_job``), of those that the ladder
lets it."""


class Question(NamedTuple):
    """What is seen when something breaks."""

    fault: str
    symptom: str


class Past(NamedTuple):
    """One launch that ended, as far as ``decide`` looks at it."""

    question: Question
    progressed: bool
    target: int
    rung: Rung | None
    long: bool
    """It trained for so long that the first choice is worth trying again."""
    paid: bool
    """It progressed, and trained for so long that earlier attempts no longer count."""


class Tail:
    """The launches that count, cut where ``decide`` no longer looks."""

    def __init__(self) -> None:
        self.seen: list[Past] = []
        self.spent_before = 0
        self.waited = 0.0

    def append(self, past: Past, costs: "Production") -> None:
        """Cut before the newest launch but the last that both progressed and cost an attempt. Of
        what is cut away, only attempts since the last that paid off are counted."""
        if past.progressed:
            past = past._replace(rung=None)  # only rungs that brought no progress are counted
        self.seen.append(past._replace(question=costs.alike(past.question)))
        for i in range(len(self.seen) - 2, -1, -1):
            if self.seen[i].progressed and costs.spends(self.seen[i].question):
                for x in self.seen[:i]:
                    spends = int(costs.spends(x.question))
                    self.spent_before = spends if x.paid else self.spent_before + spends
                if self.seen[i].paid:
                    self.spent_before = 0
                del self.seen[:i]
                self.seen[0] = self.seen[0]._replace(target=0, long=False)  # only the last one's
                break


class Production:
    """The policy under one spec."""

    def __init__(self, spec: RunSpec, step_seconds: float) -> None:
        self.spec, self.step_seconds = spec, step_seconds
        faults = load_faults()
        self._faults: Mapping[str, Mapping[str, Any]] = faults["faults"]
        self._words = faults
        self._failures: dict[Question, Failure] = {}
        self._spends: dict[Question, bool] = {}
        self._repairs: dict[Question, bool] = {}
        self._alike: dict[Question, Question] = {}
        self._first: dict[tuple[object, ...], Question] = {}
        self._decisions: dict[tuple[object, ...], Decision] = {}
        self.asked = 0
        """Calls of ``decide``."""
        self.frozen_budget = float(step_budget(spec.watch, [step_seconds] * STEPS_KEPT))
        """Seconds without a step before the watchdog stops a job."""
        seen = Seen(phase=Phase.STEP, phase_since_epoch=0.0, step_times=[step_seconds] * STEPS_KEPT)
        self._hung = judge(spec.watch, "InProgress", seen, self.frozen_budget + 1)

    def straggler_seconds(self, ratio: float) -> float | None:
        """How long a host so slow is watched before its job is stopped; None: it is not."""
        watch, reports = self.spec.watch, self.spec.watch.straggler_reports
        slow = Seen(
            slow_rank=0,
            slow_ratio=ratio,
            slow_reports=reports if ratio >= watch.straggler_ratio else 0,
        )
        if straggles(watch, slow) is None:
            return None
        return reports * self.spec.guard.straggler_every * self.step_seconds * ratio

    def outcome(self, question: Question) -> Outcome:
        """How SageMaker tells it."""
        symptom, fault = question.symptom, self._faults.get(question.fault, {})
        if symptom == "max_runtime":
            return Outcome(status="Completed", secondary_status="Completed", ended_epoch=0.0)
        if symptom in ("frozen", "slow"):
            return Outcome(status="Stopped", secondary_status="Stopped", ended_epoch=0.0)
        if symptom == "reclaim":
            return Outcome(
                status="Stopped",
                secondary_status="Interrupted",
                transitions=["Starting", "Training"],
                ended_epoch=0.0,
            )
        reason = fault.get("reason") if symptom == "exit" else None
        if symptom == "capacity":
            reason = self._words["capacity_reason"]
        return Outcome(
            status="Failed",
            secondary_status="Failed",
            failure_reason=reason or self._words["algorithm_error"],
            ended_epoch=0.0,
        )

    def failure(self, question: Question) -> Failure:
        """Its class, as ``classify`` reads it from what would be there to read."""
        known = self._failures.get(question)
        if known is None:
            known = self._failures[question] = classify(self._evidence(question))
        return known

    def _evidence(self, question: Question) -> Evidence:
        evidence = Evidence(outcome=self.outcome(question))
        match question.symptom:
            case "max_runtime":
                line = '{"everstep": "stopped", "step": 9, "reason": "deadline"}'
            case "nan":
                file = FailureFile(
                    kind="Diverged", message="loss is nan", failure_class=FailureClass.DIVERGED
                )
                return evidence.model_copy(update={"failure_file": file})
            case "frozen":
                return evidence.model_copy(
                    update={"stop_reason": self._hung.stop, "stop_detail": self._hung.detail}
                )
            case "slow":
                watch = self.spec.watch
                slow = Seen(
                    slow_rank=0,
                    slow_ratio=watch.straggler_ratio,
                    slow_reports=watch.straggler_reports,
                )
                verdict = straggles(watch, slow)
                assert verdict is not None
                return evidence.model_copy(
                    update={"stop_reason": verdict.stop, "stop_detail": verdict.detail}
                )
            case "hang":
                line = self._words["hang_log"]
            case "exit":
                line = self._faults[question.fault].get("log", "")
            case _:
                line = ""
        log = [LogLine(time_epoch=1.0, text=line)] if line else []
        return evidence.model_copy(update={"log": log})

    def spends(self, question: Question) -> bool:
        known = self._spends.get(question)
        if known is None:
            name = self.failure(question).failure_class
            known = self._spends[question] = name not in WITHOUT_ATTEMPT
        return known

    def alike(self, question: Question) -> Question:
        """The first question seen that ``decide`` cannot tell from this one. It compares causes
        only where the table calls a class poison."""
        known = self._alike.get(question)
        if known is None:
            failure, outcome = self.failure(question), self.outcome(question)
            cause = failure.cause if TABLE[failure.failure_class].poison else ""
            same = (failure.failure_class, failure.action, cause, outcome.status,
                    outcome.failure_reason)  # fmt: skip
            known = self._alike[question] = self._first.setdefault(same, question)
        return known

    def service_repairs(self, question: Question) -> bool:
        """RetryStrategy covers InternalServerError and nothing else."""
        known = self._repairs.get(question)
        if known is None:
            internal = self.outcome(question).failure_reason.startswith("InternalServerError")
            rungs = RUNGS.get(self.failure(question).failure_class, ())
            known = self._repairs[question] = internal and Rung.SERVICE_REPAIR in rungs
        return known

    def in_job(self, question: Question) -> bool:
        """The job still runs and its launcher may start the ranks again."""
        if question.symptom in ("frozen", "slow", "max_runtime", "reclaim", "capacity"):
            return False
        name = self.failure(question).failure_class
        return name in IN_JOB_CLASSES and Rung.IN_JOB in RUNGS.get(name, ())

    def decide(self, tail: Tail, u: float) -> Decision:
        """What follows the last launch of ``tail``; ``u`` in [0, 1) is the jitter."""
        window, retry = tail.seen, self.spec.retry
        level = int(u * LEVELS)
        # Near a limit that counts everything, the whole history is told, and the answer not kept.
        near = tail.spent_before + len(window) >= retry.max_attempts
        near |= retry.wait_deadline_hours * 3600 - tail.waited <= retry.backoff_cap_seconds + 1
        key = tuple(window)
        known = None if near else self._decisions.get(key) or self._decisions.get((*key, level))
        if known is None:
            self.asked += 1
            before = window[:1] * tail.spent_before if near else []
            history = History(
                launches=[self._launch(x) for x in (*before, *window)],
                waited_seconds=tail.waited if near else 0.0,
            )
            drawn: list[float] = []

            def draw() -> float:
                drawn.append((level + 0.5) / LEVELS)
                return drawn[-1]

            known = decide(self.spec, self.failure(window[-1].question), history, draw)
            if not near:
                self._decisions[(*key, level) if drawn else key] = known
        if not known.spends_attempt and known.kind is not DecisionKind.CONTINUE:
            tail.waited += known.wait_seconds
        return known

    def _launch(self, past: Past) -> Launch:
        ended = PAYS_SECONDS if past.paid else 0.0
        ended = 2.0 * RETURN_AFTER_SECONDS if past.long else ended
        outcome = self.outcome(past.question).model_copy(update={"ended_epoch": ended})
        return Launch(
            run_id="simulated",
            launch=1,
            job_name="simulated-00001",
            execution_arn="",
            target=past.target,
            instance_type=self.spec.target(past.target).instance_type,
            nodes=self.spec.target(past.target).nodes,
            planned_epoch=0.0,
            training_epoch=0.0,
            rung=past.rung,
            resume_step=0,
            committed_step=1 if past.progressed else 0,
            outcome=outcome,
            failure=self.failure(past.question),
        )
