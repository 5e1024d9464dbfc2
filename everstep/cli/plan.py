"""``everstep plan``: what a run will do to its machines, or what the stacks cost, beforehand."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from everstep.cli import stack_cost
from everstep.cli.errors import fail
from everstep.cli.output import emit, out
from everstep.cli.spec_file import read_json
from everstep.contracts.check import check_spec, resolve_model
from everstep.contracts.instances import INSTANCE_TYPES
from everstep.contracts.mesh import mesh_of, sharded
from everstep.contracts.problems import describe
from everstep.contracts.run_spec import RunSpec
from everstep.policy.memory import fitting, memory_of, memory_problems, usable

GIB = 2**30


def plan(
    spec: Annotated[Path | None, typer.Argument(help="RunSpec as JSON.")] = None,
    stack: Annotated[
        bool, typer.Option("--stack", help="Instead: what the stacks cost while nothing runs.")
    ] = False,
    env: Annotated[
        str | None, typer.Option(help="With --stack: environment of config/ (EVERSTEP_ENV).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    """Mesh and memory a rank of each place in ``compute``; whether it fits, and what would."""
    if stack and spec is not None:
        fail("both a spec and --stack were given", "plan one of them")
    if stack:
        stack_cost.show(env, as_json)
        return
    if spec is None:
        fail("say what to plan", "everstep plan SPEC, or everstep plan --stack")
    checked = _checked(spec)
    places = [_place(checked, number) for number in range(len(checked.compute))]
    if as_json:
        emit({"parameters": resolve_model(checked.model).parameters(), "compute": places})
        return
    out.print(f"model    {resolve_model(checked.model).parameters():,} parameters", markup=False)
    for number, place in enumerate(places):
        _show(number, place)


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


def _show(number: int, place: dict[str, Any]) -> None:
    mesh = place["mesh"]
    sizes = " × ".join(f"{name} {size}" for name, size in mesh.items())
    out.print(f"compute.{number}  {place['where']}, {place['ranks']} ranks", markup=False)
    out.print(f"mesh     {place['sharding']}: {sizes}", markup=False)
    tokens, micro_batches = place["tokens_per_step"], place["micro_batches"]
    out.print(f"step     {tokens:,} tokens, {micro_batches} microbatches a rank", markup=False)
    if place["memory_bytes"] is None:
        out.print("memory   not planned: no GPU, or a program of your own", markup=False)
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    for part, size in place["memory_bytes"].items():
        table.add_row("memory", part, f"{size / GIB:.2f} GiB")
    table.add_row("memory", "usable", f"{place['gpu_bytes'] / GIB:.2f} GiB")
    out.print(table)
    verdict = "yes" if place["fits"] else f"no; would: {place['would_fit'] or 'nothing tried'}"
    out.print(f"fits     {verdict}", markup=False)


def _checked(path: Path) -> RunSpec:
    spec, problems = check_spec(read_json(path))
    if spec is not None:
        problems = list(memory_problems(spec))
    if spec is None or problems:
        fail(describe(problems, f"run spec {path}"), "mend these and run the command again")
    return spec
