"""A run's own scratch file system: made before hosts are paid for, deleted by who ends the run."""

import json
from typing import Any

import pytest

from everstep.contracts.payloads import State
from everstep.contracts.records import OwnLustre, RunStatus
from everstep.policy.own_file_system import MAKING_HOURS, MOST_TRIES, PRICE, own_spend
from lambdas.watchdog.handler import WatchdogErrors
from tests.lambdas.crashes import ends_the_same_wherever_it_dies
from tests.lambdas.test_lives import Life, end, execution_event, launched
from tests.lambdas.world import TEAM, World, a_world, refuse

SUBNETS = {f"us-east-1{zone}": [f"subnet-0123456789abcdef{zone}"] for zone in "ab"}
MAKER = TEAM.model_copy(update={"lustre_group": "sg-0123456789abcdef0", "subnets": SUBNETS})
SCRATCH: dict[str, Any] = {"data": {"prefix": "stdlib", "mode": "fsx", "scratch_gib": 2400}}


def life(world: World, **spec: Any) -> Life:
    made = Life(world, **{**SCRATCH, **spec})
    made.team = MAKER
    world.env = world.env.model_copy(update={"run_file_systems": True})
    return made


class Fsx:
    """Everything becomes what it is said to become, when it has been asked for twice."""

    def __init__(self, world: World, system: str = "AVAILABLE", link: str = "AVAILABLE") -> None:
        self.world, self.becomes, self.looks = world, {"fs": system, "dra": link}, 0
        for name in ("describe_file_systems", "describe_data_repository_associations"):
            setattr(world.fsx, name, self._later(getattr(world.fsx, name)))

    def _later(self, honest: Any) -> Any:
        def look(**request: Any) -> Any:
            self.looks += 1
            if self.looks % 2 == 0:
                for found in (*self.world.fsx.systems.values(), *self.world.fsx.links.values()):
                    kind = "dra" if "AssociationId" in found else "fs"
                    found["Lifecycle"] = self.becomes[kind]
                    found["FailureDetails"] = {"Message": "no addresses left"}
            return honest(**request)

        return look


def test_it_is_made_linked_mounted_and_deleted(world: World) -> None:
    Fsx(world)
    run = life(world, compute=[{"instance_type": "ml.m5.large", "zone": "us-east-1b"}])
    assert run.go() is State.LAUNCH_ATTEMPT
    (system,) = world.fsx.systems.values()
    (link,) = world.fsx.links.values()
    tags = {tag["Key"]: tag["Value"] for tag in system["Tags"]}
    assert (system["StorageCapacity"], system["SubnetIds"]) == (2400, SUBNETS["us-east-1b"])
    assert tags["everstep:table"] == "runs"
    assert (link["FileSystemPath"], link["DataRepositoryPath"]) == (
        "/stdlib",
        f"{TEAM.data_uri}/stdlib/",
    )
    (job,) = world.sagemaker.jobs.values()
    source = job["InputDataConfig"][0]["DataSource"]["FileSystemDataSource"]
    assert source["FileSystemId"] == system["FileSystemId"]
    assert source["DirectoryPath"] == "/abcdefgh/stdlib"
    assert job["VpcConfig"]["Subnets"] == SUBNETS["us-east-1b"]
    end(world, 1, "Failed", "InternalServerError: We lost it.")
    assert run.wake() is State.LAUNCH_ATTEMPT
    assert len(world.fsx.systems) == 1, "once a run"
    world.watch()
    assert world.fsx.deleted == []
    world.put_checkpoint(100, 2, final=True)
    end(world, 2, "Completed")
    assert run.wake() is State.DONE
    assert world.fsx.deleted == [system["FileSystemId"]]


@pytest.mark.parametrize(
    ("becomes", "words", "tries"),
    [({"system": "FAILED"}, "FAILED: no addresses left", MOST_TRIES),
     ({"link": "MISCONFIGURED"}, "its link is MISCONFIGURED", 1)],
)  # fmt: skip
def test_what_cannot_be_made_is_deleted_and_said(
    world: World, becomes: dict[str, str], words: str, tries: int
) -> None:
    Fsx(world, **becomes)
    run = life(world)
    assert run.go() is State.GIVE_UP
    assert words in world.messages()[-1]
    world.watch()
    assert len(world.fsx.deleted) == tries
    assert world.sagemaker.created == []
    assert run.redrive() is State.GIVE_UP
    world.watch()
    assert len(world.fsx.systems) == len(world.fsx.deleted) == 2 * tries, "a redrive makes another"


