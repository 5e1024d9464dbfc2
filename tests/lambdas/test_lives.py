"""Whole lives of runs over the handlers: a small interpreter follows ``next`` as the hub does."""

import json
from typing import Any

import pytest

from everstep.contracts.events import ExecutionEvent, JobEvent
from everstep.contracts.failures import Action, Failure, FailureClass, StopReason
from everstep.contracts.models import PRESETS
from everstep.contracts.payloads import State
from everstep.contracts.progress import format_line
from everstep.contracts.records import RunStatus, job_name
from lambdas.aws import quotas
from lambdas.aws.waiting import FormerJobRunning
from lambdas.on_execution_event.handler import act as on_execution_event
from lambdas.on_job_event.handler import act as on_job_event
from tests.lambdas.world import EXECUTION, RUN, SPEC, TEAM, World, refuse

TWO = [{"instance_type": "ml.m5.large"}, {"instance_type": "ml.m5.xlarge"}]
JUDGES = {
    State.LAUNCH_ATTEMPT: State.CLASSIFY,
    State.INSPECT_ATTEMPT: State.CLASSIFY,
    State.EXPORT_MODEL: State.VERIFY_EXPORT,
}
"""Where a failure of a state that waits for a job goes."""
TOKEN_STATES = (*JUDGES, State.WAIT_FOR_ROOM)


class Life:
    """One execution: ``go`` runs until a state waits for its token, or the execution ends."""

    def __init__(self, world: World, name: str = RUN, **spec: Any) -> None:
        self.world, self.tokens, self.path = world, 0, list[str]()
        self.arn = EXECUTION.removesuffix(RUN) + name
        self.name, self.spec, self.redrives = name, {**SPEC, **spec}, 0
        self.payload: dict[str, Any] = {}
        self.team = TEAM
        self.at, self.error = State.VALIDATE_SPEC, ""
        world.machine.executions[self.arn] = "RUNNING"
        world.put_dataset()

    def go(self) -> State:
        while True:
            self.path.append(self.at)
            if self.at in (State.DONE, State.REFUSE_SPEC):
                self.world.machine.executions[self.arn] = "SUCCEEDED"
                return self.at
            if self.at is State.BACKOFF:
                self.world.now += self.payload["wait_seconds"]
                self.at = State(self.payload["after"] or State.CHECK_QUOTA)
                continue
            try:
                result = self.world.act(self.at, self.input())
            except FormerJobRunning:
                return self.at
            except Exception as error:  # noqa: BLE001 - what Step Functions catches
                if self.at in JUDGES:
                    cause = json.dumps({"errorMessage": str(error), "stackTrace": []})
                    self.fail({"Error": type(error).__name__, "Cause": cause})
                    continue
                self.error = type(error).__name__
                self.world.machine.executions[self.arn] = "FAILED"
                return self.at
            if self.at in TOKEN_STATES:
                if not self.answered():
                    return self.at
                continue
            self.payload, self.at = result, State(result["next"])

    def input(self) -> dict[str, Any]:
        if self.at is State.VALIDATE_SPEC:
            return {
                "execution_arn": self.arn,
                "execution_name": self.name,
                "team": self.team.model_dump(),
                "input": self.spec,
            }
        if self.at in TOKEN_STATES:
            self.world.machine.abandon()
            self.tokens += 1
            token = self.world.machine.token(f"{self.name}-T{self.tokens}")
            return {**self.payload, "task_token": token}
        if self.at is State.GIVE_UP:
            return {**self.payload, "redrive_count": self.redrives}
        return self.payload

    def answered(self) -> bool:
        answer = self.world.machine.answers.pop(f"{self.name}-T{self.tokens}", None)
        if answer is None:
            return False
        if "Error" in answer:
            self.fail(answer)
        else:
            self.payload, self.at = answer, State(answer["next"])
        return True

    def fail(self, error: dict[str, str]) -> None:
        self.payload, self.at = {**self.payload, "error": error}, JUDGES[self.at]

    def wake(self) -> State:
        assert self.answered(), f"nobody answered {self.at}"
        return self.go()

    def heartbeat_timeout(self) -> State:
        self.world.machine.abandon()
        if self.at is not State.EXPORT_MODEL:
            self.at = State.INSPECT_ATTEMPT
        return self.go()

    def stop(self) -> None:
        self.world.machine.abandon()
        self.world.machine.executions[self.arn] = "ABORTED"

    def redrive(self) -> State:
        self.redrives += 1
        self.world.machine.executions[self.arn] = "RUNNING"
        return self.go()


