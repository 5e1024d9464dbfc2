"""Quotas by name: enough, not now, never."""

from typing import Any

from everstep.contracts.run_spec import RunSpec
from everstep.policy.quota import (
    LONGEST_RUN,
    PER_JOB,
    TOTAL,
    JobInUse,
    Need,
    Room,
    best,
    judge,
    needs_of,
    usage,
)

P5 = "ml.p5.48xlarge"
USAGE = f"{P5} for training job usage"
PLENTY = {
    LONGEST_RUN: 432_000.0,
    PER_JOB: 20.0,
    TOTAL["on_demand"]: 20.0,
    USAGE: 8.0,
    f"{P5} for spot training job usage": 2.0,
    TOTAL["spot"]: 20.0,
}


def verdict(
    quotas: dict[str, float] = PLENTY,
    used: dict[str, float] | None = None,
    hours: float = 120,
    **target: Any,
) -> tuple[Room, str]:
    spec = RunSpec.model_validate(
        {
            "model": "tiny",
            "data": "d",
            "stop": {"steps": 1, "max_runtime_hours": hours},
            "compute": [{"instance_type": P5, "nodes": 4, **target}],
        }
    )
    found = judge(needs_of(spec, spec.compute[0]), quotas, used or {})
    return found.room, found.reason


def test_enough_is_go() -> None:
    assert verdict() == (Room.GO, "")
    assert verdict(used={USAGE: 4, TOTAL["on_demand"]: 16})[0] is Room.GO


def test_what_others_use_is_a_wait_with_the_arithmetic() -> None:
    room, reason = verdict(used={USAGE: 5})
    assert room is Room.WAIT
    assert reason == f"needs 4 of quota {USAGE!r}: 5 of 8 are in use"


def test_more_than_the_quota_can_never_be() -> None:
    room, reason = verdict(nodes=9)
    assert (room, reason) == (Room.NEVER, f"needs 9 of quota {USAGE!r}, which is 8")


def test_never_outranks_wait() -> None:
    assert verdict(nodes=9, used={TOTAL["on_demand"]: 20})[0] is Room.NEVER


def test_the_total_over_all_jobs_counts_too() -> None:
    assert verdict(used={TOTAL["on_demand"]: 17})[0] is Room.WAIT


def test_the_longest_run_time_is_a_limit_that_no_one_uses_up() -> None:
    assert verdict(hours=121)[0] is Room.NEVER
    assert verdict(used={LONGEST_RUN: 1e9, PER_JOB: 1e9})[0] is Room.GO


def test_spot_has_quotas_of_its_own() -> None:
    assert verdict(purchase="spot")[0] is Room.NEVER
    assert verdict(purchase="spot", nodes=2, used={USAGE: 8, TOTAL["on_demand"]: 20})[0] is Room.GO


ARN = "arn:aws:sagemaker:us-east-1:111122223333:training-plan/x"


def test_a_training_plan_shares_no_quota_with_others_but_must_fit_the_types_own() -> None:
    full = {USAGE: 8, TOTAL["on_demand"]: 20}
    plan = {"purchase": "training_plan", "training_plan_arn": ARN}
    assert verdict(used=full, **plan)[0] is Room.GO
    room, reason = verdict(nodes=16, **plan)
    assert room is Room.NEVER
    assert reason == f"needs 16 of quota {USAGE!r}, which is 8"


GROUPS = [
    {"name": "spare", "instance_type": P5, "count": 2},
    {"name": "data", "instance_type": "ml.c5.18xlarge", "count": 3},
]


def test_each_group_counts_in_its_types_quota_and_all_in_the_jobs() -> None:
    c5 = "ml.c5.18xlarge for training job usage"
    assert verdict({**PLENTY, c5: 3}, groups=GROUPS)[0] is Room.GO
    assert verdict({**PLENTY, c5: 2}, groups=GROUPS)[1] == f"needs 3 of quota {c5!r}, which is 2"
    assert verdict({**PLENTY, USAGE: 5}, groups=GROUPS)[1].startswith(f"needs 6 of quota {USAGE!r}")
    assert verdict({**PLENTY, PER_JOB: 8}, groups=GROUPS)[1].startswith("needs 9 of quota")
    assert verdict({**PLENTY, TOTAL["on_demand"]: 8}, groups=GROUPS)[0] is Room.NEVER


def test_a_warm_pool_needs_its_own_quota() -> None:
    pool = f"{P5} for training warm pool usage"
    assert verdict({**PLENTY, pool: 0.0}, warm_pool_seconds=60)[0] is Room.NEVER


def test_a_quota_that_no_list_names_is_not_held_against_a_run() -> None:
    assert verdict({})[0] is Room.GO


def test_use_is_counted_by_type_and_purchase() -> None:
    jobs = [JobInUse(P5, 4), JobInUse(P5, 2, keeps_alive=True), JobInUse(P5, 1, spot=True)]
    assert usage(jobs) == {
        USAGE: 6,
        TOTAL["on_demand"]: 6,
        f"{P5} for training warm pool usage": 2,
        f"{P5} for spot training job usage": 1,
        TOTAL["spot"]: 1,
    }


def test_one_target_with_room_is_enough_and_a_wait_beats_a_never() -> None:
    go, wait, never = (
        judge(needs, {"q": 4.0}, {"q": 2.0}) for needs in ([], [_need(3)], [_need(5)])
    )
    assert [x.room for x in (go, wait, never)] == [Room.GO, Room.WAIT, Room.NEVER]
    assert best([never, wait, go]).room is Room.GO
    assert best([never, wait]).room is Room.WAIT
    assert best([never, never]).reason == f"{never.reason}; {never.reason}"


def _need(amount: float) -> Any:
    return Need("q", amount, shared=True)
