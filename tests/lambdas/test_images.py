"""A run's tag becomes a digest once: what moves, is missing, is being built, or is ill."""

from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator

from everstep.contracts.payloads import State
from everstep.contracts.records import RunStatus
from everstep.policy.images import Found, lookup
from lambdas.aws.pinning import look
from lambdas.aws.registry import Registry
from tests.lambdas.world import RUN, TEAM, World, refuse

REPOSITORY = "1.dkr/everstep/trainer"


def planned(world: World, **payload: Any) -> dict[str, Any]:
    answer = world.act(State.PLAN_ATTEMPT, world.payload(**payload))
    assert isinstance(answer, dict)
    return answer


def with_image(image: str, finish: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"trainer": {"image": image}, "finish": finish or {}}


def job_image(world: World, number: int) -> str:
    token = world.machine.token(f"T{number}")
    world.act(State.LAUNCH_ATTEMPT, world.payload(launch=number, task_token=token))
    job = world.sagemaker.jobs[world.launch(number).job_name]
    return str(job["AlgorithmSpecification"]["TrainingImage"])


def test_a_tag_that_moves_in_mid_run_does_not_change_the_run(world: World) -> None:
    first = world.push("stable", "monday")
    world.put_run()
    assert planned(world)["next"] == State.LAUNCH_ATTEMPT
    assert job_image(world, 1) == f"{REPOSITORY}@{first}"
    assert world.push("stable", "tuesday") != first
    world.sagemaker.end(world.launch(1).job_name, "Failed", reason="InternalServerError: x")
    assert planned(world, launch=1)["launch"] == 2
    assert job_image(world, 2) == f"{REPOSITORY}@{first}"


def test_a_redrive_looks_again_because_the_image_may_be_what_was_mended(world: World) -> None:
    world.put_run()
    planned(world)
    assert world.run().images is not None
    world.store.update(world.run(), status=RunStatus.GAVE_UP)
    answer = world.act(State.GIVE_UP, world.payload(launch=1, redrive_count=1))
    assert answer["next"] == State.CHECK_QUOTA
    mended = world.push("stable", "mended")
    planned(world, launch=1)
    assert world.run().images["trainer:stable"].uri.endswith(mended)


def test_two_plans_at_once_agree_on_one_digest(world: World) -> None:
    world.put_run()
    services = world.services()
    find = services.registry.find

    def pushed_and_pinned_meanwhile(wanted: Any) -> Any:
        found = find(wanted)
        world.push("stable", "later")
        services.registry.find = find
        planned(world)
        return found

    services.registry.find = pushed_and_pinned_meanwhile
    world.act(State.PLAN_ATTEMPT, world.payload(), services)
    later = world.push("other", "later")
    assert world.run().images["trainer:stable"].uri.endswith(later)


@pytest.mark.parametrize(
    ("image", "uri"),
    [
        ("trainer:v1", f"{REPOSITORY}@DIGEST"),
        ("trainer@DIGEST", f"{REPOSITORY}@DIGEST"),
        ("trainer:v1@DIGEST", f"{REPOSITORY}@DIGEST"),
        (f"{REPOSITORY}:v1", f"{REPOSITORY}@DIGEST"),
        (f"{REPOSITORY}@DIGEST", f"{REPOSITORY}@DIGEST"),
    ],
)
def test_every_spelling_of_an_image_of_ours_ends_in_its_digest(
    world: World, image: str, uri: str
) -> None:
    digest = world.push("v1")
    world.put_run(spec=with_image(image.replace("DIGEST", digest)))
    planned(world)
    assert job_image(world, 1) == uri.replace("DIGEST", digest)


def test_an_image_without_a_tag_is_the_latest(world: World) -> None:
    digest = world.push("latest")
    world.put_run(spec=with_image("trainer"))
    planned(world)
    assert job_image(world, 1) == f"{REPOSITORY}@{digest}"


@pytest.mark.parametrize(
    "image", ["public.ecr.aws/x/y:1", "763104351884.dkr.ecr.us-east-1.amazonaws.com/p:2"]
)
def test_another_registrys_image_is_taken_as_it_is(world: World, image: str) -> None:
    world.put_run(spec=with_image(image))
    planned(world)
    assert world.run().images == {}
    assert job_image(world, 1) == image


