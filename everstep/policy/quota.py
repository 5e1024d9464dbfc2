"""Will the account's quotas hold this target? Arithmetic over names, values and use.

Quotas are looked up by *name*: public lists of codes conflict. Names as Service Quotas shows them
for the service code ``sagemaker``, read 2026-11.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from everstep.contracts.run_spec import RunSpec, Target

SERVICE_CODE = "sagemaker"
LONGEST_RUN = "Longest run time for a training job"
PER_JOB = "Maximum number of instances per training job"
PLANS = "Number of training plans per Region"
TOTAL = {
    "on_demand": "Number of instances across all training jobs",
    "spot": "Number of instances across all spot training jobs",
}


class Need(NamedTuple):
    """``amount`` of a quota; ``shared`` ones are used up by other jobs too."""

    quota: str
    amount: float
    shared: bool


class JobInUse(NamedTuple):
    """A job that holds instances: it runs, or ended and keeps them as a warm pool."""

    instance_type: str
    instances: int
    spot: bool = False
    keeps_alive: bool = False


class Room(StrEnum):
    GO = "go"
    WAIT = "wait"
    NEVER = "never"


class Verdict(BaseModel):
    """The answer for one target, and the arithmetic in words."""

    model_config = ConfigDict(frozen=True)

    room: Room
    reason: str = ""


def usage_quota(instance_type: str, purchase: str) -> str:
    kind = "spot training job" if purchase == "spot" else "training job"
    return f"{instance_type} for {kind} usage"


def reserved_quota(instance_type: str) -> str:
    """What may be bought in training plans."""
    return (
        f"Number of {instance_type} instances in reserved capacity across training plans per Region"
    )


def pool_quota(instance_type: str) -> str:
    return f"{instance_type} for training warm pool usage"


def needs_of(spec: RunSpec, target: Target) -> list[Need]:
    """Every quota that one job on this target touches, each group counted. A training plan's
    machines do not add to what is in use, but the type's own quota must be as large as the job:
    AWS's guide, "Supported instance types, AWS Regions, and pricing" of training plans."""
    planned, pool = target.purchase == "training_plan", target.warm_pool_seconds
    needs = [
        Need(LONGEST_RUN, spec.stop.max_runtime_hours * 3600, shared=False),
        Need(PER_JOB, target.hosts, shared=False),
    ]
    for kind, count in by_type(target).items():
        needs.append(Need(usage_quota(kind, target.purchase), count, shared=not planned))
        if pool:
            needs.append(Need(pool_quota(kind), count, shared=True))
    if not planned:
        needs.append(Need(TOTAL[target.purchase], target.hosts, shared=True))
    return needs


def by_type(target: Target) -> dict[str, int]:
    """Hosts of each type, the training group's first."""
    counts = Counter({target.instance_type: target.nodes})
    for group in target.groups:
        counts[group.instance_type] += group.count
    return dict(counts)


def shortfalls(needs: Iterable[Need], quotas: Mapping[str, float]) -> list[Need]:
    """Needs that the quota could not hold if nobody else used any of it."""
    return [n for n in needs if (limit := quotas.get(n.quota)) is not None and n.amount > limit]


def headroom(
    needs: Iterable[Need], quotas: Mapping[str, float], in_use: Mapping[str, float]
) -> dict[str, float]:
    """Held − in use, of the known quotas that jobs share."""
    return {
        need.quota: quotas[need.quota] - in_use.get(need.quota, 0.0)
        for need in needs
        if need.shared and need.quota in quotas
    }


def judge(needs: list[Need], quotas: Mapping[str, float], in_use: Mapping[str, float]) -> Verdict:
    """GO, WAIT until others have ended, or NEVER. A quota that no list names is not held against a
    run: CreateTrainingJob has the last word."""
    waiting: list[str] = []
    for need in needs:
        limit = quotas.get(need.quota)
        if limit is None:
            continue
        if need.amount > limit:
            return Verdict(
                room=Room.NEVER,
                reason=f"needs {need.amount:g} of quota {need.quota!r}, which is {limit:g}",
            )
        used = in_use.get(need.quota, 0.0) if need.shared else 0.0
        if used + need.amount > limit:
            waiting.append(
                f"needs {need.amount:g} of quota {need.quota!r}: {used:g} of {limit:g} are in use"
            )
    if waiting:
        return Verdict(room=Room.WAIT, reason="; ".join(waiting))
    return Verdict(room=Room.GO)


def best(verdicts: list[Verdict]) -> Verdict:
    """Over a spec's targets: one with room is enough; a wait beats a never."""
    for room in (Room.GO, Room.WAIT):
        for verdict in verdicts:
            if verdict.room is room:
                return verdict
    return Verdict(room=Room.NEVER, reason="; ".join(v.reason for v in verdicts))


def usage(jobs: Iterable[JobInUse]) -> dict[str, float]:
    """In-use counts by quota name. Kept machines count as if their job still ran."""
    used: dict[str, float] = {}
    for job in jobs:
        purchase = "spot" if job.spot else "on_demand"
        names = [usage_quota(job.instance_type, purchase), TOTAL[purchase]]
        if job.keeps_alive:
            names.append(pool_quota(job.instance_type))
        for name in names:
            used[name] = used.get(name, 0.0) + job.instances
    return used
