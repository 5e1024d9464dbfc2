"""Where the next launch goes: the first of the spec's places that quotas and plans hold now."""

import math
from typing import NamedTuple

from everstep.contracts.failures import Action, Failure, FailureClass
from everstep.contracts.records import Run
from everstep.contracts.run_spec import Target
from everstep.policy.file_system import subnet_of
from everstep.policy.quota import Room, judge, needs_of
from everstep.policy.training_plan import Standing, standing
from lambdas.aws.room import seconds_left
from lambdas.aws.services import Services


class Place(NamedTuple):
    """``plan``: what the training plan leaves, where the target is one."""

    target: int
    subnet: str | None
    plan: Standing | None = None


class NotYet(NamedTuple):
    """Every plan of the spec lies ahead: wait, and spend no attempt."""

    reason: str
    wait_seconds: int
    hold_seconds: int


def choose_place(run: Run, wish: int, services: Services) -> Place | NotYet | Failure:
    """The wished target or the next of the list that has room. Where none has, a target that needs
    no plan is tried all the same: CreateTrainingJob has the last word."""
    targets = run.spec.compute
    zones = run.team.subnets if run.adopted is None else {}  # an adopted job brings its own subnets
    order = [(wish + i) % len(targets) for i in range(len(targets))]
    plans: dict[int, Standing] = {}
    for index in order:
        target = targets[index]
        if target.training_plan_arn:
            plan = services.plans.describe(target.training_plan_arn)
            plans[index] = standing(plan, target, zones, services.clock())
            if plans[index].room is not Room.GO:
                continue
        if len(targets) == 1 or _holds(run, target, services):
            return _place(run, index, plans.get(index))
    tried = next((index for index in order if plans.get(index, _NO_PLAN).room is Room.GO), None)
    if tried is not None:
        return _place(run, tried, plans.get(tried))
    return _none(run, list(plans.values()), services)


_NO_PLAN = Standing(Room.GO, "")


def _holds(run: Run, target: Target, services: Services) -> bool:
    values, used = services.quotas.values(), services.quotas.in_use(run.run_id)
    return judge(needs_of(run.spec, target), values, used).room is Room.GO


def _place(run: Run, index: int, plan: Standing | None) -> Place:
    """In the plan's zone; another place's is the spec's."""
    zone = plan.zone if plan is not None else run.spec.target(index).zone
    return Place(index, subnet_of(run, zone), plan)


def _none(run: Run, plans: list[Standing], services: Services) -> NotYet | Failure:
    now = services.clock()
    ahead = min((x for x in plans if x.room is Room.WAIT), key=lambda x: x.until, default=None)
    if ahead is None:
        return _failure("; ".join(x.words for x in plans), "buy another (everstep capacity)")
    left, hold = seconds_left(run, now), math.ceil(ahead.until - now)
    if hold > left:
        waits = f"retry.wait_deadline_hours and the budget's deadline leave {left / 3600:.1f} h"
        return _failure(f"{ahead.words}, and {waits} to wait", "raise them")
    return NotYet(ahead.words, left, max(1, hold))


def _failure(cause: str, hint: str) -> Failure:
    return Failure(
        failure_class=FailureClass.CAPACITY,
        action=Action.DO_NOT_RETRY,
        cause=cause,
        rule="plan-attempt",
        hint=f"{hint}, or add another place to compute; everstep retry RUN --set PATH=VALUE",
    )
