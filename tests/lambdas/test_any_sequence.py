"""Whatever happens, in whatever order: no second job of one attempt, no run lost, no hopeless class
tried again, no loop without waiting or progress.

Hypothesis plays faults against the real handlers, which the real definition drives. At the end
the faults stop, the world is left alone, and the run must arrive.
"""

import json
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from everstep.contracts.failures import Action, DecisionKind
from everstep.contracts.progress import format_line
from everstep.contracts.records import RunStatus, job_name, parse_job_name
from everstep.policy.retry import WITHOUT_ATTEMPT, paid_off
from lambdas.aws import services as services_module
from lambdas.on_execution_event.handler import handler as on_execution_event
from lambdas.on_job_event.handler import handler as on_job_event
from tests.lambdas.step_functions import StepFunctions
from tests.lambdas.world import RUN, SPEC, Crash, World, a_world, refuse

ENDS = [
    ("Failed", "Failed", "InternalServerError: lost"),
    ("Failed", "Failed", "CapacityError: none"),
    ("Failed", "Failed", "AlgorithmError: , exit code: 1"),
    ("Failed", "Failed", "ClientError: no such image"),
    ("Failed", "Failed", "something never seen"),
    ("Stopped", "MaxRuntimeExceeded", ""),
    ("Stopped", "Interrupted", ""),
    ("Stopped", "Stopped", ""),
    ("Completed", "Completed", ""),
]
REFUSALS = [
    refuse("ResourceLimitExceeded", "is 0"),
    refuse("ThrottlingException", "Rate exceeded"),
    refuse("InsufficientInstanceCapacity", "none"),
]
MOST_ATTEMPTS = 6
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "compute": st.sampled_from(
            [
                [{"instance_type": "ml.m5.large"}, {"instance_type": "ml.m5.xlarge"}],
                [{"instance_type": "ml.m5.large", "warm_pool_seconds": 600}],
            ]
        ),
        "budget": st.sampled_from([{"max_gpu_hours": 4}, {"max_usd": 0.35}]),
    },
)