def job_event(world: World, job: str, status: str) -> bool:
    event = {
        "detail-type": "SageMaker Training Job State Change",
        "detail": {"TrainingJobName": job, "TrainingJobStatus": status},
    }
    return on_job_event(JobEvent.model_validate(event), world.services())


def execution_event(world: World, life: Life, status: str) -> bool:
    event = {
        "detail-type": "Step Functions Execution Status Change",
        "detail": {"executionArn": life.arn, "name": life.name, "status": status},
    }
    return on_execution_event(ExecutionEvent.model_validate(event), world.services())


def job(number: int) -> str:
    return job_name(RUN, number)


def end(world: World, number: int, status: str, reason: str = "", secondary: str = "") -> None:
    world.sagemaker.end(job(number), status, secondary, reason)
    job_event(world, job(number), status)


def launched(life: Life) -> None:
    assert life.go() is State.LAUNCH_ATTEMPT
    assert life.world.sagemaker.created


# --- the good life ---------------------------------------------------------------------------


def test_a_run_that_nothing_happens_to_is_done_after_one_job(world: World) -> None:
    life = Life(world)
    launched(life)
    world.put_checkpoint(100, final=True)
    end(world, 1, "Completed")
    assert life.wake() is State.DONE
    assert life.path == [
        "ValidateSpec",
        "CheckQuota",
        "PlanAttempt",
        "LaunchAttempt",
        "VerifyOutcome",
        "Finish",
        "Done",
    ]
    assert (world.run().status, world.run().final_step) == (RunStatus.DONE, 100)
    assert world.active() == []
    assert "done at step 100" in world.messages()[0]


def test_the_heartbeat_is_the_configured_one_in_every_launch(world: World) -> None:
    life = Life(world)
    launched(life)
    assert life.payload["heartbeat_seconds"] == 10
    world.put_checkpoint(50)
    end(world, 1, "Completed")  # too early: another attempt
    assert life.wake() is State.LAUNCH_ATTEMPT
    assert life.payload["heartbeat_seconds"] == 10
    assert world.launch(1).failure.failure_class is FailureClass.INCOMPLETE


def test_a_crash_resumes_from_the_newest_committed_checkpoint(world: World) -> None:
    life = Life(world)
    launched(life)
    world.put_checkpoint(40)
    name = world.put_checkpoint(60)
    world.put_object(f"{TEAM.checkpoint_uri}/{RUN}/step-00000080.00001/x.distcp", "torn")
    end(world, 1, "Failed", "InternalServerError: We lost it.")
    assert life.wake() is State.LAUNCH_ATTEMPT
    launch = world.launch(2)
    assert (launch.resume_checkpoint, launch.resume_step) == (name, 60)
    assert world.launch(1).committed_step == 60
    assert world.sagemaker.created == [job(1), job(2)]


# --- refusals --------------------------------------------------------------------------------


def test_a_bad_spec_is_refused_with_every_problem_and_makes_no_job(world: World) -> None:
    life = Life(world, model="tny", stop={"steps": 0})
    assert life.go() is State.REFUSE_SPEC
    message = life.payload["message"]
    assert "model.preset" in message
    assert "stop.steps" in message
    assert world.sagemaker.created == []
    assert world.store.find_run(RUN) is None


