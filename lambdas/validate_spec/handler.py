"""ValidateSpec: every problem at once, or the run's row."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from everstep.contracts.check import check_spec
from everstep.contracts.payloads import Start, State, Step
from everstep.contracts.problems import Problem, describe
from everstep.contracts.run_id import problem_of_run_id, run_id_of
from everstep.contracts.run_spec import RunSpec
from everstep.policy.forecast import host_problems
from everstep.policy.memory import memory_problems
from everstep.policy.remote_debug import remote_debug_problems
from lambdas.aws.adoption import adopt, is_adoption
from lambdas.aws.begin import begin_problems
from lambdas.aws.intake import dataset_problems, read_spec
from lambdas.aws.register import goes_on, register
from lambdas.aws.services import Services, state_handler
from lambdas.aws.weights import weights_problems


def act(start: Start, services: Services) -> dict[str, Any]:
    step = Step(
        run_id=run_id_of(start.execution_name),
        execution_arn=start.execution_arn,
        heartbeat_seconds=services.env.heartbeat_seconds,
    )
    moved = goes_on(step, start, services)
    if moved is not None:
        return moved
    if is_adoption(start):
        return adopt(start, step, services)
    raw, problems = read_spec(start, services.checkpoints)
    spec = None
    if not problems:
        spec, problems = check_spec(raw)
        problems += problem_of_run_id(start.execution_name)
    if spec is not None:
        problems += dataset_problems(spec, start, services.checkpoints)
        problems += weights_problems(spec, start, services.checkpoints)
        problems += begin_problems(spec, step.run_id, start, services.checkpoints)
        problems += _budget(spec, services)
        problems += remote_debug_problems(spec, start.team, step.run_id)
        problems += [*memory_problems(spec), *host_problems(spec)]
    if spec is None or problems:
        return step.to(State.REFUSE_SPEC, message=describe(problems))
    return register(step, spec, start, services)


def _budget(spec: RunSpec, services: Services) -> Iterator[Problem]:
    """A limit that could never be reached, or has been already, is refused, not ignored."""
    types = {target.instance_type for target in spec.compute}
    missing = sorted(types - services.env.prices_usd.keys())
    if spec.budget.max_usd is not None and missing:
        yield Problem(
            path="budget.max_usd",
            value=spec.budget.max_usd,
            message=f"no price is configured for {', '.join(missing)}",
            hint="add it to prices_usd in the environment's config, or use budget.max_gpu_hours",
        )
    deadline, now = spec.budget.deadline, datetime.fromtimestamp(services.clock(), UTC)
    if deadline is not None and deadline <= now:
        yield Problem(
            path="budget.deadline",
            value=deadline.isoformat(),
            message="has passed",
            hint=f"it is {now.isoformat(timespec='seconds')}",
        )


handler = state_handler(Start, act)
