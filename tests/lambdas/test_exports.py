"""What follows training: export and registration, tried apart from it, never instead of it."""

from typing import Any

import pytest

from everstep.contracts.failures import FailureClass, StopReason
from everstep.contracts.payloads import State
from everstep.contracts.records import RunStatus, export_item, export_job_name, job_name
from tests.lambdas.test_lives import Life, end, execution_event, job_event, launched
from tests.lambdas.world import RUN, TEAM, World, refuse

BOTH = {"export": True, "register": True}
TRAINED = ["ValidateSpec", "CheckQuota", "PlanAttempt", "LaunchAttempt", "VerifyOutcome"]


def export_job(number: int) -> str:
    return export_job_name(RUN, number)


def exporting(world: World, **finish: Any) -> tuple[Life, str]:
    """A run whose training is over and whose first export job runs; the final checkpoint."""
    life = Life(world, finish=BOTH | finish)
    launched(life)
    name = world.put_checkpoint(100, final=True)
    end(world, 1, "Completed")
    assert life.wake() is State.EXPORT_MODEL
    return life, name


def ended(world: World, number: int, status: str, reason: str = "") -> None:
    world.sagemaker.end(export_job(number), status, "", reason)
    job_event(world, export_job(number), status)


def row(world: World, number: int) -> Any:
    return world.store.job(RUN, export_item(number))


def test_the_final_weights_are_exported_registered_and_announced(world: World) -> None:
    life, name = exporting(world)
    assert world.sagemaker.created == [job_name(RUN, 1), export_job(1)]
    assert row(world, 1).export.uri == f"{TEAM.output_uri}/{RUN}/export/{name}"
    uri = world.put_export(name)
    ended(world, 1, "Completed")
    assert life.wake() is State.DONE
    after = ["ExportModel", "VerifyExport", "RegisterModel", "Finish", "Done"]
    assert life.path == TRAINED + after
    run = world.run()
    assert (run.status, run.export_uri) == (RunStatus.DONE, uri)
    assert run.model_package_arn == world.sagemaker.model_arn(0)
    (model,) = world.sagemaker.models
    assert model["CustomerMetadataProperties"]["everstep:step"] == "100"
    assert model["CustomerMetadataProperties"]["everstep:checkpoint"].endswith(f"{RUN}/{name}")
    assert world.active() == []
    (message,) = world.messages()
    assert uri in message
    assert run.model_package_arn in message


def test_registration_alone_is_left_out_where_it_is_not_asked_for(world: World) -> None:
    life, name = exporting(world, register=False)
    world.put_export(name)
    ended(world, 1, "Completed")
    assert life.wake() is State.DONE
    assert "RegisterModel" not in life.path
    assert world.sagemaker.models == []


def test_a_failed_export_is_tried_again_and_training_is_not(world: World) -> None:
    life, name = exporting(world)
    ended(world, 1, "Failed", "InternalServerError: We lost it.")
    world.draw = 0.0
    assert life.wake() is State.EXPORT_MODEL
    assert world.sagemaker.created == [job_name(RUN, 1), export_job(1), export_job(2)]
    assert row(world, 1).failure.failure_class is FailureClass.INFRASTRUCTURE
    assert world.launch(1).failure is None
    world.put_export(name)
    ended(world, 2, "Completed")
    assert life.wake() is State.DONE
    assert len(world.store.launches(RUN)) == 1


def test_a_wait_precedes_the_next_try(world: World) -> None:
    life, _ = exporting(world)
    before = world.now
    ended(world, 1, "Failed", "InternalServerError: We lost it.")
    assert life.wake() is State.EXPORT_MODEL
    assert "Backoff" in life.path
    assert world.now > before