@pytest.mark.parametrize(
    ("put", "words"),
    [
        (None, "no dataset at"),
        ("not json", "is not a dataset index"),
        ("[1]", "is not a dataset index"),
        ('{"vocab_size": 5000}', "tokens reach 5000"),
    ],
)
def test_a_dataset_that_does_not_fit_is_refused(world: World, put: str | None, words: str) -> None:
    life = Life(world, data="other")
    if put is not None:
        world.put_object(f"{TEAM.data_uri}/other/index.json", put)
    assert life.go() is State.REFUSE_SPEC
    assert words in life.payload["message"]


def test_weights_are_looked_for_before_a_job_is_paid_for(world: World) -> None:
    """One thing after another is mended; the last spec is taken."""
    model = {"preset": "tiny", "weights": "models/tiny"}
    shape = PRESETS["tiny"]
    uri = f"{TEAM.data_uri}/models/tiny"
    config = {
        "hidden_size": shape.dim,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": shape.ffn_dim,
        "vocab_size": shape.vocab_size,
    }
    index = json.dumps({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}})
    for words, name, body in (
        ("no config.json at", "config.json", "{"),
        ("neither model.safetensors.index.json nor", "model.safetensors.index.json", "[]"),
        ("names no files", "model.safetensors.index.json", index),
        ("names model-1.safetensors, which is not at", "model-1.safetensors", "x"),
        ("names model-2.safetensors, which is not at", "model-2.safetensors", "x"),
        ("hidden_size=None", "config.json", json.dumps(config | {"vocab_size": 7})),
        ("vocab_size=7, the run's model has", "config.json", json.dumps(config)),
    ):
        life = Life(world, model=model)
        assert life.go() is State.REFUSE_SPEC
        assert words in life.payload["message"]
        world.put_object(f"{uri}/{name}", body)
    assert Life(world, model=model).go() is not State.REFUSE_SPEC


def test_every_dataset_of_a_mixture_is_looked_for(world: World) -> None:
    mixture = [{"prefix": "web"}, {"prefix": "code"}]
    life = Life(world, data={"prefix": "all", "mixture": mixture, "validation": "held-out"})
    world.put_object(f"{TEAM.data_uri}/all/code/index.json", '{"vocab_size": 5000}')
    assert life.go() is State.REFUSE_SPEC
    message = life.payload["message"]
    assert f"no dataset at {TEAM.data_uri}/all/web/index.json" in message
    assert "tokens reach 5000" in message
    assert "data.validation" in message
    for name in ("web", "code", "held-out"):
        world.put_object(f"{TEAM.data_uri}/all/{name}/index.json", '{"vocab_size": 50}')
    life = Life(world, data={"prefix": "all", "mixture": mixture, "validation": "held-out"})
    assert life.go() is not State.REFUSE_SPEC


@pytest.mark.parametrize(
    ("uri", "body", "words"),
    [
        ("s3://bucket/data/research/spec.json", json.dumps(SPEC), None),
        ("s3://bucket/out/research/spec.json", json.dumps(SPEC), None),
        ("s3://bucket/data/research/spec.json", "{", "is not JSON"),
        ("s3://bucket/data/research/gone.json", None, "does not exist"),
        ("s3://bucket/data/researchers/spec.json", json.dumps(SPEC), "is not the team's"),
        ("s3://bucket/data/other-team/spec.json", json.dumps(SPEC), "is not the team's"),
        ("s3://bucket/data/research/spec.json", "[]", "is a JSON object"),
    ],
)
def test_a_spec_may_be_a_pointer_below_the_teams_own_prefixes(
    world: World, uri: str, body: str | None, words: str | None
) -> None:
    life = Life(world)
    life.spec = {"spec": uri}
    if body is not None:
        world.put_object(uri, body)
    state = life.go()
    if words is None:
        assert state is State.LAUNCH_ATTEMPT
    else:
        assert state is State.REFUSE_SPEC
        assert words in life.payload["message"]


def test_a_secret_in_a_pointer_is_not_said_again(world: World) -> None:
    life = Life(world)
    life.spec = {"spec": "s3://x/hf_" + "a" * 34}
    assert life.go() is State.REFUSE_SPEC
    assert "hf_aaaa" not in life.payload["message"]


