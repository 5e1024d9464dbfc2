"""A scratch file system of a run's own: what FSx is asked for, what it costs, whose it is.

Botocore's shapes. Scratch alone: what is deleted after the run needs no copies, and no key of ours.
"""

from collections.abc import Mapping
from typing import Any

from everstep.contracts.events import TAG_EXECUTION, TAG_RUN, TAG_TABLE, TAG_TEAM
from everstep.contracts.records import OwnLustre, Run, RunStatus
from everstep.policy.cost import Spend

DEPLOYMENT = "SCRATCH_2"
PRICE = f"fsx:{DEPLOYMENT}"
"""Key in ``prices_usd``: USD per GiB and month."""
MONTH_SECONDS = 730 * 3600
MAKING_HOURS = 3
"""FSx makes one in some ten minutes; listing a bucket of millions of objects takes longer."""


def wants_own(run: Run) -> bool:
    """It should be there now, and is not known to be."""
    own = run.own_lustre
    return run.spec.data.scratch_gib is not None and not (own and own.ready and own.here)


def create_request(run: Run, own: OwnLustre, subnet: str, table: str) -> dict[str, Any]:
    """The same call twice is one file system: the token is the run's and the time's."""
    tags = {
        "Name": f"everstep {run.run_id}",
        TAG_EXECUTION: run.execution_arn,
        TAG_RUN: run.run_id,
        TAG_TEAM: run.team.name,
        TAG_TABLE: table,
    }
    return {
        "ClientRequestToken": _token(run, own, "fs"),
        "FileSystemType": "LUSTRE",
        "FileSystemTypeVersion": "2.15",
        "StorageType": "SSD",
        "StorageCapacity": run.spec.data.scratch_gib,
        "SubnetIds": [subnet],
        "SecurityGroupIds": [run.team.lustre_group],
        "LustreConfiguration": {"DeploymentType": DEPLOYMENT, "DataCompressionType": "LZ4"},
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
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
    return f"{run.run_id}-{word}-{int(own.since_epoch)}"


def is_orphan(file_system_id: str, run: Run | None, running: bool) -> bool:
    """Nobody will delete it: its run ended, was stopped, or has another one by now."""
    if run is None or not running or run.status not in (RunStatus.RUNNING, RunStatus.WAITING):
        return True
    own = run.own_lustre
    return own is not None and own.file_system_id not in (None, file_system_id)


def own_spend(run: Run, prices_usd: Mapping[str, float], since: float, until: float) -> Spend:
    """What the run's own file system costs between two times, in USD."""
    own, size = run.own_lustre, run.spec.data.scratch_gib
    if own is None or size is None or own.file_system_id is None:
        return Spend(usd=0.0)
    price = prices_usd.get(PRICE)
    if price is None:
        return Spend()
    ended = until if own.deleted_epoch is None else min(until, own.deleted_epoch)
    seconds = max(0.0, ended - max(since, own.since_epoch))
    return Spend(usd=size * price * seconds / MONTH_SECONDS)