def test_giving_up_on_the_export_keeps_the_training_and_a_redrive_exports_only(
    world: World,
) -> None:
    life, name = exporting(world)
    for number in (1, 2, 3):
        ended(world, number, "Failed", "InternalServerError: We lost it.")
        state = life.wake()
    assert state is State.GIVE_UP
    assert life.error == "ExportFailed"
    run = world.run()
    assert (run.status, run.final_step) == (RunStatus.GAVE_UP, 100)
    message = world.messages()[-1]
    assert "export_failed: infrastructure: " in message
    assert "tries spent: 3 of 3" in message
    assert "#export_failed" in message
    assert message.count("export of step-00000100.00001") == 3

    assert life.redrive() is State.EXPORT_MODEL
    world.put_export(name)
    ended(world, 4, "Completed")
    assert life.wake() is State.DONE
    assert world.sagemaker.created[1:] == [export_job(n) for n in (1, 2, 3, 4)]
    assert world.run().status is RunStatus.DONE


def test_tries_are_counted_anew_after_a_redrive(world: World) -> None:
    life, _ = exporting(world, max_attempts=1)
    ended(world, 1, "Failed", "InternalServerError: We lost it.")
    assert life.wake() is State.GIVE_UP
    assert life.redrive() is State.EXPORT_MODEL
    ended(world, 2, "Failed", "InternalServerError: We lost it.")
    assert life.wake() is State.GIVE_UP


def test_completed_is_not_success_here_either(world: World) -> None:
    life, _ = exporting(world)
    ended(world, 1, "Completed")
    assert life.wake() is State.EXPORT_MODEL
    assert row(world, 1).failure.failure_class is FailureClass.INCOMPLETE


def test_an_export_in_another_type_is_not_the_one_that_was_asked_for(world: World) -> None:
    life, name = exporting(world, dtype="fp32")
    world.put_export(name)
    ended(world, 1, "Completed")
    assert life.wake() is State.EXPORT_MODEL


def test_a_hopeless_failure_is_not_tried_again(world: World) -> None:
    life, _ = exporting(world)
    ended(world, 1, "Failed", "ClientError: Cannot pull the image: not found")
    assert life.wake() is State.GIVE_UP
    assert len(world.sagemaker.created) == 2


def test_waiting_for_capacity_spends_no_try(world: World) -> None:
    life, name = exporting(world)
    for number in range(1, 6):
        ended(world, number, "Failed", "CapacityError: Unable to provision requested capacity.")
        assert life.wake() is State.EXPORT_MODEL
    world.put_export(name)
    ended(world, 6, "Completed")
    assert life.wake() is State.DONE


def test_a_wait_has_a_deadline(world: World) -> None:
    life, _ = exporting(world)
    world.now += 168 * 3600
    ended(world, 1, "Failed", "CapacityError: Unable to provision requested capacity.")
    assert life.wake() is State.GIVE_UP
    assert "waited 168 h for capacity" in world.run().failure.cause


def test_a_refused_request_is_judged_too(world: World) -> None:
    life = Life(world, finish=BOTH)
    launched(life)
    world.put_checkpoint(100, final=True)
    limit = (
        "The account-level service limit 'ml.m5.2xlarge for training job usage' is 4 Instances, "
        "with current utilization of 4 Instances and a request delta of 1 Instances."
    )
    world.sagemaker.refusals = [refuse("ResourceLimitExceeded", limit)]
    end(world, 1, "Completed")
    assert life.wake() is State.EXPORT_MODEL
    assert row(world, 1).failure.failure_class is FailureClass.QUOTA
    assert world.sagemaker.created == [job_name(RUN, 1), export_job(2)]


def test_a_lost_event_is_made_up_for_by_the_watchdog(world: World) -> None:
    life, name = exporting(world)
    world.put_export(name)
    world.sagemaker.end(export_job(1), "Completed")
    world.watch()
    assert life.wake() is State.DONE


def test_a_running_export_gets_heartbeats_and_no_step_budget(world: World) -> None:
    exporting(world)
    world.sagemaker.move(export_job(1), "Training")
    world.now += 5 * 3600
    beats = len(world.machine.heartbeats)
    world.watch()
    assert len(world.machine.heartbeats) == beats + 1
    assert world.sagemaker.stops == []


