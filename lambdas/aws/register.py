"""The run's row: a new run, the same run under a next execution, or a name that is taken."""

from typing import Any

from everstep.contracts.payloads import Start, State, Step
from everstep.contracts.problems import Problem, describe
from everstep.contracts.records import Adopted, Run, RunStatus
from everstep.contracts.run_id import run_id_of
from everstep.contracts.run_spec import RunSpec
from everstep.policy.own_file_system import closed
from lambdas.aws.services import Services
from lambdas.aws.succession import take_over


def goes_on(step: Step, start: Start, services: Services) -> dict[str, Any] | None:
    """Where a run that ContinueAsNew moved here goes on. None for any other execution. Its spec is
    the row's: what the input points at may have changed."""
    if run_id_of(start.execution_name) == start.execution_name:
        return None  # a run's first execution: ContinueAsNew names its own
    run = services.store.find_run(run_id_of(start.execution_name))
    if run is None or run.successor != start.execution_arn:
        return None
    last = take_over(run, start.execution_arn, services.store)[-1]
    # Classify finds out whatever there is to know of a launch, a running job included.
    return step.to(State.DECIDE if last.failure else State.CLASSIFY, launch=last.launch)


def register(
    step: Step, spec: RunSpec, start: Start, services: Services, adopted: Adopted | None = None
) -> dict[str, Any]:
    run = Run(
        run_id=step.run_id,
        execution_arn=start.execution_arn,
        team=start.team,
        spec=spec,
        adopted=adopted,
        created_epoch=services.clock(),
    )
    if services.store.put_new(run):
        return step.to(State.CHECK_QUOTA)
    known = services.store.run(step.run_id)
    launches = services.store.launches(step.run_id)
    last = launches[-1].launch if launches else 0
    again = known.execution_arn == start.execution_arn
    if again and known.status is not RunStatus.DONE:
        return step.to(State.CHECK_QUOTA, launch=last)  # this handler ran before
    other_team = known.team.name != start.team.name
    if again or other_team or services.machine.is_running(known.execution_arn):
        taken = Problem(
            path="execution name",
            value=start.execution_name,
            message=f"run id is taken by {known.execution_arn}",
            hint="choose another name",
        )
        return step.to(State.REFUSE_SPEC, message=describe([taken]))
    # A person's continuation: the same run under a new execution, counted anew.
    services.store.update(
        known,
        execution_arn=start.execution_arn,
        team=start.team,
        spec=spec,
        status=RunStatus.RUNNING,
        attempts_reset_at_launch=last,
        redrive_count=0,
        successor=None,
        budget_warned=None,
        images=None,  # what a person has mended may be the image
        own_lustre=closed(known.own_lustre, services.clock()),  # of another spec, perhaps
        failure=None,
        note=None,
        waiting=None,
        waited_seconds=0.0,
        active=False,
    )
    if known.final_step is not None and known.final_step >= spec.stop.steps:
        return step.to(State.VERIFY_OUTCOME, launch=last)  # only what follows training is left
    return step.to(State.CHECK_QUOTA, launch=last)
