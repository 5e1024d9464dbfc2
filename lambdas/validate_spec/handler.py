"""ValidateSpec: every problem at once, or the run's row."""

from typing import Any

from everstep.contracts.addresses import address_problems
from everstep.contracts.payloads import Start, State, Step
from everstep.contracts.problems import describe
from everstep.contracts.run_id import problem_of_run_id, run_id_of
from everstep.policy.remote_debug import remote_debug_problems
from everstep.policy.verdict import budget_problems, verdict
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
        spec, problems = verdict(raw)
        problems += problem_of_run_id(start.execution_name)
    if spec is not None:
        problems += dataset_problems(spec, start, services.checkpoints)
        problems += weights_problems(spec, start, services.checkpoints)
        problems += begin_problems(spec, step.run_id, start, services.checkpoints)
        problems += budget_problems(spec, services.env.prices_usd, services.clock())
        held = services.env.subnet_addresses if start.team.subnets else None
        problems += address_problems(spec, held)
        problems += remote_debug_problems(spec, start.team, step.run_id)
    if spec is None or problems:
        return step.to(State.REFUSE_SPEC, message=describe(problems))
    return register(step, spec, start, services)


handler = state_handler(Start, act)