def test_a_missing_heartbeat_waits_again_for_the_same_job(world: World) -> None:
    life, name = exporting(world)
    assert life.heartbeat_timeout() is State.EXPORT_MODEL
    assert world.sagemaker.created == [job_name(RUN, 1), export_job(1)]
    world.put_export(name)
    ended(world, 1, "Completed")
    assert life.wake() is State.DONE


@pytest.mark.parametrize("by_event", [True, False])
def test_stop_execution_stops_the_export_and_redrive_makes_another(
    world: World, by_event: bool
) -> None:
    life, name = exporting(world)
    life.stop()
    if by_event:
        execution_event(world, life, "ABORTED")
    else:
        world.watch()
    assert world.sagemaker.stops == [export_job(1)]
    assert row(world, 1).stop_reason is StopReason.EXECUTION_STOPPED
    assert (
        life.redrive() is State.EXPORT_MODEL
    )  # its job is not terminal: Step Functions asks again
    ended(world, 1, "Stopped")
    life.go()
    if life.answered():
        life.go()
    assert life.at is State.EXPORT_MODEL
    assert world.sagemaker.created == [job_name(RUN, 1), export_job(1), export_job(2)]
    world.put_export(name)
    ended(world, 2, "Completed")
    assert life.wake() is State.DONE


def test_a_refused_registration_gives_up_and_a_redrive_registers_only(world: World) -> None:
    life, name = exporting(world)
    world.put_export(name)
    denied = refuse("AccessDeniedException", "not authorized to perform: CreateModelPackage")
    world.sagemaker.model_refusals = [denied]
    ended(world, 1, "Completed")
    assert life.wake() is State.GIVE_UP
    assert "not registered: AccessDeniedException" in world.run().failure.cause
    assert life.redrive() is State.DONE
    assert len(world.sagemaker.models) == 1
    assert world.sagemaker.created == [job_name(RUN, 1), export_job(1)]


def test_a_continuation_of_a_trained_run_trains_nothing(world: World) -> None:
    life, name = exporting(world, max_attempts=1)
    ended(world, 1, "Failed", "InternalServerError: We lost it.")
    assert life.wake() is State.GIVE_UP
    second = Life(world, name=f"{RUN}-c01", finish=BOTH)
    assert second.go() is State.EXPORT_MODEL
    assert second.path == ["ValidateSpec", "VerifyOutcome", "ExportModel"]
    world.put_export(name)
    ended(world, 2, "Completed")
    assert second.wake() is State.DONE
    assert len(world.store.launches(RUN)) == 1


def test_more_steps_are_trained_by_a_continuation(world: World) -> None:
    life, _ = exporting(world, max_attempts=1)
    ended(world, 1, "Failed", "InternalServerError: We lost it.")
    assert life.wake() is State.GIVE_UP
    second = Life(world, name=f"{RUN}-c01", stop={"steps": 200})
    assert second.go() is State.LAUNCH_ATTEMPT


def test_a_final_checkpoint_that_is_gone_is_trained_again(world: World) -> None:
    life, name = exporting(world, max_attempts=1)
    ended(world, 1, "Failed", "InternalServerError: We lost it.")
    assert life.wake() is State.GIVE_UP
    world.put_object(f"{TEAM.checkpoint_uri}/{RUN}/{name}/x.distcp", "torn!!")
    assert life.redrive() is State.LAUNCH_ATTEMPT
    assert world.run().final_step is None


def test_a_request_is_what_sagemaker_takes(world: World) -> None:
    exporting(world)
    job = world.sagemaker.jobs[export_job(1)]  # the fake checks it against botocore's model
    assert job["ResourceConfig"] == {
        "InstanceType": "ml.m5.2xlarge",
        "InstanceCount": 1,
        "VolumeSizeInGB": 21,
    }
