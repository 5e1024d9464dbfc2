"""``everstep simulate``: months of a run in seconds, decided by the production policy."""

from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from everstep.cli.errors import SPEC_PAGE, fail
from everstep.cli.options import finite
from everstep.cli.output import emit, say
from everstep.cli.spec_file import read_json
from everstep.contracts.check import check_spec
from everstep.contracts.instances import INSTANCE_TYPES, similar_types
from everstep.contracts.problems import describe
from everstep.contracts.run_spec import RunSpec

MOST_NODES = 5000


def simulate(
    gpus: Annotated[
        int | None, typer.Option(help="GPUs of the job; the spec's own, else 1,024.")
    ] = None,
    days: Annotated[float, typer.Option(min=0.1, max=1000, help="Days to simulate.")] = 54,
    rates: Annotated[
        str,
        typer.Option(help="llama3, rsc1, rsc2, opt, usual; or failures per 1,000 node-days."),
    ] = "llama3",
    seeds: Annotated[int, typer.Option(min=1, max=100_000, help="Runs of each policy.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="The first random seed.")] = 0,
    spec: Annotated[
        Path | None, typer.Option(help="A RunSpec: its retry, watch, guard, checkpoint, compute.")
    ] = None,
    instance_type: Annotated[str, typer.Option(help="Where no spec is given.")] = "ml.p5.48xlarge",
    spot: Annotated[bool, typer.Option("--spot", help="Spot, where no spec is given.")] = False,
    spares: Annotated[str, typer.Option(help="none, warm or hot hosts beside the job.")] = "none",
    checkpoint_minutes: Annotated[
        float | None,
        typer.Option(min=0.01, callback=finite, help="Between saves; the spec's own if absent."),
    ] = None,
    burn_in: Annotated[
        bool, typer.Option("--burn-in", help="Twice the failures in the first two weeks.")
    ] = False,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="INPUT=SECONDS", help="Replace an input, e.g. stall=1."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    """Goodput of a long run: what eats the rest, and what would change it. Nothing is started."""
    # numpy and the policy take a second to import: no other command should wait for them.
    from everstep.cli.simulate_view import show
    from everstep.simulate.inputs import load_inputs, load_rates, rate_names
    from everstep.simulate.scenario import (
        MOST_FAILURES,
        Scenario,
        Spares,
        default_spec,
        interval_of,
    )
    from everstep.simulate.study import study

    if spares not in set(Spares):
        fail(f"unknown spares {spares!r}", f"one of {', '.join(Spares)}")
    try:
        known_rates = load_rates(rates)
    except KeyError:
        fail(f"unknown rates {rates!r}", f"one of {', '.join(rate_names())}, or a number")
    plan = _spec(spec, gpus, instance_type, spot)
    inputs = load_inputs()
    scenario = Scenario(
        spec=plan,
        days=days,
        rates=known_rates,
        inputs=inputs,
        interval=0.0,
        seeds=seeds,
        seed=seed,
        spares=Spares(spares),
        burn_in=burn_in,
    ).setting(**_settings(setting or [], set(inputs)))
    if scenario.failures > MOST_FAILURES:
        fail(
            f"{scenario.failures:,.0f} failures a run, one each {scenario.mtbf:.3g} s",
            f"at most {MOST_FAILURES:,}: fewer --days, --gpus, or lower --rates",
        )
    own = interval_of(plan, scenario.inputs)
    scenario = replace(
        scenario, interval=own if checkpoint_minutes is None else 60 * checkpoint_minutes
    )
    plain = None
    if spec is None:
        first = plan.compute[0]
        plain = replace(scenario, spec=default_spec(first.nodes, first.instance_type, bare=True))
        plain = plain if not spot else None
    began = perf_counter()
    found = study(scenario, plain)
    seconds = perf_counter() - began
    if as_json:
        emit(
            {
                "gpus": scenario.gpus,
                "nodes": scenario.nodes,
                "days": days,
                "seeds": seeds,
                "rates": {"name": known_rates.name, "source": known_rates.source},
                "inputs": {name: figure._asdict() for name, figure in scenario.inputs.items()},
                "seconds": round(seconds, 2),
                **asdict(found),
            }
        )
        return
    show(scenario, found, plain is not None)
    say(f"{seconds:.1f} s; `decide` of everstep.policy was called {found.decisions} times")


def _spec(path: Path | None, gpus: int | None, instance_type: str, spot: bool) -> RunSpec:
    from everstep.simulate.scenario import default_spec

    if path is None:
        if instance_type not in INSTANCE_TYPES:
            near = ", ".join(similar_types(instance_type))
            fail(f"unknown instance type {instance_type!r}", f"for example {near}")
        return default_spec(
            _nodes(1024 if gpus is None else gpus, instance_type), instance_type, spot=spot
        )
    given, problems = check_spec(read_json(path))
    if given is None:
        fail(
            describe(problems, f"run spec {path}"),
            "mend these and run the command again",
            see=SPEC_PAGE,
        )
    if gpus is None:
        return given
    targets = [x.model_copy(update={"nodes": _nodes(gpus, x.instance_type)}) for x in given.compute]
    return given.model_copy(update={"compute": targets})


def _nodes(gpus: int, instance_type: str) -> int:
    each = INSTANCE_TYPES[instance_type].processes
    nodes = -(-gpus // each)
    if not 1 <= nodes <= MOST_NODES:
        fail(
            f"{gpus} GPUs are {nodes} × {instance_type}",
            f"1 to {MOST_NODES} hosts of {each} GPUs",
        )
    return nodes


def _settings(given: list[str], known: set[str]) -> dict[str, float]:
    found = {}
    for text in given:
        name, _, value = text.partition("=")
        if name not in known:
            fail(f"unknown input {name!r}", f"one of {', '.join(sorted(known))}")
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0 <= number < 1e9:
            fail(f"--set {text}: {value!r} is no number from 0", "for example --set stall=1")
        if name.startswith("share_") and number > 1:
            fail(f"--set {text}: a share is at most 1", f"for example --set {name}=0.1")
        found[name] = number
    return found