def test_a_full_quota_is_waited_for(world: World) -> None:
    Fsx(world)
    world.fsx.refusals = [refuse("ServiceLimitExceeded")] * 3
    assert life(world).go() is State.LAUNCH_ATTEMPT


def test_a_refusal_is_not_tried_again(world: World) -> None:
    world.fsx.refusals = [refuse("BadRequest", "no such subnet")]
    assert life(world).go() is State.GIVE_UP
    assert "BadRequest: no such subnet" in world.messages()[-1]


def test_what_never_comes_is_given_up(world: World) -> None:
    began, run = world.now, life(world)
    assert run.go() is State.GIVE_UP
    assert world.now - began >= MAKING_HOURS * 3600
    assert len(world.fsx.deleted) == 1
    assert run.path.count("PrepareStorage") < 100


def test_a_stopped_executions_is_found_by_its_tags_and_deleted(world: World) -> None:
    Fsx(world)
    run = life(world)
    launched(run)
    run.stop()
    execution_event(world, run, "ABORTED")
    world.watch()
    assert world.fsx.deleted == [], "not under a job that saves"
    end(world, 1, "Stopped")
    world.watch()
    assert len(world.fsx.deleted) == 1
    own = world.run().own_lustre
    assert own is not None
    assert not own.here
    world.watch()
    assert len(world.fsx.deleted) == 1


def put(world: World, number: int, table: str, of: str | None) -> None:
    """A file system that no row names."""
    tags = {"everstep:table": table, "everstep:run": of}
    world.fsx.systems[f"other-{number}"] = {
        "FileSystemId": f"fs-other-{number}",
        "Lifecycle": "AVAILABLE",
        "Tags": [{"Key": k, "Value": v} for k, v in tags.items() if v is not None],
    }


def test_only_what_is_ours_and_no_longer_needed_is_deleted(world: World) -> None:
    Fsx(world)
    run = life(world)
    launched(run)

    put(world, 1, "another-table", "gone")
    put(world, 2, "runs", "gone")
    put(world, 3, "runs", "my-run")
    world.fsx.systems["untagged"] = {"FileSystemId": "fs-untagged", "Lifecycle": "AVAILABLE"}
    world.watch()
    assert world.fsx.deleted == ["fs-other-2", "fs-other-3"]
    world.env = world.env.model_copy(update={"run_file_systems": False})
    put(world, 4, "runs", "gone")
    world.watch()
    assert "fs-other-4" not in world.fsx.deleted


@pytest.mark.parametrize(("of", "least"), [(State.PREPARE_STORAGE, 10), (State.FINISH, 3)])
def test_dying_at_any_call_leaves_one_file_system_or_none(of: State, least: int) -> None:
    def arrived(world: World) -> tuple[State, int, int]:
        Fsx(world)
        run = life(world)
        assert run.go() is State.LAUNCH_ATTEMPT
        world.put_checkpoint(100, final=True)
        end(world, 1, "Completed")
        return run.wake(), len(world.fsx.systems), len(world.fsx.deleted)

    assert ends_the_same_wherever_it_dies(of, arrived, (State.DONE, 1, 1)) >= least


def test_it_is_paid_for_by_the_runs_budget(world: World) -> None:
    """A month of 2,400 GiB at 0.14: the hours of it that the run has had it."""
    Fsx(world)
    world.env = world.env.model_copy(update={"prices_usd": {"ml.m5.large": 0.1, PRICE: 0.14}})
    run = life(world, budget={"max_usd": 1.0}, watch={"starting": 100_000})
    launched(run)
    row = world.run()
    own = row.own_lustre
    assert own is not None
    assert own.made_epoch is not None
    month = own_spend(row, {PRICE: 0.14}, own.made_epoch + 730 * 3600)
    assert month.usd == pytest.approx(2400 * 0.14)
    ended = row.model_copy(
        update={"own_lustre": own.model_copy(update={"deleted_epoch": own.made_epoch + 3600})}
    )
    assert own_spend(ended, {PRICE: 0.14}, 1e12).usd == pytest.approx(2400 * 0.14 / 730)
    assert own_spend(row, {}, 1e12).usd is None, "unknown is not zero"
    world.now += 3 * 3600  # 0.30 USD of the instance, 1.38 USD of the file system
    world.watch()
    assert world.launch(1).stop_reason == "budget"


