"""A quota that is short: asked for once, followed, and what comes of it; and the daily report."""

import pytest

from everstep.contracts.failures import Action
from everstep.contracts.payloads import State
from everstep.contracts.records import RunStatus
from everstep.policy.quota import LONGEST_RUN
from lambdas.aws import quotas
from lambdas.quota_report.handler import act as quota_report
from tests.lambdas.test_lives import Life
from tests.lambdas.world import World, refuse

USAGE = "ml.m5.large for training job usage"
BIG = [{"instance_type": "ml.m5.large", "nodes": 8}]
ASK = {"request_increase": True}


def asks(world: World, **spec: object) -> Life:
    life = Life(world, **{"compute": BIG, "quota": ASK, **spec})
    assert life.go() is State.WAIT_FOR_ROOM
    return life


def later(world: World, seconds: float = 301) -> None:
    world.now += seconds
    world.watch()


def test_without_the_option_nothing_is_asked_for(world: World) -> None:
    life = Life(world, compute=BIG)
    assert life.go() is State.GIVE_UP
    assert world.quotas.requests == []
    assert "quota.request_increase" in world.messages()[-1]


def test_one_request_is_made_and_its_approval_wakes_the_run(world: World) -> None:
    life = asks(world)
    (request,) = world.quotas.requests
    assert (request["QuotaName"], request["DesiredValue"]) == (USAGE, 8)
    assert "waits for the increase of quota" in world.messages()[-1]
    later(world)
    assert world.machine.answers == {}
    assert ("quota#" + request["QuotaCode"], "increase") in world.active()
    world.quotas.approve()
    later(world)
    assert life.wake() is State.LAUNCH_ATTEMPT
    assert len(world.quotas.requests) == 1
    assert world.launch().instance_type == "ml.m5.large"
    assert [kind for kind in world.active() if kind[1] == "increase"] == []


def test_two_runs_that_need_it_make_one_request(world: World) -> None:
    asks(world)
    second = Life(world, name="other", compute=BIG)  # did not opt in: it may wait with the first
    assert second.go() is State.WAIT_FOR_ROOM
    assert len(world.quotas.requests) == 1
    world.quotas.approve()
    later(world)
    assert second.wake() is State.LAUNCH_ATTEMPT


def test_an_approval_counts_once_the_value_is_in_force(world: World) -> None:
    life = asks(world)
    world.quotas.requests[0]["Status"] = "APPROVED"
    for _ in range(20):
        later(world)
    assert world.machine.answers == {}
    world.quotas.approve()
    later(world)
    assert life.wake() is State.LAUNCH_ATTEMPT


@pytest.mark.parametrize("status", ["DENIED", "CASE_CLOSED", "NOT_APPROVED", "INVALID_REQUEST"])
def test_a_denial_ends_the_run_in_words_and_is_remembered(world: World, status: str) -> None:
    life = asks(world)
    world.quotas.requests[0] |= {"Status": status, "CaseId": "c7"}
    later(world)
    assert life.wake() is State.GIVE_UP
    assert f"request request-1, support case c7) ended: {status}" in world.messages()[-1]
    assert world.run().status is RunStatus.GAVE_UP
    again = Life(world, name="other", compute=BIG, quota=ASK)
    assert again.go() is State.GIVE_UP
    assert len(world.quotas.requests) == 1
    more = Life(world, name="more", compute=[{**BIG[0], "nodes": 16}], quota=ASK)
    assert more.go() is State.WAIT_FOR_ROOM  # a greater need is another question
    assert len(world.quotas.requests) == 2


def test_a_greater_need_asks_when_the_smaller_one_is_through(world: World) -> None:
    asks(world)
    more = Life(world, name="more", compute=[{**BIG[0], "nodes": 16}], quota=ASK)
    assert more.go() is State.WAIT_FOR_ROOM
    assert len(world.quotas.requests) == 1
    world.quotas.approve()
    later(world)
    assert more.wake() is State.WAIT_FOR_ROOM
    assert [r["DesiredValue"] for r in world.quotas.requests] == [8, 16]


def test_a_request_that_a_person_made_is_found_and_followed(world: World) -> None:
    world.quotas.request_service_quota_increase("sagemaker", world.quotas.code(USAGE), 9)
    life = asks(world)
    assert len(world.quotas.requests) == 1
    assert "to 9 (request request-1)" in world.run().waiting.reason
    world.quotas.approve()
    later(world)
    assert life.wake() is State.LAUNCH_ATTEMPT


