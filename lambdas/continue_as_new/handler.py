"""ContinueAsNew: the run goes on in a fresh execution, before this one's history is full.

The successor's name is written down first, then it is started (the same name twice is one
execution), then the rows move to it, then this execution ends. Where the name is taken, by someone
who tried to continue the run himself, the next one is used.
"""

from typing import Any

from everstep.contracts.payloads import ContinueStep, State
from everstep.contracts.run_id import next_execution_name
from lambdas.aws.services import Services, state_handler
from lambdas.aws.succession import take_over

MOST_NAMES = 20


class NoNameLeft(Exception):
    """Every name that the next execution could have is taken by one that has ended."""


def act(step: ContinueStep, services: Services) -> dict[str, Any]:
    store, machine = services.store, services.machine
    name = step.execution_arn.rpartition(":")[2]
    for _ in range(MOST_NAMES):
        run = store.run(step.run_id)
        if run.execution_arn != step.execution_arn:
            break  # moved by an earlier invocation, or by the successor itself
        name = next_execution_name(name)
        successor = f"{step.execution_arn.rpartition(':')[0]}:{name}"
        mine = {"execution_arn": step.execution_arn}
        if not store.update(run, equal=mine, successor=successor):
            break
        if machine.start(successor, step.execution_input):
            take_over(run, successor, store)
            break
    else:
        raise NoNameLeft(f"{step.run_id}: names up to {name} are taken")
    return step.to(State.DONE, message=f"goes on as {store.run(step.run_id).execution_arn}")


handler = state_handler(ContinueStep, act)