@pytest.mark.parametrize(
    ("team", "spec", "path"),
    [
        (TEAM, {}, "data.scratch_gib"),
        (MAKER, {"data": {**SCRATCH["data"], "scratch_gib": 3000}}, "2400 or 4800"),
        (MAKER, {"data": {**SCRATCH["data"], "mode": "s3"}}, "data.scratch_gib"),
        (MAKER, {"data": {**SCRATCH["data"], "preload": True}}, "data.preload"),
        (MAKER, {"checkpoint": {"storage": "fsx"}}, "checkpoints must not be"),
        (
            MAKER,
            {"compute": [{"instance_type": "ml.m5.large", "zone": f"us-east-1{z}"} for z in "ab"]},
            "lies in one zone",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(
    world: World, team: Any, spec: dict[str, Any], path: str
) -> None:
    run = life(world, **spec)
    run.team = team
    assert run.go() is State.REFUSE_SPEC
    assert path in run.payload["message"]
    assert world.fsx.systems == {}


def test_it_is_written_down_before_it_is_made() -> None:
    """Else a death in between makes one that nobody knows, with another token."""
    with a_world() as world:
        run = life(world)
        world.fsx.refusals = [refuse("ThrottlingException")] * 99
        run.go()
        row = world.run()
        assert row.own_lustre == OwnLustre(since_epoch=row.own_lustre.since_epoch)  # type: ignore[union-attr]
        assert row.status is RunStatus.RUNNING


class _Stopped(BaseException):
    """Someone presses *Stop execution* between two states."""


def stopped_while_it_is_made(world: World) -> Life:
    """And its file system is deleted by the watchdog."""
    Fsx(world)
    run, honest = life(world), world.act

    def act(state: State, payload: dict[str, Any], services: Any = None) -> Any:
        if world.fsx.systems:
            raise _Stopped
        return honest(state, payload)

    world.act = act  # type: ignore[method-assign]
    with pytest.raises(_Stopped):
        run.go()
    world.act = honest  # type: ignore[method-assign]
    run.stop()
    execution_event(world, run, "ABORTED")
    world.watch()
    assert len(world.fsx.systems) == len(world.fsx.deleted) == 1
    return run


def test_a_redrive_makes_another_which_the_watchdog_leaves_alone(world: World) -> None:
    """The row says stopped until PlanAttempt: it is the execution that counts."""
    run = stopped_while_it_is_made(world)
    honest = world.act

    def act(state: State, payload: dict[str, Any], services: Any = None) -> Any:
        world.watch()
        return honest(state, payload)

    world.act = act  # type: ignore[method-assign]
    assert run.redrive() is State.LAUNCH_ATTEMPT
    assert len(world.fsx.systems) == 2
    assert len(world.fsx.deleted) == 1


def test_another_execution_of_another_spec_makes_its_own(world: World) -> None:
    Fsx(world)
    first = life(world)
    launched(first)
    first.stop()
    (old,) = world.fsx.systems.values()
    data = {**SCRATCH["data"], "scratch_gib": 4800}
    second = Life(world, "my-run-c02", **{**SCRATCH, "data": data})
    second.team = MAKER
    assert second.go() is State.LAUNCH_ATTEMPT
    world.watch()
    assert world.fsx.deleted == [], "the first job saves on it"
    end(world, 1, "Stopped")
    assert second.go() is State.LAUNCH_ATTEMPT
    world.watch()
    assert world.fsx.deleted == [old["FileSystemId"]], "under the second job: it never mounted it"
    assert [x["StorageCapacity"] for x in world.fsx._here()] == [4800]
    own = world.run().own_lustre
    assert own is not None
    assert own.earlier_gib_hours > 0, "what the first one cost is not forgotten"


def test_a_launch_that_was_planned_in_the_dark_is_waited_for(world: World) -> None:
    """PlanAttempt of an execution that was just stopped writes its row after the next one's."""
    Fsx(world)
    first = life(world)
    launched(first)
    first.stop()
    second = Life(world, "my-run-c02", **first.spec)
    second.team = MAKER
    assert second.go() is State.LAUNCH_ATTEMPT
    world.store.update(world.launch(1), planned_epoch=world.now + 60)
    world.watch()
    assert world.fsx.deleted == []
    end(world, 1, "Stopped")
    world.watch()
    assert len(world.fsx.deleted) == 1


def test_a_run_that_moves_keeps_it(world: World) -> None:
    """Dead in ContinueAsNew, its successor started: the row names the execution that ended."""
    Fsx(world)
    run = life(world)
    launched(run)
    end(world, 1, "Failed", "InternalServerError: We lost it.")
    successor = f"{run.arn}-c02"
    world.machine.executions[successor] = "RUNNING"
    world.store.update(world.run(), successor=successor)
    world.machine.executions[run.arn] = "FAILED"
    world.watch()
    assert world.fsx.deleted == []
    world.machine.executions[successor] = "ABORTED"
    world.watch()
    assert len(world.fsx.deleted) == 1


def test_one_that_cannot_be_deleted_now_ends_no_run_and_is_deleted_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FSx refuses while a data repository task is at work on it."""
    Fsx(world)
    said = list[dict[str, str]]()
    monkeypatch.setattr("lambdas.aws.own_lustre.logger.warning", said.append)
    run, honest = life(world), world.fsx.delete_file_system
    launched(run)

    def refused(**request: Any) -> None:
        raise refuse("BadRequest", "a data repository task is EXECUTING")

    world.fsx.delete_file_system = refused  # type: ignore[method-assign]
    world.put_checkpoint(100, final=True)
    end(world, 1, "Completed")
    assert run.wake() is State.DONE
    own = world.run().own_lustre
    assert own is not None
    assert own.here, "it is paid for"
    assert said == [{
        "file system": own.file_system_id,
        "not deleted": "a data repository task is EXECUTING",
    }]  # fmt: skip
    world.watch()
    world.now += 3500
    world.watch()
    world.now += 200
    with pytest.raises(WatchdogErrors, match="my-run is paid for still: a data repository task"):
        world.watch()
    world.fsx.delete_file_system = honest  # type: ignore[method-assign]
    world.watch()
    assert len(world.fsx.deleted) == 1


def test_one_that_is_wrong_hides_no_other(world: World) -> None:
    """One without its run's tag is a person's doing, and not deleted; nor may one be by us."""
    honest = world.fsx.delete_file_system
    life(world)
    put(world, 1, "runs", None)
    put(world, 2, "runs", "ours-no-more")
    put(world, 3, "runs", "gone")

    def denied(FileSystemId: str) -> None:
        if FileSystemId == "fs-other-2":
            raise refuse("AccessDeniedException")
        honest(FileSystemId)

    world.fsx.delete_file_system = denied  # type: ignore[method-assign]
    with pytest.raises(WatchdogErrors, match=r"fs-other-1 has .*AccessDeniedException"):
        world.watch()
    assert world.fsx.deleted == ["fs-other-3"]


def test_the_first_try_is_asked_for_by_the_name_that_it_always_had(world: World) -> None:
    """A redeploy between FSx's answer and the row asks again: the same, not a second one."""
    Fsx(world, system="FAILED")
    life(world).go()
    began = int(world.run().own_lustre.since_epoch)  # type: ignore[union-attr]
    wanted = [f"my-run-fs-{began}", *(f"my-run-fs-{began}-{n}" for n in range(2, MOST_TRIES + 1))]
    assert list(world.fsx.systems) == wanted


def test_what_it_cost_is_in_every_message_and_a_budget_needs_its_price(world: World) -> None:
    Fsx(world)
    world.env = world.env.model_copy(update={"prices_usd": {"ml.m5.large": 0.0}})
    refused = life(world, budget={"max_usd": 1.0})
    assert refused.go() is State.REFUSE_SPEC
    assert f"no price is configured for {PRICE}" in refused.payload["message"]
    world.env = world.env.model_copy(update={"prices_usd": {"ml.m5.large": 0.0, PRICE: 0.14}})
    run = life(world)
    launched(run)
    world.now += 730 * 3600
    world.put_checkpoint(100, final=True)
    end(world, 1, "Completed")
    assert run.wake() is State.DONE
    said = json.loads(world.messages()[-1].splitlines()[-1])
    assert said["usd"] == pytest.approx(2400 * 0.14, rel=0.01)
