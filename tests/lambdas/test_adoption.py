"""Jobs made elsewhere: which are taken over, and how their lives go on."""

from typing import Any

import pytest

from everstep.contracts.events import JobEvent
from everstep.contracts.failures import FailureClass
from everstep.contracts.payloads import State
from everstep.contracts.records import RunStatus, job_name
from everstep.contracts.run_id import adoption_name
from everstep.policy.retry import made_progress
from lambdas.on_job_event.handler import act as on_job_event
from tests.lambdas.test_lives import Life
from tests.lambdas.world import MACHINE, TEAM, World

ADOPT = {"adopt": {"job": "notebook"}}


def ended(world: World, name: str = "notebook", tags: dict[str, str] | None = None) -> bool:
    detail: dict[str, Any] = {"TrainingJobName": name, "TrainingJobStatus": "Failed"}
    if tags is not None:
        detail["Tags"] = tags
    event = {"detail-type": "SageMaker Training Job State Change", "detail": detail}
    return on_job_event(JobEvent.model_validate(event), world.services())


class Adopted(Life):
    """The execution that on_job_event started."""

    def __init__(self, world: World, arn: str) -> None:
        super().__init__(world, name=adoption_name(arn))
        self.spec = world.machine.started[self.name]["input"]

    def job(self, number: int) -> str:
        return job_name(self.name, number)

    def end(self, number: int, status: str, reason: str = "", secondary: str = "") -> None:
        self.world.sagemaker.end(self.job(number), status, secondary, reason)
        ended(self.world, self.job(number))


def taken_over(world: World, **changes: Any) -> Adopted:
    arn = world.put_foreign(**changes)
    assert ended(world)
    return Adopted(world, arn)


def test_an_execution_named_from_the_jobs_arn_is_started_once(world: World) -> None:
    arn = world.put_foreign()
    assert [ended(world) for _ in range(3)] == [True, True, True]
    name = adoption_name(arn)
    assert len(name) <= 40
    assert world.machine.started == {
        name: {"machine": MACHINE, "input": {"adopt": {"job": "notebook", "arn": arn}}}
    }


def test_a_lost_host_is_answered_by_the_same_job_again_and_arrives(world: World) -> None:
    life = taken_over(world)
    assert life.go() is State.LAUNCH_ATTEMPT
    assert life.path == [
        *("ValidateSpec", "Classify", "Decide", "Backoff", "CheckQuota"),
        *("PlanAttempt", "LaunchAttempt"),
    ]
    first, second = world.sagemaker.jobs["notebook"], world.sagemaker.jobs[life.job(2)]
    for key in ("RoleArn", "CheckpointConfig", "StoppingCondition", "Environment"):
        assert first[key] == second[key], key
    row = world.store.run(life.name).model_dump_json()
    assert "0123456789" not in row.replace("123456789012", "")  # the key stays where it is
    life.end(2, "Completed")
    assert life.wake() is State.DONE
    assert world.store.run(life.name).status is RunStatus.DONE
    message = world.messages()[-1]
    assert "done after 2 launches" in message
    assert f"Taken over from job notebook; checkpoints: {TEAM.checkpoint_uri}/theirs" in message


def test_a_second_failure_goes_on_from_the_first(world: World) -> None:
    life = taken_over(world)
    life.go()
    life.end(2, "Failed", "InternalServerError: We lost it again.")
    assert life.wake() is State.LAUNCH_ATTEMPT
    assert world.sagemaker.created == [life.job(2), life.job(3)]
    assert not any("auto-retry" in t["Key"] for t in world.sagemaker.jobs[life.job(3)]["Tags"])


def test_new_checkpoints_in_the_teams_place_are_progress(world: World) -> None:
    world.now -= 100  # objects are written at the real time
    world.put_object(f"{TEAM.checkpoint_uri}/theirs/state.pt", "1")
    life = taken_over(world)
    assert life.go() is State.LAUNCH_ATTEMPT
    first, second = (world.store.launch(life.name, n) for n in (1, 2))
    assert made_progress(first)
    assert first.committed_step == second.resume_step >= 100
    life.end(2, "Failed", "InternalServerError: We lost it again.")
    life.wake()
    assert not made_progress(world.store.launch(life.name, 2))


def test_elsewhere_no_one_looks_and_the_limit_without_progress_holds(world: World) -> None:
    life = taken_over(world, CheckpointConfig={"S3Uri": "s3://elsewhere/theirs"})
    assert life.go() is State.LAUNCH_ATTEMPT
    for number in range(2, 7):
        life.end(number, "Failed", "InternalServerError: We lost it again.")
        at = life.wake()
    assert at is State.GIVE_UP
    assert "6 attempts in a row committed no new checkpoint" in world.messages()[-1]


