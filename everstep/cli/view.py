"""What a person asks of a run: where it is, what happened, what it cost."""

from typing import Any

from pydantic import BaseModel

from everstep.cli.cloud import Cloud
from everstep.cli.prices import prices
from everstep.contracts.records import Launch, Run
from everstep.policy.cost import Spend
from everstep.policy.goodput import Goodput, StepTime, goodput, loss_curve
from everstep.policy.own_file_system import spend_of_run
from everstep.policy.restarts import restart_time


class RunView(BaseModel):
    run: Run
    launches: list[Launch]
    steps: dict[int, list[StepTime]]
    now: float
    """Epoch seconds of the look."""
    spend: Spend
    """Of training, exports, and a file system of the run's own; by config's prices."""

    @classmethod
    def load(cls, cloud: Cloud, run_id: str) -> "RunView":
        launches = cloud.launches(run_id)
        steps = {x.launch: cloud.steps(run_id, x.launch) for x in launches}
        run, now = cloud.run(run_id), cloud.clock()
        jobs = [*launches, *cloud.exports(run_id)]
        spend = spend_of_run(run, jobs, prices(cloud.env), now)
        return cls(run=run, launches=launches, steps=steps, now=now, spend=spend)

    @property
    def goodput(self) -> Goodput:
        return goodput(self.launches, self.steps, self.now)

    @property
    def losses(self) -> dict[int, float]:
        return loss_curve(self.steps)

    @property
    def final_step(self) -> int | None:
        """That any launch's log shows, with a finite loss or without."""
        return max((s.step for own in self.steps.values() for s in own), default=None)

    def last_step(self, launch: Launch) -> int | None:
        """The last step that the launch's log shows."""
        return max((s.step for s in self.steps.get(launch.launch, [])), default=launch.last_step)

    def summary(self) -> dict[str, Any]:
        """The ``--json`` of ``everstep status``."""
        losses, paid = self.losses, self.goodput
        final = self.final_step
        return {
            "run_id": self.run.run_id,
            "status": self.run.status,
            "execution_arn": self.run.execution_arn,
            "step": final,
            "steps": None if self.run.adopted else self.run.spec.stop.steps,
            "loss": None if final is None else losses.get(final),
            "attempts": sum(x.spent_attempt for x in self.launches),
            "steps_lost": paid.steps_lost,
            "goodput": paid.ratio,
            "gpu_hours": round(self.spend.gpu_hours, 3),
            "usd": None if self.spend.usd is None else round(self.spend.usd, 2),
            "note": self.run.note,
            "images": {name: x.model_dump() for name, x in (self.run.images or {}).items()},
            "export": self.run.export_uri,
            "model_package": self.run.model_package_arn,
            "waiting": self.run.waiting.reason if self.run.waiting else None,
            "launches": [self._launch(x, i) for i, x in enumerate(self.launches)],
        }

    def _launch(self, x: Launch, index: int) -> dict[str, Any]:
        former = self.launches[index - 1] if index else None
        return {
            "launch": x.launch,
            "job": x.job_name,
            "where": x.where,
            "resume_step": x.resume_step,
            "last_step": self.last_step(x),
            "committed_step": x.committed_step,
            "phase": x.phase,
            "outcome": x.outcome.status if x.outcome else None,
            "class": x.failure.failure_class if x.failure else None,
            "cause": x.failure.cause if x.failure else None,
            "decision": x.decision.kind if x.decision else None,
            "reason": x.decision.reason if x.decision else None,
            "rung": x.rung,
            "bounded_by": x.bounded_by,
            "service_restarts": x.service_restarts,
            "restart": restart_time(former, x).model_dump() if former else None,
        }

    def timeline(self) -> list[tuple[float, str]]:
        """(seconds since the run was accepted, what happened), oldest first."""
        start = self.run.created_epoch
        events: list[tuple[float, str]] = [(0.0, f"run {self.run.run_id} accepted")]
        for x in self.launches:
            resume = (
                f"resumes at committed step {x.resume_step}" if x.resume_step else "from step 0"
            )
            events.append((x.planned_epoch - start, f"launch {x.launch} planned, {resume}"))
            if x.outcome is None:
                continue
            ended = (x.outcome.ended_epoch or x.planned_epoch) - start
            last = self.last_step(x)
            reached = "" if last is None else f" after step {last}"
            events.append((ended, f"launch {x.launch}: job {x.outcome.status}{reached}"))
            if x.failure:
                events.append((ended, f"  class    {x.failure.failure_class}: {x.failure.cause}"))
            if x.decision:
                wait = f", after {x.decision.wait_seconds} s" if x.decision.wait_seconds else ""
                events.append((ended, f"  decision {x.decision.kind}{wait} ({x.decision.reason})"))
        return events