class AnySequence(RuleBasedStateMachine):
    @initialize(spec=SPECS, turns=st.sampled_from([2, 3, 150]))
    def begin(self, spec: dict[str, Any], turns: int) -> None:
        self.context = a_world()
        self.world: World = self.context.__enter__()
        prices = {"ml.m5.large": 0.1, "ml.m5.xlarge": 0.2}
        self.world.env = self.world.env.model_copy(
            update={"continue_after_turns": turns, "prices_usd": prices}
        )
        self.world.put_dataset()
        self.step, self.redrives = 0, 0
        self.machine = StepFunctions(self.world)
        retry = {"max_attempts": MOST_ATTEMPTS, "backoff_seconds": 5, "wait_deadline_hours": 2}
        self.machine.start({**SPEC, "retry": retry, "notify": {"on": ["give_up"]}, **spec})

    def teardown(self) -> None:
        if hasattr(self, "context"):
            try:
                self.left_alone()
            finally:
                self.context.__exit__(None, None, None)

    # --- what may happen

    def jobs(self) -> list[str]:
        live = ("InProgress", "Stopping")
        return [n for n, j in self.world.sagemaker.jobs.items() if j["TrainingJobStatus"] in live]

    @precondition(lambda self: self.jobs())
    @rule(steps=st.integers(1, 9), save=st.booleans())
    def trains(self, steps: int, save: bool) -> None:
        (job,) = self.jobs()
        if self.world.sagemaker.jobs[job]["SecondaryStatus"] == "Starting":
            self.world.sagemaker.move(job, "Training")
        self.step = min(99, self.step + steps)
        self.world.now += 30
        self.world.log(job, format_line("step", step=self.step, step_seconds=1.0))
        if save:
            self.world.put_checkpoint(self.step, launch=parse_job_name(job)[1])  # type: ignore[index]

    @precondition(lambda self: self.jobs())
    @rule(end=st.sampled_from(ENDS), heard=st.integers(0, 2))
    def job_ends(self, end: tuple[str, str, str], heard: int) -> None:
        (job,) = self.jobs()
        status, secondary, reason = end
        self.world.sagemaker.end(job, status, secondary, reason)
        for _ in range(heard):
            self.event(job, status)

    @precondition(lambda self: self.world.sagemaker.jobs)
    @rule(data=st.data(), status=st.sampled_from(["Failed", "Completed", "Stopped"]))
    def event_that_is_late_or_false(self, data: st.DataObject, status: str) -> None:
        self.event(data.draw(st.sampled_from(sorted(self.world.sagemaker.jobs))), status)

    @rule(seconds=st.sampled_from([60, 300, 901, 4000]))
    def time_passes_and_the_watchdog_looks(self, seconds: int) -> None:
        self.world.now += seconds
        self.world.watch()
        self.machine.settle()

    @rule(call=st.integers(1, 12), lost=st.booleans())
    def the_watchdog_dies_half_way(self, call: int, lost: bool) -> None:
        with suppress(Crash):
            self.world.watch(self.world.services(call, lost=lost))
        self.machine.settle()

    @rule(calls=st.lists(st.integers(1, 9), min_size=1, max_size=3), lost=st.booleans())
    def the_next_handlers_die_half_way(self, calls: list[int], lost: bool) -> None:
        todo = list(calls)
        whole = self.world.services
        self.machine.services = lambda: whole(todo.pop(), lost=lost) if todo else whole()

    @rule()
    def heartbeats_stop(self) -> None:
        self.world.now += 10
        for execution in self.machine.running():
            execution.heartbeat_timeout()
        self.machine.settle()

    @precondition(lambda self: not self.world.sagemaker.refusals)
    @rule(refusals=st.lists(st.sampled_from(REFUSALS), min_size=1, max_size=2))
    def the_next_jobs_are_refused(self, refusals: list[Exception]) -> None:
        self.world.sagemaker.refusals += refusals  # type: ignore[arg-type]

    @precondition(lambda self: self.machine.running() and self.redrives < 2)
    @rule(heard=st.booleans())
    def a_person_stops_the_execution(self, heard: bool) -> None:
        execution = self.machine.running()[-1]
        execution.stop()
        if heard:
            self.execution_event(execution.arn, execution.name, "ABORTED")

    @precondition(lambda self: not self.machine.running() and self.redrives < 2)
    @rule()
    def a_person_redrives(self) -> None:
        mine = self.world.run().execution_arn
        if self.machine.executions[mine].status in ("FAILED", "ABORTED"):
            self.redrives += 1
            self.machine.executions[mine].redrive()
            self.machine.settle()

    def event(self, job: str, status: str) -> None:
        detail = {"TrainingJobName": job, "TrainingJobStatus": status}
        self.deliver(on_job_event, {"detail-type": "SageMaker …", "detail": detail})

    def execution_event(self, arn: str, name: str, status: str) -> None:
        detail = {"executionArn": arn, "name": name, "status": status}
        self.deliver(on_execution_event, {"detail-type": "Step Functions …", "detail": detail})

    def deliver(self, handler: Any, body: dict[str, Any]) -> None:
        record = {"messageId": "m", "body": json.dumps(body), "eventSource": "aws:sqs"}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(services_module, "_services", self.world.services())
            answer = handler({"Records": [record]}, None)
        assert answer == {"batchItemFailures": []}
        self.machine.settle()

    # --- what must hold at any moment

    @invariant()
    def one_job_at_a_time_and_one_for_each_launch(self) -> None:
        if not hasattr(self, "world"):
            return
        made = self.world.sagemaker.created
        assert len(made) == len(set(made))
        assert len(self.jobs()) <= 1
        launches = self.world.store.launches(RUN)
        assert [x.launch for x in launches] == list(range(1, len(launches) + 1))
        assert set(made) <= {x.job_name for x in launches}

    @invariant()
    def one_execution_at_a_time(self) -> None:
        """But for one that hands over to the other."""
        if hasattr(self, "machine"):
            assert sum(e.at != "ContinueAsNew" for e in self.machine.running()) <= 1

    @invariant()
    def nothing_hopeless_is_tried_again(self) -> None:
        if not hasattr(self, "world"):
            return
        launches = self.world.store.launches(RUN)
        for former, _ in pairwise(launches):
            gave_up = former.decision is not None and former.decision.kind is DecisionKind.GIVE_UP
            hopeless = former.failure is not None and former.failure.action is Action.DO_NOT_RETRY
            if gave_up or hopeless:
                assert self.redrives
        paid = [i for i, x in enumerate(launches) if paid_off(x)]
        costly = [
            x
            for x in launches[paid[-1] if paid else 0 :]
            if x.failure and x.failure.failure_class not in WITHOUT_ATTEMPT
        ]
        assert len(costly) <= MOST_ATTEMPTS * (self.redrives + 1)

    # --- and in the end

    def left_alone(self) -> None:
        """The faults are over: every run is at an end, or comes to a good one."""
        world, machine = self.world, self.machine
        world.sagemaker.refusals.clear()
        machine.services = world.services
        for _ in range(400):
            world.now += 60
            world.watch()
            machine.settle()
            for job in self.jobs():
                if world.sagemaker.jobs[job]["TrainingJobStatus"] == "Stopping":
                    world.sagemaker.end(job, "Stopped")
                elif machine.running():
                    world.put_checkpoint(100, launch=parse_job_name(job)[1], final=True)  # type: ignore[index]
                    world.sagemaker.end(job, "Completed")
            if not machine.running() and not self.jobs() and not world.active():
                break
        else:
            at = [(e.name, e.at, e.until) for e in machine.running()]
            raise AssertionError(f"lost: {at}, jobs {self.jobs()}")
        for execution in machine.executions.values():
            if execution.arn == world.run().execution_arn and execution.status == "FAILED":
                self.execution_event(execution.arn, execution.name, "FAILED")
            if execution.arn == world.run().execution_arn and execution.status == "ABORTED":
                self.execution_event(execution.arn, execution.name, "ABORTED")
        assert world.active() == []
        assert world.run().status in (RunStatus.DONE, RunStatus.GAVE_UP, RunStatus.STOPPED)
        for x in world.store.launches(RUN):
            assert x.outcome is not None
            assert job_name(RUN, x.launch) == x.job_name


TestAnySequence = pytest.mark.slow(AnySequence.TestCase)
TestAnySequence.settings = settings(
    max_examples=25,
    stateful_step_count=15,
    deadline=None,
    phases=[Phase.generate],  # shrinking a life of seconds takes minutes; the sequence is printed
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