def test_a_job_that_should_not_be_retried_is_given_up_with_its_reason(world: World) -> None:
    life = taken_over(world, reason="ClientError: Data download failed:NoSuchKey")
    assert life.go() is State.GIVE_UP
    assert world.sagemaker.created == []
    assert "gave up" in world.messages()[-1]


def test_a_user_stop_of_the_new_job_stays_stopped(world: World) -> None:
    life = taken_over(world)
    life.go()
    life.end(2, "Stopped")
    assert life.wake() is State.GIVE_UP
    assert world.store.launch(life.name, 2).failure.failure_class is FailureClass.USER_STOP


@pytest.mark.parametrize(
    ("tags", "event_tags"),
    [
        ({"owner": "me"}, None),
        ({"everstep:auto-retry": "false"}, None),
        ({"everstep:auto-retry": "true", "everstep:execution": "arn"}, None),
        ({"everstep:auto-retry": "true"}, {"owner": "me"}),
    ],
)
def test_a_job_that_does_not_ask_is_left_alone(
    world: World, tags: dict[str, str], event_tags: dict[str, str] | None
) -> None:
    world.put_foreign(tags=tags)
    assert not ended(world, tags=event_tags)
    assert world.machine.started == {}
    assert world.messages() == []


def test_an_event_with_tags_that_do_not_ask_costs_no_call(world: World) -> None:
    world.put_foreign()
    world.calls = 0
    ended(world, tags={"owner": "me"})
    assert world.calls == 0


@pytest.mark.parametrize("status", ["Completed", "Stopped"])
def test_a_job_that_arrived_or_was_stopped_is_left_alone(world: World, status: str) -> None:
    world.put_foreign(status=status)
    assert not ended(world)
    assert world.machine.started == {}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"TuningJobArn": "arn:t"}, "belongs to a tuning job"),
        ({"AutoMLJobArn": "arn:a"}, "belongs to an AutoML job"),
        ({"RoleArn": "arn:aws:iam::123456789012:role/else"}, "role/else is not in adopt_job_roles"),
    ],
)
def test_a_refusal_is_told_once_however_often_the_event_comes(
    world: World, changes: dict[str, Any], said: str
) -> None:
    world.put_foreign(**changes)
    assert [ended(world) for _ in range(3)] == [False] * 3
    assert world.machine.started == {}
    (message,) = world.messages()
    assert said in message
    assert message.startswith("Training job notebook failed and is tagged to be taken over.")


@pytest.mark.parametrize(
    ("given", "changes", "said"),
    [
        ({"adopt": {"job": "nothing"}}, {}, "there is no such training job"),
        ({"adopt": {}}, {}, "there is no such training job"),
        ({"adopt": "notebook"}, {}, "there is no such training job"),
        (ADOPT, {"status": "Completed"}, "only a job that failed"),
        (ADOPT, {"RoleArn": "arn:aws:iam::123456789012:role/else"}, "is not in adopt_job_roles"),
    ],
)
def test_what_a_person_starts_by_hand_is_held_to_the_same_rules(
    world: World, given: dict[str, Any], changes: dict[str, Any], said: str
) -> None:
    world.put_foreign(**changes)
    life = Life(world)
    life.spec = given
    assert life.go() is State.REFUSE_SPEC
    assert said in life.payload["message"]


def test_a_continuation_goes_on_with_the_next_launch(world: World) -> None:
    life = taken_over(world, reason="ClientError: Data download failed:NoSuchKey")
    assert life.go() is State.GIVE_UP
    again = Life(world, name=f"{life.name}-c01")
    again.spec = life.spec
    assert again.go() is State.LAUNCH_ATTEMPT
    assert world.sagemaker.created == [life.job(2)]


def test_silence_of_the_log_is_a_hang_and_a_line_is_a_sign_of_life(world: World) -> None:
    tags = {"everstep:auto-retry": "true", "everstep:log-silence-seconds": "600"}
    life = taken_over(world, tags=tags)
    life.go()
    world.sagemaker.move(life.job(2), "Training")
    for _ in range(8):
        world.now += 300
        world.log(life.job(2), "epoch 3")
        world.now += 200
        world.watch()
    assert world.sagemaker.stops == []
    world.now += 401
    world.watch()
    assert world.sagemaker.stops == [life.job(2)]
    detail = world.store.launch(life.name, 2).stop_detail
    assert detail.startswith("no host logged a line for 600 s")