def test_a_limit_in_money_without_a_price_is_refused_not_ignored(world: World) -> None:
    assert Life(world, budget={"max_usd": 5}).go() is State.LAUNCH_ATTEMPT
    other = Life(
        world, name="other", budget={"max_usd": 5}, compute=[{"instance_type": "ml.m5.xlarge"}]
    )
    assert other.go() is State.REFUSE_SPEC
    assert "no price" in other.payload["message"]


def test_a_name_that_is_no_run_id_is_refused(world: World) -> None:
    life = Life(world, name="a_b")
    assert life.go() is State.REFUSE_SPEC
    assert "is not a run id" in life.payload["message"]


def test_a_run_id_that_runs_already_is_not_taken_over(world: World) -> None:
    launched(Life(world))
    other = Life(world, name=f"{RUN}-c01")
    assert other.go() is State.REFUSE_SPEC
    assert "is taken" in other.payload["message"]


def test_what_can_never_fit_is_refused_with_the_arithmetic(world: World) -> None:
    life = Life(world, compute=[{"instance_type": "ml.m5.large", "nodes": 8}])
    assert life.go() is State.GIVE_UP
    assert life.error == "Quota"
    assert "needs 8" in world.messages()[0]
    assert world.store.launches(RUN) == []


# --- failures --------------------------------------------------------------------------------


def test_the_same_user_bug_ends_the_run_after_the_second_attempt(world: World) -> None:
    life = Life(world)
    launched(life)
    world.put_checkpoint(100)
    for number in (1, 2):
        world.log(job(number), format_line("step", step=107), "[rank0]: ValueError: the bug")
        end(world, number, "Failed", "AlgorithmError: , exit code: 1")
        life.wake()
    assert (life.at, life.error) == (State.GIVE_UP, "UserCode")
    assert len(world.sagemaker.created) == 2
    assert "the bug" in world.messages()[-1]
    assert world.run().status is RunStatus.GAVE_UP


def test_capacity_moves_to_the_next_target_and_spends_no_attempt(world: World) -> None:
    life = Life(world, compute=TWO, retry={"max_attempts": 1})
    launched(life)
    end(world, 1, "Failed", "CapacityError: Unable to provision requested ML compute capacity.")
    assert life.wake() is State.LAUNCH_ATTEMPT
    assert world.launch(2).instance_type == "ml.m5.xlarge"
    assert not world.launch(1).spent_attempt


def test_a_refusal_by_the_api_is_classified_from_its_code(world: World) -> None:
    life = Life(world)
    world.sagemaker.refusals = [refuse("ValidationException", "no such role")]
    assert life.go() is State.GIVE_UP
    assert life.error == "BadConfig"
    assert "no such role" in world.messages()[-1]


def test_a_job_of_this_name_that_is_not_ours_is_left_alone(world: World) -> None:
    life = Life(world)
    world.sagemaker.put(job(1), tags=[{"Key": "everstep:execution", "Value": "another"}])
    assert life.go() is State.GIVE_UP
    assert life.error == "BadConfig"
    assert world.sagemaker.stops == []


@pytest.mark.parametrize(
    "error",
    [
        refuse("ThrottlingException", "Rate exceeded"),
        refuse("ServiceUnavailable", "busy"),
    ],
)
def test_trouble_of_the_api_costs_no_attempt(world: World, error: Exception) -> None:
    life = Life(world, retry={"max_attempts": 1})
    world.sagemaker.refusals = [error]
    assert life.go() is State.LAUNCH_ATTEMPT
    assert world.sagemaker.created == [job(2)]


def test_a_quota_refused_at_launch_waits_longer_each_time_and_wakes_once(world: World) -> None:
    life = Life(world, retry={"backoff_seconds": 100})
    world.draw = 0.99
    holds = []
    world.sagemaker.refusals = [refuse("ResourceLimitExceeded", "is 1 Instances")] * 3
    assert life.go() is State.WAIT_FOR_ROOM
    while life.at is State.WAIT_FOR_ROOM:
        began = world.now
        while not world.machine.answers:
            world.now += 50
            world.watch()
        holds.append(world.now - began)
        life.wake()
    assert holds == [100, 200, 400]
    assert world.run().waited_seconds == 700
    assert world.sagemaker.created == [job(4)]
    assert world.run().waiting is None


