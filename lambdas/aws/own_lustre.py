"""A run's own file system, made step by step in a loop of waits, and deleted by whoever ends it."""

from typing import Any

from botocore.exceptions import ClientError

from everstep.contracts.failures import Action, Failure, FailureClass
from everstep.contracts.payloads import State, Step
from everstep.contracts.records import OwnLustre, Run
from everstep.policy.file_system import subnet_of
from everstep.policy.own_file_system import (
    MAKING_HOURS,
    MOST_TRIES,
    another,
    closed,
    create_request,
    is_orphan,
    let_go_epoch,
    link_request,
    may_mount,
    one_more_try,
)
from everstep.policy.redact import redact
from lambdas.aws.fsx import HOPELESS
from lambdas.aws.services import Services, logger

LONGEST_WAIT_SECONDS = 300
LIMITED = frozenset({"ServiceLimitExceeded"})
"""The account's storage quota, or FSx's capacity: waited for."""
STAYS_SECONDS = 3600
"""A data repository task that is in the way of a deletion is mostly over by then."""


class FileSystemStays(Exception):
    """It is paid for, and nobody will delete it unless a person looks."""


def prepare_own(step: Step, run: Run, services: Services) -> dict[str, Any] | None:
    """The payload of a wait, or of giving up; None once it can be mounted."""
    now, own = services.clock(), run.own_lustre
    if own is not None and own.given_up and run.failure is not None:
        return step.to(State.GIVE_UP)  # as an earlier invocation found
    if own is None or not own.here or own.given_up:
        own = another(own, now)
        services.store.update(run, own_lustre=own)
    waited = min(LONGEST_WAIT_SECONDS, (now - own.since_epoch) / 4)
    wait = int(max(services.env.watchdog_period_seconds, waited))
    later = step.later(wait, State.PREPARE_STORAGE)
    if now - own.since_epoch > MAKING_HOURS * 3600:
        return _give_up(step, run, own, f"not there after {MAKING_HOURS} h", services)
    try:
        found = _next(run, own, services)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code in LIMITED:
            return later
        if code not in HOPELESS:
            raise
        said = f"{code}: {error.response['Error'].get('Message', '')}"
        return _give_up(step, run, own, said, services)
    if isinstance(found, str) and own.link is None and own.number < MOST_TRIES:
        services.store.update(run, own_lustre=one_more_try(own))  # an orphan: the watchdog's
        return later
    if isinstance(found, str):
        return _give_up(step, run, own, found, services)
    if found != own:
        services.store.update(run, own_lustre=found)
    return None if found.ready else later


def _next(run: Run, own: OwnLustre, services: Services) -> OwnLustre | str:
    """One step further; or why there is none."""
    fsx = services.file_systems
    if own.file_system_id is None:
        subnet = subnet_of(run, next((t.zone for t in run.spec.compute if t.zone), None))
        made = fsx.create(create_request(run, own, str(subnet), services.env.table))
        return own.model_copy(
            update={
                "file_system_id": made["FileSystemId"],
                "mount": made["LustreConfiguration"]["MountName"],
                "subnet": subnet,
                "gib": run.spec.data.scratch_gib,
                "made_epoch": services.clock(),
            }
        )
    if own.link is None:
        lifecycle, why = fsx.look(own.file_system_id)
        if lifecycle == "AVAILABLE":
            return own.model_copy(update={"link": fsx.link(link_request(run, own))})
        return own if lifecycle in ("CREATING", "UPDATING") else f"{lifecycle}: {why}"
    lifecycle, why = fsx.look_link(own.link)
    if lifecycle == "AVAILABLE":
        return own.model_copy(update={"ready": True})
    return own if lifecycle in ("CREATING", "UPDATING") else f"its link is {lifecycle}: {why}"


def delete_own(run: Run, services: Services) -> None:
    """Safe to call again. What is made and not yet written down, or cannot be deleted now, is found
    by its tags."""
    own = run.own_lustre
    if own is None or not own.here:
        return
    if own.file_system_id is None or _refusal(own.file_system_id, services) is None:
        services.store.update(run, own_lustre=closed(own, services.clock()))


def _refusal(system: str, services: Services) -> str | None:
    """Why FSx does not delete it now; None where it does."""
    said = services.file_systems.delete(system)
    if said is not None:
        logger.warning({"file system": system, "not deleted": said})
    return said


def delete_orphans(services: Services) -> None:
    """Those of this environment, by their tags, whose run needs them no more. What is wrong with
    one is raised when the others have been looked at."""
    failed = []
    for system, run_id in services.file_systems.ours(services.env.table):
        try:
            _look(system, run_id, services)
        except Exception as error:  # noqa: BLE001 - raised below
            failed.append(error)
    if failed:
        raise ExceptionGroup("file systems of runs", failed)


def _look(system: str, run_id: str | None, services: Services) -> None:
    """Not under a job: one that is being stopped saves first, and Lustre is to be unmounted before
    it is deleted."""
    if not run_id:  # made with it, so a person took it off
        raise FileSystemStays(f"{system} has this table's tag, and no run's: delete it by hand")
    run = services.store.find_run(run_id)
    if not is_orphan(system, run, running=run is not None and _runs(run, services)):
        return
    if run is not None:
        if _may_be_mounted(system, run, services):
            return
        own, now = run.own_lustre, services.clock()
        if own is not None and own.file_system_id == system and own.here:
            # First said, then done: a redrive in between makes another one, never mounts this.
            still = {"own_lustre": system}
            if not services.store.update(run, naming=still, own_lustre=closed(own, now)):
                return
    said = _refusal(system, services)
    since = let_go_epoch(system, run) if run else 0.0
    if said is not None and since is not None and services.clock() - since > STAYS_SECONDS:
        raise FileSystemStays(f"{system} of {run_id} is paid for still: {said}")


def _may_be_mounted(system: str, run: Run, services: Services) -> bool:
    items = [item for run_id, item in services.store.active("launch") if run_id == run.run_id]
    jobs = (services.store.job(run.run_id, item) for item in items)
    return any(may_mount(job, system, run) for job in jobs)


def _runs(run: Run, services: Services) -> bool:
    """In its execution, or in the one that it is about to move to."""
    arns = dict.fromkeys(arn for arn in (run.execution_arn, run.successor) if arn)
    return any(services.machine.is_running(arn) for arn in arns)


def _give_up(step: Step, run: Run, own: OwnLustre, said: str, services: Services) -> dict[str, Any]:
    """GiveUp deletes it; *Redrive* makes another."""
    failure = Failure(
        failure_class=FailureClass.BAD_CONFIG,
        action=Action.DO_NOT_RETRY,
        cause=redact(f"no file system of its own for the run: {said}"),
        rule="own-file-system",
        hint="see FSx's console; data.mode = s3 or fastfile needs no file system",
    )
    ended = own.model_copy(update={"given_up": True})
    services.store.update(run, own_lustre=ended, failure=failure)
    return step.to(State.GIVE_UP)
