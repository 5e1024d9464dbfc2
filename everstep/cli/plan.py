"""``everstep plan``: what a run will do to its machines, or what the stacks cost, beforehand."""

from pathlib import Path
from time import time
from typing import Annotated, Any

import typer
from botocore.exceptions import BotoCoreError, ClientError

from everstep.cli import stack_cost
from everstep.cli.errors import SPEC_PAGE, fail
from everstep.cli.options import Env, Json, cloud_of
from everstep.cli.output import emit
from everstep.cli.plan_figures import Asked, Figures, figures
from everstep.cli.plan_limits import limits
from everstep.cli.plan_view import show_plan
from everstep.cli.prices import named_env, prices
from everstep.cli.spec_file import read_json
from everstep.contracts.check import resolve_model
from everstep.contracts.instances import INSTANCE_TYPES
from everstep.contracts.mesh import mesh_of, sharded
from everstep.contracts.problems import describe
from everstep.contracts.run_spec import RunSpec
from everstep.policy.forecast import MFU
from everstep.policy.memory import fitting, memory_of, usable
from everstep.policy.verdict import verdict
from lambdas.aws.quotas import Quotas


def plan(
    spec: Annotated[Path | None, typer.Argument(help="RunSpec as JSON.")] = None,
    stack: Annotated[
        bool, typer.Option("--stack", help="Instead: what the stacks cost while nothing runs.")
    ] = False,
    mfu: Annotated[
        float | None,
        typer.Option(min=0.01, max=1, help=f"Model FLOPs utilisation; {MFU:g} if absent."),
    ] = None,
    tokens_per_s: Annotated[
        float | None,
        typer.Option(
            min=1e-3,
            max=1e15,
            help="Measured rate of all GPUs, instead of --mfu.",
        ),
    ] = None,
    rates: Annotated[
        str, typer.Option(help="How often hosts fail, as in everstep simulate.")
    ] = "usual",
    quotas: Annotated[
        bool, typer.Option("--quotas/--no-quotas", help="Ask Service Quotas what is held.")
    ] = True,
    explain: Annotated[
        bool, typer.Option("--explain", help="Under each figure, where it comes from.")
    ] = False,
    env: Env = None,
    as_json: Json = False,
) -> None:
    """What a run will take, before a dollar is spent: memory, pace, price, failures, quotas."""
    if stack and spec is not None:
        fail("both a spec and --stack were given", "plan one of them")
    if stack:
        stack_cost.show(env, as_json)
        return
    if spec is None:
        fail("say what to plan", "everstep plan SPEC, or everstep plan --stack")
    if mfu is not None and tokens_per_s is not None:
        fail("both --mfu and --tokens-per-s were given", "the rate says it all: leave out --mfu")
    name = named_env(env)
    checked = _checked(spec)
    held, why = _held(env) if quotas else (None, "--no-quotas")
    asked = Asked(mfu, tokens_per_s, _known(rates), held, why, prices(name))
    places = [_place(checked, number) for number in range(len(checked.compute))]
    foretold = [_foretold(checked, number, asked) for number in range(len(checked.compute))]
    parameters = resolve_model(checked.model).parameters()
    if as_json:
        for place, found in zip(places, foretold, strict=True):
            place["figures"] = {
                name: {"value": x.value, "text": x.text, "source": x.source}
                for name, x in found.items()
            }
        emit({"parameters": parameters, "compute": places})
        return
    show_plan(parameters, places, foretold, explain)


def _foretold(spec: RunSpec, number: int, asked: Asked) -> Figures:
    found = figures(spec, number, asked)
    return found | limits(spec, number, found, asked.prices_usd, time())


def _known(rates: str) -> str:
    from everstep.simulate.inputs import load_rates, rate_names

    try:
        load_rates(rates)
    except KeyError:
        fail(f"unknown rates {rates!r}", f"one of {', '.join(rate_names())}, or a number")
    return rates


def _held(env: str | None) -> tuple[dict[str, float] | None, str]:
    """Quotas by name; None, and why, where nobody can be asked."""
    cloud = cloud_of(env)
    if not cloud.can_ask:
        return None, "no credentials here"
    try:
        service = Quotas(cloud.client("service-quotas"), cloud.client("sagemaker"))
        return service.values(), ""
    except (ClientError, BotoCoreError) as error:
        return None, f"AWS said: {error}"


def _place(spec: RunSpec, number: int) -> dict[str, Any]:
    target = spec.compute[number]
    kind = INSTANCE_TYPES[target.instance_type]
    mesh = mesh_of(spec.parallelism, target.nodes * kind.processes)
    assert mesh is not None  # check_spec refuses the rest
    laid = sharded(mesh, spec.parallelism, kind.processes)
    memory = memory_of(spec, number)
    place: dict[str, Any] = {
        "where": f"{target.nodes} × {target.instance_type}",
        "ranks": target.nodes * kind.processes,
        "sharding": spec.parallelism.sharding.value,
        "mesh": laid._asdict(),
        "micro_batches": spec.train.global_batch // (laid.data_ranks * spec.train.micro_batch),
        "tokens_per_step": spec.train.global_batch * spec.train.sequence_length,
        "memory_bytes": None if memory is None else memory.as_dict(),
        "gpu_bytes": usable(kind.gpu_gb),
        "fits": None if memory is None else memory.total <= usable(kind.gpu_gb),
        "would_fit": None,
    }
    if place["fits"] is False:
        place["would_fit"] = fitting(spec, number)
    return place


def _checked(path: Path) -> RunSpec:
    spec, problems = verdict(read_json(path))
    if spec is None or problems:
        fail(
            describe(problems, f"run spec {path}"),
            "mend these and run the command again",
            see=SPEC_PAGE,
        )
    return spec