def test_no_room_waits_until_there_is(world: World) -> None:
    for i in range(4):
        world.sagemaker.put(
            f"other-{i}",
            tags=[],
            ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1},
        )
    life = Life(world)
    assert life.go() is State.WAIT_FOR_ROOM
    world.now += 3600
    world.watch()
    assert world.machine.answers == {}
    world.sagemaker.end("other-0", "Completed")
    world.watch()
    assert life.wake() is State.LAUNCH_ATTEMPT
    assert world.run().waited_seconds == 3600
    assert [m for m in world.messages() if "waits" in m]


def test_a_wait_that_runs_out_gives_up_with_the_arithmetic(world: World) -> None:
    for i in range(4):
        world.sagemaker.put(
            f"other-{i}",
            tags=[],
            ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1},
        )
    life = Life(world, retry={"wait_deadline_hours": 1})
    assert life.go() is State.WAIT_FOR_ROOM
    assert life.payload["wait_seconds"] == 3600
    world.now += 3600
    life.at = State.CHECK_QUOTA  # States.Timeout
    assert life.go() is State.GIVE_UP
    assert "deadline has passed" in world.messages()[-1]


# --- the watchdog ------------------------------------------------------------------------------


def test_a_healthy_job_gets_heartbeats_and_is_left_alone(world: World) -> None:
    life = Life(world)
    launched(life)
    world.sagemaker.move(job(1), "Training")
    for step in range(60):
        world.now += 60
        world.log(job(1), format_line("step", step=step))
        world.watch()
    assert len(world.machine.heartbeats) == 60
    assert world.sagemaker.stops == []
    assert world.launch().last_step == 59


def test_a_frozen_job_is_stopped_and_the_run_resumes(world: World) -> None:
    life = Life(world)
    launched(life)
    world.sagemaker.move(job(1), "Training")
    world.put_checkpoint(5)
    world.log(job(1), format_line("step", step=5))
    world.now += 901
    world.watch()
    assert world.sagemaker.stops == [job(1)]
    world.watch()
    assert len(world.machine.heartbeats) == 2  # waited for until it has stopped
    end(world, 1, "Stopped")
    assert life.wake() is State.LAUNCH_ATTEMPT
    failure = world.launch(1).failure
    assert failure.failure_class is FailureClass.HANG
    assert "901 s in phase step after step 5" in failure.cause


def test_an_ill_watchdog_costs_a_healthy_job_nothing(world: World) -> None:
    life = Life(world)
    launched(life)
    world.sagemaker.move(job(1), "Training")
    for step in range(1, 20):
        world.now += 300
        world.log(job(1), format_line("step", step=step))
        assert life.heartbeat_timeout() is State.INSPECT_ATTEMPT
    assert world.sagemaker.stops == []
    world.put_checkpoint(100, final=True)
    end(world, 1, "Completed")
    assert life.wake() is State.DONE


def test_inspectattempt_finds_a_hang_too(world: World) -> None:
    life = Life(world)
    launched(life)
    world.sagemaker.move(job(1), "Training")
    world.now += 3601
    assert life.heartbeat_timeout() is State.INSPECT_ATTEMPT
    assert world.sagemaker.stops == [job(1)]


def test_a_job_that_was_never_made_is_classified_and_not_waited_for(world: World) -> None:
    life = Life(world)
    launched(life)
    del world.sagemaker.jobs[job(1)]
    assert life.heartbeat_timeout() is State.GIVE_UP
    assert "does not exist" in world.messages()[-1]


