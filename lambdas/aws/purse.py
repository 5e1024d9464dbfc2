"""A run's budget: what it leaves for a launch, and the watchdog's look at what one costs."""

from typing import Any

from everstep.contracts.failures import Action, Failure, FailureClass, StopReason
from everstep.contracts.records import Launch, Run
from everstep.contracts.run_spec import Target
from everstep.policy.cost import Spend, over, seconds_left, spend_now, warning
from everstep.policy.figures import of_run
from everstep.policy.goodput import so_far
from everstep.policy.job_request import runtime_seconds
from everstep.policy.own_file_system import own_spend, spend_an_hour, spend_of_run
from everstep.policy.rule import DEFAULTS
from everstep.policy.watchdog import Verdict
from lambdas.aws.services import Services


def allowance(
    run: Run, launches: list[Launch], target: Target, services: Services
) -> dict[str, Any] | Failure:
    """The next launch's fields about money and time; a failure where nothing is left."""
    prices, now = services.env.prices_usd, services.clock()
    spend = spend_of_run(run, launches, prices, now)
    left = seconds_left(run.spec.budget, spend, spend_an_hour(run.spec, target, prices), now)
    if left is not None and left < 1:
        reached = over(run.spec.budget, spend, now, run.created_epoch)
        return Failure(
            failure_class=FailureClass.BUDGET,
            action=Action.DO_NOT_RETRY,
            cause=reached or f"the budget leaves {left:.1f} s of the next job",
            rule="plan-attempt",
            hint=DEFAULTS[FailureClass.BUDGET][1],
        )
    whole = runtime_seconds(run.spec)
    bound = left is not None and left < whole
    return {
        "max_runtime_seconds": int(left) if left is not None and bound else whole,
        "budget_bound": bound,
        "spent_gpu_hours": spend.gpu_hours,
        "spent_usd": spend.usd,
    }


def watch_budget(run: Run, launch: Launch, services: Services) -> Verdict | None:
    """Never a silent overrun: emit what is spent, stop at the limit, say once when it is near."""
    budget, now = run.spec.budget, services.clock()
    prices = services.env.prices_usd
    own = own_spend(run, prices, now, since=launch.planned_epoch)
    spend = spend_now(launch, prices, now).plus(own)
    goodput = so_far(launch, run.spec.start.step, spend)
    services.figures.of_run(run, of_run(run, spend, goodput, now))
    reached = over(budget, spend, now, run.created_epoch)
    if reached is not None:
        return Verdict(stop=StopReason.BUDGET, detail=f"{reached} (budget)")
    near = warning(budget, spend, now, run.created_epoch)
    if near is not None and run.budget_warned is None:
        services.notifier.send(run, "budget", f"nears its budget: {near}", None)
        services.store.update(run, budget_warned=True)
    return None


def emit_whole(
    run: Run, spend: Spend, goodput: float | None, ended: float, services: Services
) -> None:
    """Of a run that is over."""
    services.figures.of_run(run, of_run(run, spend, goodput, ended))
