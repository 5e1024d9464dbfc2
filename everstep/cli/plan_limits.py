"""How far a spec's budget goes on one of its places, by the arithmetic that ends the run."""

from collections.abc import Iterator, Mapping

from everstep.cli.plan_figures import Figure, Figures, usd
from everstep.contracts.run_spec import Budget, RunSpec
from everstep.policy.cost import Spend, seconds_left
from everstep.policy.own_file_system import PRICE, spend_an_hour
from everstep.policy.prices import LUSTRE_SCRATCH, PRICES
from everstep.policy.verdict import budget_problems
from everstep.report.words import seconds


def limits(
    spec: RunSpec, number: int, foretold: Figures, prices_usd: Mapping[str, float], now: float
) -> Figures:
    """One figure a limit. ``prices_usd``: config's, without which a budget in USD is refused."""
    wall = foretold.get("duration_seconds")
    listed = {name: price.on_demand for name, price in PRICES.items()}
    listed = {PRICE: LUSTRE_SCRATCH, **listed, **prices_usd}
    hour = spend_an_hour(spec, spec.compute[number], listed)
    refused = {problem.path: problem.message for problem in budget_problems(spec, prices_usd, now)}
    found = {}
    for name, words, budget in _each(spec.budget):
        left = seconds_left(budget, Spend(usd=0.0), hour, now)
        text = words if left is None else f"{words}: {seconds(max(0.0, left))} of these hosts"
        if left is not None and wall is not None and left < wall.value:
            text += f"; it ends the run before its last step, which takes {wall.text}"
        (field,) = budget.model_fields_set
        if said := refused.get(f"budget.{field}"):
            text += f"; refused: {said}"
        source = "policy/cost.py: hosts' hours from the run's start"
        if name == "budget_usd":
            source += " at the on-demand price, also of spot and plans, which cost less"
            source += ", and its own file system's" if spec.data.scratch_gib else ""
        found[name] = Figure({"limit": words, "seconds": left}, text, source)
    return found


def _each(budget: Budget) -> Iterator[tuple[str, str, Budget]]:
    """Each limit alone."""
    if budget.max_usd is not None:
        yield "budget_usd", f"{usd(budget.max_usd)} USD", Budget(max_usd=budget.max_usd)
    if budget.max_gpu_hours is not None:
        words = f"{budget.max_gpu_hours:,g} GPU hours"
        yield "budget_gpu_hours", words, Budget(max_gpu_hours=budget.max_gpu_hours)
    if budget.deadline is not None:
        yield "budget_deadline", budget.deadline.isoformat(), Budget(deadline=budget.deadline)