def test_a_restart_by_the_service_is_not_a_hang(world: World) -> None:
    life = Life(world)
    launched(life)
    world.sagemaker.move(job(1), "Training")
    world.log(job(1), format_line("step", step=500))
    world.now += 60
    world.watch()
    for secondary, after in (("Interrupted", 60), ("Starting", 1800), ("Training", 600)):
        world.sagemaker.move(job(1), secondary)
        world.now += after
        world.watch()
    assert world.sagemaker.stops == []
    world.log(job(1), format_line("step", step=480))
    world.now += 60
    world.watch()
    assert world.launch().last_step == 480
    assert world.sagemaker.stops == []


def test_one_ill_run_does_not_hide_another(world: World) -> None:
    launched(Life(world))
    world.put_launch(7)
    world.store._client.update_item(
        TableName="runs",
        Key={"run_id": {"S": RUN}, "item": {"S": "launch#00001"}},
        UpdateExpression="SET nodes = :x",
        ExpressionAttributeValues={":x": {"S": '"many"'}},
    )
    other = Life(world, name="other")
    assert other.go() is State.LAUNCH_ATTEMPT
    with pytest.raises(Exception, match="my-run launch#00001"):
        world.watch()
    assert world.machine.heartbeats == ["other-T1"]


def test_a_reason_without_a_stop_is_followed_by_the_stop(world: World) -> None:
    launched(Life(world))
    world.store.update(world.launch(), stop_reason=StopReason.EXECUTION_STOPPED)
    world.watch()
    assert world.sagemaker.stops == [job(1)]


def test_progress_of_hours_is_not_read_again_each_minute(world: World) -> None:
    launched(Life(world))
    world.sagemaker.move(job(1), "Training")
    for step in range(30):
        world.log(job(1), format_line("step", step=step))
        world.now += 60
    world.watch()
    launch = world.launch()
    assert launch.progress_epoch == world.now - 60
    read = list(world.services().logs.progress(job(1), launch.progress_epoch))
    assert len(read) == 1


# --- events ------------------------------------------------------------------------------------


def test_events_that_are_not_terminal_not_ours_or_not_true_change_nothing(world: World) -> None:
    launched(Life(world))
    before = world.snapshot()
    assert not job_event(world, job(1), "InProgress")
    assert not job_event(world, job(1), "Levitating")
    assert not job_event(world, job(1), "Failed")  # late: the service restarted it
    assert not job_event(world, "someone-elses-00001", "Failed")
    assert not job_event(world, "no-job-of-ours", "Failed")
    assert world.snapshot() == before


def test_doubled_and_late_events_answer_once(world: World) -> None:
    life = Life(world)
    launched(life)
    end(world, 1, "Failed", "InternalServerError: x")
    assert life.wake() is State.LAUNCH_ATTEMPT
    before = world.snapshot()
    for _ in range(3):
        job_event(world, job(1), "Failed")
    assert world.snapshot() == before


def test_events_of_old_executions_do_not_stop_the_new_one(world: World) -> None:
    first = Life(world)
    launched(first)
    first.stop()
    execution_event(world, first, "ABORTED")
    assert (world.run().note or "").startswith("stopped by a person")
    end(world, 1, "Stopped")
    second = Life(world, name=f"{RUN}-c01")
    assert second.go() is State.LAUNCH_ATTEMPT
    before = world.snapshot()
    assert not execution_event(world, first, "ABORTED")
    assert world.snapshot() == before


def test_an_execution_that_fails_outside_of_giveup_is_told(world: World) -> None:
    life = Life(world)
    launched(life)
    life.stop()
    world.machine.executions[life.arn] = "FAILED"
    assert execution_event(world, life, "FAILED")
    assert world.sagemaker.stops == [job(1)]
    assert "outside of GiveUp" in world.messages()[-1]
    execution_event(world, life, "FAILED")
    assert len(world.messages()) == 1


def test_a_topic_that_does_not_answer_ends_no_run(world: World) -> None:
    world.env = world.env.model_copy(update={"topic_arn": world.env.topic_arn + "-gone"})
    life = Life(world)
    launched(life)
    world.put_checkpoint(100, final=True)
    end(world, 1, "Completed")
    assert life.wake() is State.DONE


# --- stop, redrive, go on ------------------------------------------------------------------------