@pytest.mark.parametrize("code", ["AccessDeniedException", "QuotaExceededException"])
def test_a_request_that_is_not_taken_ends_the_run_in_words(world: World, code: str) -> None:
    world.quotas.refusal = refuse(code, "you may not")
    life = Life(world, compute=BIG, quota=ASK)
    assert life.go() is State.GIVE_UP
    assert f"no increase, {code}: you may not" in world.messages()[-1]


def test_a_quota_that_aws_does_not_adjust_is_refused_and_nothing_is_asked_for(
    world: World,
) -> None:
    world.quotas.fixed = {LONGEST_RUN}
    life = Life(world, compute=BIG, quota=ASK, stop={"steps": 1, "max_runtime_hours": 672})
    assert life.go() is State.GIVE_UP
    assert "AWS does not adjust this quota" in world.messages()[-1]
    assert world.quotas.requests == []


def test_the_next_choice_is_asked_for_where_the_first_cannot_be(world: World) -> None:
    world.quotas.fixed = {USAGE}
    asks(world, compute=[*BIG, {"instance_type": "ml.m5.xlarge", "nodes": 8}])
    (request,) = world.quotas.requests
    assert request["QuotaName"] == "ml.m5.xlarge for training job usage"


def test_never_is_said_only_after_a_fresh_look(world: World) -> None:
    services = world.services()
    services.quotas.held()
    world.quotas.values[USAGE] = 8.0  # approved since
    life = Life(world, compute=BIG)
    assert life.go() is State.LAUNCH_ATTEMPT


@pytest.mark.parametrize("opted_in", [True, False])
def test_a_launch_refused_for_good_asks_as_check_quota_does(world: World, opted_in: bool) -> None:
    """The quotas that were read still said that there was room."""
    said = (
        f"The account-level service limit '{USAGE}' is 0 Instances, with current utilization of 0 "
        "Instances and a request delta of 1 Instances. Please use AWS Service Quotas."
    )
    world.sagemaker.refusals = [refuse("ResourceLimitExceeded", said)]
    life = Life(world, quota={"request_increase": opted_in})
    at = life.go()
    world.quotas.values[USAGE] = 0.0
    assert world.launch().failure.action is Action.DO_NOT_RETRY
    if not opted_in:
        assert at is State.GIVE_UP
        assert world.quotas.requests == []
        return
    assert at is State.WAIT_FOR_ROOM
    world.services().quotas.forget()  # by age, on a real clock
    later(world, 3600)
    assert life.wake() is State.WAIT_FOR_ROOM
    assert "waits for the increase of quota" in world.messages()[-1]
    assert [r["DesiredValue"] for r in world.quotas.requests] == [1]
    world.quotas.approve()
    later(world)
    assert life.wake() is State.LAUNCH_ATTEMPT
    assert world.launch(2).failure is None


def test_a_request_is_looked_at_each_five_periods_and_not_more(world: World) -> None:
    asks(world)
    for _ in range(10):
        later(world, 60)
    assert world.quotas.looks == 2


def test_a_warm_pool_counts_but_for_the_runs_own(world: World) -> None:
    pool = {"InstanceType": "ml.m5.large", "InstanceCount": 3, "KeepAlivePeriodInSeconds": 600}
    for name, run in (("a", "my-run"), ("b", "other")):
        world.sagemaker.put(name, tags=[{"Key": "everstep:run", "Value": run}], ResourceConfig=pool)
        world.sagemaker.end(name, "Completed")
        world.sagemaker.jobs[name]["WarmPoolStatus"] = {"Status": "Available"}
    world.sagemaker.put("c", tags=[], ResourceConfig={**pool, "InstanceCount": 1})
    found = world.services().quotas
    assert found.in_use("my-run")[USAGE] == 4
    assert found.in_use()[USAGE] == 7
    assert found.in_use()["ml.m5.large for training warm pool usage"] == 7


# --- the report --------------------------------------------------------------------------------


def test_the_report_is_silent_when_nothing_is_short_unless_asked(world: World) -> None:
    Life(world).go()
    assert quota_report(world.services()).short == 0
    assert world.messages() == []
    quota_report(world.services(), always=True)
    assert "Nothing is short." in world.messages()[-1]


def test_the_report_names_what_is_short_and_what_was_asked_for(world: World) -> None:
    asks(world)
    found = quota_report(world.services())
    assert (found.short, found.requests) == (1, 1)
    text = world.messages()[-1]
    assert "1 run in progress, 1 of them waiting." in text
    assert f"Never fits {USAGE!r} = 4: one job needs 8 (my-run)." in text
    assert "Asked for by my-run: increase of quota" in text


def test_the_report_reads_todays_quotas(world: World) -> None:
    world.services().quotas.held()
    before = world.quotas.lists
    quota_report(world.services())
    assert world.quotas.lists == before + 1
    assert quotas._cache