def test_the_images_of_export_and_serving_are_looked_up_before_training(world: World) -> None:
    export, serve = world.push("export"), world.push("serve")
    finish = {
        "export": True,
        "register": True,
        "image": "trainer:export",
        "inference_image": "trainer:serve",
    }
    world.put_run(spec=with_image("trainer:stable", finish))
    planned(world)
    images = world.run().images
    assert {name: image.uri.rpartition("@")[2] for name, image in images.items()} == {
        "trainer:stable": images["trainer:stable"].uri.rpartition("@")[2],
        "trainer:export": export,
        "trainer:serve": serve,
    }


def test_a_tag_that_is_not_there_is_refused_with_what_is(world: World) -> None:
    world.push("v1")
    world.put_run(spec=with_image("trainer:v2"))
    assert planned(world)["next"] == State.GIVE_UP
    failure = world.run().failure
    assert failure.failure_class == "bad_config"
    assert failure.cause == "image trainer:v2 is not in everstep/trainer"
    there, _, what = failure.hint.removeprefix("it has ").partition("; build one: ")
    assert set(there.split(", ")) == {"stable", "v1"}
    assert what == "aws codebuild start-build --project-name everstep-trainer"
    assert world.sagemaker.created == []
    world.push("v2")  # mended, and redriven
    assert planned(world)["next"] == State.LAUNCH_ATTEMPT


def test_a_missing_image_of_the_export_is_refused_before_training_is_paid_for(
    world: World,
) -> None:
    world.put_run(spec=with_image("trainer:stable", {"export": True, "image": "trainer:gone"}))
    assert planned(world)["next"] == State.GIVE_UP
    assert "trainer:gone" in world.run().failure.cause


@pytest.mark.parametrize("digest", ["sha256:" + "0" * 64])
def test_a_digest_that_is_not_there_is_refused(world: World, digest: str) -> None:
    world.put_run(spec=with_image(f"trainer@{digest}"))
    assert planned(world)["next"] == State.GIVE_UP
    assert "is not in everstep/trainer" in world.run().failure.cause


@pytest.mark.parametrize("code", ["AccessDeniedException", None])
def test_another_repository_is_refused_whether_it_is_there_or_not(
    world: World, code: str | None
) -> None:
    run = world.put_run(spec=with_image("other:1"))
    services = world.services()
    if code:
        client = services.client("ecr")

        class Denied:
            def describe_images(self, **_: Any) -> None:
                raise refuse(code)

        services.client = lambda name: Denied() if name == "ecr" else client
    answer = look("other:1", run, services)
    assert answer.cause == (
        "image other:1: there is no repository everstep/other that this run may use"
    )


# --- an image that is being made ------------------------------------------------------------------


def waiting_for(world: World, tag: str = "c0ffee") -> dict[str, Any]:
    """A run on the one token state, as the machine leads it there."""
    world.put_run(spec=with_image(f"trainer:{tag}"))
    step = planned(world)
    assert step["next"] == State.WAIT_FOR_ROOM
    token = world.machine.token("W1")
    world.act(State.WAIT_FOR_ROOM, {**step, "task_token": token})
    world.now += 120
    return step


def test_a_run_waits_for_the_build_of_its_image_and_spends_no_attempt(world: World) -> None:
    world.codebuild.put("another")
    build = world.codebuild.put("c0ffee")
    step = waiting_for(world)
    assert "is being built: https://logs/1" in step["message"]
    assert "is being built" in world.messages()[-1]
    for _ in range(3):
        world.watch()
        world.now += 60
    assert world.machine.answers == {}
    build["buildStatus"] = "SUCCEEDED"
    digest = world.push("c0ffee")
    world.watch()
    woken = world.machine.answers["W1"]
    assert (woken["next"], woken["image"]) == (State.CHECK_QUOTA, None)
    assert world.act(State.CHECK_QUOTA, woken)["next"] == State.PLAN_ATTEMPT
    assert planned(world)["launch"] == 1
    assert job_image(world, 1) == f"{REPOSITORY}@{digest}"
    assert world.run().waited_seconds >= 120


@pytest.mark.parametrize("status", ["FAILED", "FAULT", "TIMED_OUT", "STOPPED"])
def test_a_build_that_failed_refuses_the_run_with_its_log(world: World, status: str) -> None:
    build = world.codebuild.put("c0ffee")
    waiting_for(world)
    build["buildStatus"] = status
    world.watch()
    assert planned(world)["next"] == State.GIVE_UP
    failure = world.run().failure
    assert failure.cause.endswith(f"its newest build ended with {status}")
    assert failure.hint == "the build's log: https://logs/0"


def test_of_several_builds_the_newest_counts(world: World) -> None:
    world.codebuild.put("c0ffee", "FAILED")
    world.codebuild.put("c0ffee")
    waiting_for(world)