def test_a_job_that_a_user_stopped_stays_stopped_until_redriven(world: World) -> None:
    life = Life(world)
    launched(life)
    end(world, 1, "Stopped")
    assert life.wake() is State.GIVE_UP
    assert (life.error, world.run().status) == ("UserStop", RunStatus.STOPPED)
    assert life.redrive() is State.LAUNCH_ATTEMPT
    assert world.sagemaker.created == [job(1), job(2)]


def test_a_redrive_after_giving_up_goes_on_with_attempts_counted_anew(world: World) -> None:
    life = Life(world, retry={"max_attempts": 1})
    launched(life)
    end(world, 1, "Failed", "InternalServerError: x")
    assert life.wake() is State.GIVE_UP
    for redrive in (1, 2):
        assert world.run().note
        assert life.redrive() is State.LAUNCH_ATTEMPT
        assert world.run().note is None, "it runs: why it once gave up is its launches' to tell"
        end(world, redrive + 1, "Failed", "InternalServerError: x")
        assert life.wake() is State.GIVE_UP
    assert world.sagemaker.created == [job(1), job(2), job(3)]
    assert len(world.messages()) == 3
    assert len({m.splitlines()[0] for m in world.messages()}) == 1


def test_a_redrive_that_still_cannot_fit_gives_up_again(world: World) -> None:
    life = Life(world, compute=[{"instance_type": "ml.m5.large", "nodes": 8}])
    assert life.go() is State.GIVE_UP
    assert life.redrive() is State.GIVE_UP
    assert life.redrive() is State.GIVE_UP
    world.quotas.values["ml.m5.large for training job usage"] = 9.0
    quotas._cache.clear()
    assert life.redrive() is State.LAUNCH_ATTEMPT


def test_stop_and_redrive_at_launchattempt_goes_on_when_the_old_job_has_ended(
    world: World,
) -> None:
    life = Life(world)
    launched(life)
    life.stop()
    execution_event(world, life, "ABORTED")
    assert world.sagemaker.stops == [job(1)]
    assert life.redrive() is State.LAUNCH_ATTEMPT  # FormerJobRunning: Step Functions tries again
    assert world.sagemaker.created == [job(1)]
    world.sagemaker.end(job(1), "Stopped")
    assert life.go() is State.LAUNCH_ATTEMPT
    assert world.sagemaker.created == [job(1), job(2)]
    assert (world.run().status, world.run().note) == (RunStatus.RUNNING, None)


@pytest.mark.parametrize("said", [True, False])
def test_a_refusal_does_not_write_off_a_job_that_runs(world: World, said: bool) -> None:
    """Stopped, not noticed, redriven, and CreateTrainingJob has no capacity: the job is there."""
    life = Life(world)
    launched(life)
    if not said:  # whoever made it died before saying so
        world.store.update(world.launch(), created=None)
    life.stop()
    world.sagemaker.refusals = [refuse("InsufficientInstanceCapacity", "none")]
    assert life.redrive() is State.LAUNCH_ATTEMPT
    assert world.launch(1).outcome is None
    assert world.sagemaker.created == [job(1)]


def test_stop_and_redrive_before_anyone_noticed_keeps_the_running_job(world: World) -> None:
    life = Life(world)
    launched(life)
    life.stop()
    assert life.redrive() is State.LAUNCH_ATTEMPT
    assert not execution_event(world, life, "ABORTED")  # late
    world.watch()
    assert world.sagemaker.stops == []
    world.put_checkpoint(100, final=True)
    end(world, 1, "Completed")
    assert life.wake() is State.DONE
    assert world.sagemaker.created == [job(1)]


