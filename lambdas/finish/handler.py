"""Finish: the run arrived. Say so once, and stop paying."""

from typing import Any

from everstep.contracts.metrics import ATTEMPTS, RUNS
from everstep.contracts.payloads import State, Step
from everstep.contracts.records import RunStatus
from everstep.policy.data_tasks import wants_release
from lambdas.aws.own_lustre import delete_own
from lambdas.aws.services import Services, state_handler


def act(step: Step, services: Services) -> dict[str, Any]:
    run, launches, exports = services.store.whole(step.run_id)
    if wants_release(run):
        return step.to(State.RELEASE_STORAGE)
    delete_own(run, services)
    if run.spec.target(launches[-1].target).warm_pool_seconds:
        services.jobs.end_warm_pool(launches[-1].job_name)
    if run.status is not RunStatus.DONE:
        count = len(launches)
        where = "" if run.final_step is None else f" at step {run.final_step}"
        text = f"done{where} after {count} launch{'es' if count > 1 else ''}"
        services.notifier.send(run, "done", text, [*launches, *exports])
    services.store.update(run, status=RunStatus.DONE, active=False)
    if run.status is not RunStatus.DONE:
        for what in (ATTEMPTS, RUNS):
            services.figures.ended(what, run, None)
    return step.to(State.DONE)


handler = state_handler(Step, act)
