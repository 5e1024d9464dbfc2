"""ValidateSpec: every problem at once, or the run's row."""

from collections.abc import Iterator
from typing import Any

from everstep.contracts.check import check_spec
from everstep.contracts.payloads import Start, State, Step
from everstep.contracts.problems import Problem, describe
from everstep.contracts.records import Run, RunStatus
from everstep.contracts.run_id import problem_of_run_id, run_id_of
from everstep.contracts.run_spec import RunSpec
from lambdas.aws.intake import dataset_problems, read_spec
from lambdas.aws.services import Services, state_handler


def act(start: Start, services: Services) -> dict[str, Any]:
    raw, problems = read_spec(start, services.checkpoints)
    spec = None
    if not problems:
        spec, problems = check_spec(raw)
        problems += problem_of_run_id(start.execution_name)
    if spec is not None:
        problems += dataset_problems(spec, start, services.checkpoints)
        problems += _without_price(spec, services)
    step = Step(
        run_id=run_id_of(start.execution_name),
        execution_arn=start.execution_arn,
        heartbeat_seconds=services.env.heartbeat_seconds,
    )
    if spec is None or problems:
        return step.to(State.REFUSE_SPEC, message=describe(problems))
    return _register(step, spec, start, services)


def _without_price(spec: RunSpec, services: Services) -> Iterator[Problem]:
    """A limit in USD that could never be reached is refused, not ignored."""
    types = {target.instance_type for target in spec.compute}
    missing = sorted(types - services.env.prices_usd.keys())
    if spec.budget.max_usd is not None and missing:
        yield Problem(
            path="budget.max_usd",
            value=spec.budget.max_usd,
            message=f"no price is configured for {', '.join(missing)}",
            hint="add it to prices_usd in the environment's config, or use budget.max_gpu_hours",
        )


def _register(step: Step, spec: RunSpec, start: Start, services: Services) -> dict[str, Any]:
    run = Run(
        run_id=step.run_id,
        execution_arn=start.execution_arn,
        team=start.team,
        spec=spec,
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
    # A continuation: the same run under a new execution.
    services.store.update(
        known,
        execution_arn=start.execution_arn,
        team=start.team,
        spec=spec,
        status=RunStatus.RUNNING,
        attempts_reset_at_launch=last,
        redrive_count=0,
        failure=None,
        waiting=None,
        waited_seconds=0.0,
        active=False,
    )
    if known.final_step is not None and known.final_step >= spec.stop.steps:
        return step.to(State.VERIFY_OUTCOME, launch=last)  # only what follows training is left
    return step.to(State.CHECK_QUOTA, launch=last)


handler = state_handler(Start, act)