@pytest.mark.parametrize("event", [True, False])
def test_stop_before_the_job_was_made_and_redrive_goes_on(world: World, event: bool) -> None:
    life = Life(world)
    world.sagemaker.create_training_job, make = None, world.sagemaker.create_training_job
    for state in (State.VALIDATE_SPEC, State.CHECK_QUOTA, State.PLAN_ATTEMPT):
        life.payload = world.act(state, life.input())
        life.at = State(life.payload["next"])
    with pytest.raises(TypeError):
        world.act(State.LAUNCH_ATTEMPT, life.input())
    world.sagemaker.create_training_job = make
    life.stop()
    if event:
        execution_event(world, life, "ABORTED")
    world.now += 700
    world.watch()
    assert life.redrive() is State.LAUNCH_ATTEMPT
    assert world.sagemaker.created == [job(2)]
    assert world.active() == [(RUN, "launch#00002")]


def test_the_services_last_word_on_a_job_is_kept(world: World) -> None:
    life = Life(world)
    launched(life)
    world.sagemaker.end(job(1), "Stopped", "MaxRuntimeExceeded")
    told = world.sagemaker.jobs[job(1)]["SecondaryStatusTransitions"][-1]
    told["StatusMessage"] = "Training job runtime exceeded MaxRuntimeInSeconds provided"
    world.watch()
    life.wake()
    assert world.launch().outcome.message == told["StatusMessage"]
    assert told["StatusMessage"] in world.launch().failure.cause


def test_stop_while_waiting_and_redrive_waits_again(world: World) -> None:
    world.sagemaker.refusals = [refuse("ResourceLimitExceeded", "x")]
    life = Life(world)
    assert life.go() is State.WAIT_FOR_ROOM
    life.stop()
    world.watch()
    assert world.active() == []
    assert world.run().status is RunStatus.STOPPED
    assert life.redrive() is State.WAIT_FOR_ROOM
    world.now += 60
    world.watch()
    assert life.wake() is State.LAUNCH_ATTEMPT


def test_a_continuation_goes_on_with_the_next_launch_number(world: World) -> None:
    life = Life(world, retry={"max_attempts": 1})
    launched(life)
    world.put_checkpoint(50)
    end(world, 1, "Failed", "InternalServerError: x")
    assert life.wake() is State.GIVE_UP
    second = Life(world, name=f"{RUN}-c01", stop={"steps": 200}, retry={"max_attempts": 1})
    assert second.go() is State.LAUNCH_ATTEMPT
    assert world.run().note is None
    assert world.sagemaker.created == [job(1), job(2)]
    assert world.launch(2).execution_arn == second.arn
    assert world.run().spec.stop.steps == 200
    end(world, 2, "Failed", "InternalServerError: x")
    assert second.wake() is State.GIVE_UP


def test_a_continuation_waits_for_the_job_of_the_stopped_execution(world: World) -> None:
    life = Life(world)
    launched(life)
    life.stop()
    second = Life(world, name=f"{RUN}-c01")
    assert second.go() is State.LAUNCH_ATTEMPT
    assert world.sagemaker.created == [job(1)]  # FormerJobRunning
    world.watch()
    assert world.sagemaker.stops == [job(1)]
    world.sagemaker.end(job(1), "Stopped")
    second.go()
    assert world.sagemaker.created == [job(1), job(2)]


def test_warm_pools_are_ended_when_the_run_is_over(world: World) -> None:
    pool = [{"instance_type": "ml.m5.large", "warm_pool_seconds": 600}]
    life = Life(world, compute=pool)
    launched(life)
    world.put_checkpoint(100, final=True)
    end(world, 1, "Completed")
    assert life.wake() is State.DONE
    assert world.sagemaker.pools_ended == [job(1)]


def test_a_long_history_fits_a_message_and_a_cause(world: World) -> None:
    world.put_run()
    lost = Failure(
        failure_class=FailureClass.CAPACITY, action=Action.RETRY_BACKOFF, cause="x" * 300, rule="r"
    )
    for number in range(1, 62):
        world.put_launch(number, failure=lost)
    with pytest.raises(Exception, match="21 more") as raised:
        world.act(State.GIVE_UP, world.payload(launch=61, redrive_count=0))
    assert type(raised.value).__name__ == "Capacity"
    assert len(str(raised.value)) < 32_000
    assert len(world.messages()[-1]) < 32_000