def test_a_build_that_succeeded_without_an_image_is_not_waited_for(world: World) -> None:
    world.codebuild.put("c0ffee", "SUCCEEDED")
    world.put_run(spec=with_image("trainer:c0ffee"))
    assert planned(world)["next"] == State.GIVE_UP


def test_without_builds_or_without_a_project_nothing_is_waited_for(world: World) -> None:
    world.put_run(spec=with_image("trainer:c0ffee"))
    for world.codebuild.missing in (False, True):
        assert planned(world)["next"] == State.GIVE_UP


def test_the_wait_for_a_build_has_the_runs_own_deadline(world: World) -> None:
    world.codebuild.put("c0ffee")
    world.put_run(
        spec={**with_image("trainer:c0ffee"), "retry": {"wait_deadline_hours": 1}},
        waited_seconds=3600.0,
    )
    assert planned(world)["next"] == State.GIVE_UP
    assert world.run().failure.cause.startswith("the wait's deadline has passed: image")


def test_a_wait_for_quota_after_one_for_an_image_is_woken_by_room_again(world: World) -> None:
    """The payload that timed out still names the image."""
    world.put_run(spec={"compute": [{"instance_type": "ml.m5.large", "nodes": 4}]})
    resources = {"InstanceType": "ml.m5.large", "InstanceCount": 1}
    world.sagemaker.put("other", tags=[], ResourceConfig=resources)
    answer = world.act(State.CHECK_QUOTA, world.payload(image="trainer:c0ffee"))
    assert (answer["next"], answer["image"]) == (State.WAIT_FOR_ROOM, None)


# --- what the registry's scan found ---------------------------------------------------------------


def scanned(world: World, status: str | None, critical: int = 0, mode: str = "refuse") -> Any:
    run = world.put_run()
    world.env = world.env.model_copy(update={"critical_findings": mode})
    services = world.services()
    find = services.registry.find
    services.registry.find = lambda wanted: find(wanted)._replace(scan=status, critical=critical)
    return look("trainer:stable", run, services)


@pytest.mark.parametrize("status", ["COMPLETE", "ACTIVE"])
def test_critical_findings_refuse_where_config_says_so(world: World, status: str) -> None:
    answer = scanned(world, status, critical=3)
    assert answer.cause == "image trainer:stable has 3 critical findings"
    assert "describe-image-scan-findings --repository-name everstep/trainer" in answer.hint


def test_a_clean_scan_goes(world: World) -> None:
    assert scanned(world, "COMPLETE").critical_findings == 0


def test_an_unfinished_scan_is_waited_for(world: World) -> None:
    assert scanned(world, "IN_PROGRESS").reason == "image trainer:stable is being scanned"


@pytest.mark.parametrize("status", [None, "FAILED", "UNSUPPORTED_IMAGE", "FINDINGS_UNAVAILABLE"])
def test_what_was_not_scanned_is_not_taken_for_clean(world: World, status: str | None) -> None:
    assert "has no scan that counts" in scanned(world, status).cause


@pytest.mark.parametrize(
    ("status", "critical", "noted"), [("COMPLETE", 3, 3), ("IN_PROGRESS", 0, None), (None, 0, None)]
)
def test_by_default_findings_are_told_and_the_run_starts(
    world: World, status: str | None, critical: int, noted: int | None
) -> None:
    assert scanned(world, status, critical, "warn").critical_findings == noted


def test_ecrs_own_answer_is_read() -> None:
    """As botocore's model of DescribeImages has it."""
    answer = {
        "imageDetails": [
            {
                "imageDigest": "sha256:1",
                "imageScanStatus": {"status": "COMPLETE"},
                "imageScanFindingsSummary": {"findingSeverityCounts": {"CRITICAL": 2, "LOW": 9}},
            }
        ]
    }
    model = botocore.session.get_session().get_service_model("ecr")
    shape = model.operation_model("DescribeImages").output_shape
    assert not ParamValidator().validate(answer, shape).has_errors()

    class Ecr:
        def describe_images(self, **request: Any) -> Any:
            assert not ParamValidator().validate(request, asked).has_errors()
            return answer

    asked = model.operation_model("DescribeImages").input_shape
    wanted = lookup("trainer:stable", TEAM)
    assert wanted is not None
    assert Registry(Ecr(), None).find(wanted) == Found("sha256:1", "COMPLETE", 2)


def test_a_row_of_before_is_pinned_at_its_next_attempt(world: World) -> None:
    world.put_run()
    world.put_launch(1)
    assert planned(world, launch=1)["launch"] == 2
    assert list(world.store.run(RUN).images) == ["trainer:stable"]
