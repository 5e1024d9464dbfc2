"""Whether the environment holds the run that it is planned for: addresses, EFA, zones, pools."""

from collections.abc import Iterator, Mapping
from typing import Any

from everstep.contracts.addresses import (
    AWS_ADDRESSES,
    addresses_held,
    addresses_needed,
    smallest_mask,
)
from everstep.contracts.instances import INSTANCE_TYPES, RESERVABLE, similar_types
from everstep.contracts.problems import Problem

PATH = "planned"


def planned_problems(sections: Mapping[str, Any]) -> Iterator[Problem]:
    run = sections.get(PATH)
    if run is None:
        return
    if run.instance_type not in INSTANCE_TYPES:
        yield _problem(
            "instance_type",
            run.instance_type,
            "is no training instance type that Everstep knows",
            f"for example {', '.join(similar_types(run.instance_type))}",
        )
        return
    yield from _subnet(run, sections.get("network"))
    yield from _efa(run)
    yield from _pool(run)
    yield from _zone(run, sections)


def _problem(field: str, value: Any, message: str, hint: str) -> Problem:
    return Problem(path=f"{PATH}.{field}", value=value, message=message, hint=hint)


def _subnet(run: Any, network: Any) -> Iterator[Problem]:
    if network is None:
        return
    interfaces = INSTANCE_TYPES[run.instance_type].efa_interfaces
    needed = addresses_needed(run.instance_type, run.nodes)
    size = 2 ** (32 - network.training_mask)
    held = addresses_held(network.training_mask)
    if needed <= held:
        return
    yield Problem(
        path="network.training_mask",
        value=network.training_mask,
        message=f"{run.nodes} nodes of {run.instance_type} need "
        f"({interfaces} EFA interfaces + 1) × {run.nodes} = {needed} addresses, and a "
        f"/{network.training_mask} has {size} − {AWS_ADDRESSES} that AWS keeps = "
        f"{held}",
        hint=f"training_mask = {smallest_mask(needed)} or less, and a cidr that holds it",
    )


def _efa(run: Any) -> Iterator[Problem]:
    if run.efa and run.nodes > 1 and not INSTANCE_TYPES[run.instance_type].efa_interfaces:
        with_efa = [name for name, kind in INSTANCE_TYPES.items() if kind.efa_interfaces]
        yield _problem(
            "efa",
            True,
            f"{run.instance_type} has no EFA",
            f"efa = false (plain TCP), or one of {', '.join(with_efa)}",
        )


def _pool(run: Any) -> Iterator[Problem]:
    if run.purchase == "spot" and run.warm_pool_seconds:
        yield _problem(
            "warm_pool_seconds",
            run.warm_pool_seconds,
            "SageMaker keeps no warm pool for a spot job",
            'warm_pool_seconds = 0, or purchase = "on_demand"',
        )
    if run.purchase == "training_plan" and run.warm_pool_seconds:
        yield _problem(
            "warm_pool_seconds",
            run.warm_pool_seconds,
            "a training plan's machines are yours until it ends: there is no pool to keep",
            "warm_pool_seconds = 0",
        )
    if run.purchase == "training_plan" and run.instance_type not in RESERVABLE:
        yield _problem(
            "instance_type",
            run.instance_type,
            "no training plan holds this type",
            f"one of {', '.join(sorted(RESERVABLE))}",
        )


def _zone(run: Any, sections: Mapping[str, Any]) -> Iterator[Problem]:
    network, fsx = sections.get("network"), sections.get("file_system")
    if network is not None and run.zone is not None and run.zone not in network.zones:
        yield _problem(
            "zone",
            run.zone,
            "is no zone of the network",
            f"one of {', '.join(network.zones)}",
        )
        return
    if run.data_mode != "fsx":
        return
    if "file_system" in sections and fsx is None:
        yield _problem(
            "data_mode", "fsx", "there is no file system", "add [file_system], or another data_mode"
        )
    if network is None or fsx is None:
        return
    lies, trains = fsx.zone or network.zones[0], run.zone or network.zones[0]
    if lies != trains and lies in network.zones:
        yield _problem(
            "zone",
            trains,
            f"the file system lies in {lies}: SageMaker mounts it from its own zone only",
            f'zone = "{lies}", or file_system.zone = "{trains}"',
        )
