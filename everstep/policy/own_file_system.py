"""A scratch file system of a run's own: what FSx is asked for, what it costs, whose it is.

Botocore's shapes. Scratch alone: what is deleted after the run needs no copies, and no key of ours.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from everstep.contracts.events import TAG_TABLE
from everstep.contracts.records import Launch, OwnLustre, Run
from everstep.contracts.run_spec import RunSpec, Target
from everstep.contracts.storage_rules import SCRATCH, SCRATCH_PRICE
from everstep.policy.cost import Spend, cost_of, spend_of
from everstep.policy.tags import run_tags

PRICE = SCRATCH_PRICE
MONTH_HOURS = 730
MOST_TRIES = 3
"""FSx says FAILED of one that it could not make, for want of capacity too, and people then try
again: aws-solutions-library-samples/aws-batch-arch-for-protein-folding#11."""
MAKING_HOURS = 3
"""FSx makes one in some ten minutes; listing a bucket of millions of objects takes longer."""


def wants_own(run: Run) -> bool:
    """It should be there now, and is not known to be."""
    own = run.own_lustre
    return run.spec.data.scratch_gib is not None and not (own and own.ready and own.here)


def another(own: OwnLustre | None, now: float) -> OwnLustre:
    """The next one to be made: what the former ones cost is not forgotten."""
    if own is None:
        return OwnLustre(since_epoch=now)
    return OwnLustre(since_epoch=now, earlier_gib_hours=gib_hours(own, now))


def one_more_try(own: OwnLustre) -> OwnLustre:
    """In place of one that FSx failed to make, which costs nothing."""
    return OwnLustre(
        since_epoch=own.since_epoch,
        number=own.number + 1,
        earlier_gib_hours=own.earlier_gib_hours,
    )


def closed(own: OwnLustre | None, now: float) -> OwnLustre | None:
    """No longer the run's: whoever finds it by its tags deletes it."""
    if own is None or not own.here:
        return own
    return own.model_copy(update={"deleted_epoch": now})


def create_request(run: Run, own: OwnLustre, subnet: str, table: str) -> dict[str, Any]:
    """The same call twice is one file system: the token is the run's and the time's."""
    name = {"Name": f"everstep {run.run_id}", TAG_TABLE: table}
    return {
        "ClientRequestToken": _token(run, own, "fs"),
        "FileSystemType": "LUSTRE",
        "FileSystemTypeVersion": "2.15",
        "StorageType": "SSD",
        "StorageCapacity": run.spec.data.scratch_gib,
        "SubnetIds": [subnet],
        "SecurityGroupIds": [run.team.lustre_group],
        "LustreConfiguration": {"DeploymentType": SCRATCH, "DataCompressionType": "LZ4"},
        "Tags": run_tags(run, run.execution_arn, name),
    }


def link_request(run: Run, own: OwnLustre) -> dict[str, Any]:
    """The dataset's folder; its metadata is imported before the link is available."""
    prefix = run.spec.data.prefix.strip("/")
    return {
        "ClientRequestToken": _token(run, own, "link"),
        "FileSystemId": own.file_system_id,
        "FileSystemPath": f"/{prefix}",
        "DataRepositoryPath": f"{run.team.data_uri}/{prefix}/",
        "BatchImportMetaDataOnCreate": True,
        "S3": {"AutoImportPolicy": {"Events": ["NEW", "CHANGED", "DELETED"]}},
    }


def _token(run: Run, own: OwnLustre, word: str) -> str:
    """The first try's is that of releases that had no other: a redeploy makes no second one."""
    again = f"-{own.number}" if own.number > 1 else ""
    return f"{run.run_id}-{word}-{int(own.since_epoch)}{again}"


def is_orphan(file_system_id: str, run: Run | None, running: bool) -> bool:
    """Nobody else will delete it: its run ended, was stopped, or has another one by now.
    ``running``: an execution of the run is. Its status is not asked: that follows a redrive late.
    """
    if run is None or not running:
        return True
    own = run.own_lustre
    return own is None or not own.here or own.file_system_id not in (None, file_system_id)


def let_go_epoch(file_system_id: str, run: Run) -> float | None:
    """Since when no job of the run is planned on it; None where one still may be."""
    own = run.own_lustre
    if own is None:
        return None
    if not own.here:
        return own.deleted_epoch
    return None if own.file_system_id == file_system_id else own.since_epoch


def may_mount(job: Launch, file_system_id: str, run: Run) -> bool:
    """Planned before the run let it go, or by an execution that knew the row as it was."""
    gone = let_go_epoch(file_system_id, run)
    return gone is None or job.planned_epoch <= gone or job.execution_arn != run.execution_arn


def gib_hours(own: OwnLustre, until: float) -> float:
    """Of all that the run has had, this one from its order to its deletion."""
    began = own.since_epoch if own.made_epoch is None else own.made_epoch
    ended = until if own.deleted_epoch is None else min(until, own.deleted_epoch)
    if own.file_system_id is None or own.gib is None:
        return own.earlier_gib_hours
    return own.earlier_gib_hours + own.gib * max(0.0, ended - began) / 3600


def own_spend(
    run: Run, prices_usd: Mapping[str, float], until: float, since: float | None = None
) -> Spend:
    """What the run's own file systems have cost until then, in USD; after ``since`` where given:
    GiB × hours × USD a GiB and month ÷ 730."""
    own = run.own_lustre
    hours = 0.0 if own is None else gib_hours(own, until)
    if own is not None and since is not None:
        hours -= gib_hours(own, since)
    if not hours:
        return Spend(usd=0.0)
    price = prices_usd.get(PRICE)
    return Spend(usd=None if price is None else planned_usd(1, hours, price))


def planned_usd(gib: int, hours: float, usd_gib_month: float) -> float:
    """Of one that is there for so long."""
    return gib * hours * usd_gib_month / MONTH_HOURS


def spend_an_hour(spec: RunSpec, target: Target, prices_usd: Mapping[str, float]) -> Spend:
    """Of a job on this target, and of the file system beside it."""
    hour, gib = cost_of(target, 3600, prices_usd), spec.data.scratch_gib
    if gib is None:
        return hour
    price = prices_usd.get(PRICE)
    return hour.plus(Spend(usd=None if price is None else planned_usd(gib, 1, price)))


def spend_of_run(
    run: Run, jobs: Iterable[Launch], prices_usd: Mapping[str, float], now: float
) -> Spend:
    """Of its jobs, those that run too, and of its own file systems."""
    return spend_of(jobs, prices_usd, now).plus(own_spend(run, prices_usd, now))
