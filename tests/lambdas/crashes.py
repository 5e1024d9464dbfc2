"""A state's handler dies at any of its calls, before or after the call took effect, and runs
again: the run's life ends as an unbroken one."""

from collections.abc import Callable
from typing import Any

from everstep.contracts.payloads import State
from tests.lambdas.world import Crash, World, a_world


def ends_the_same_wherever_it_dies(of: State, life: Callable[[World], Any], wanted: Any) -> int:
    """``life``: what there is at the end of a run in a world of its own. Returns the calls that
    state ``of`` makes in it: so many times two deaths were tried."""
    calls, unbroken = _lived(of, life, 0, lost=False)
    assert unbroken == wanted
    for call in range(1, calls + 1):
        for lost in (True, False):
            assert _lived(of, life, call, lost=lost)[1] == wanted, (of, call, lost)
    return calls


def _lived(of: State, life: Callable[[World], Any], crash: int, *, lost: bool) -> tuple[int, Any]:
    """``crash``: the call, counted over all turns of the state; 0 for none."""
    with a_world() as world:
        honest, calls = world.act, 0

        def act(state: State, payload: dict[str, Any], services: Any = None) -> Any:
            nonlocal calls
            if state is not of:
                return honest(state, payload)
            try:
                answer = honest(state, payload, world.services(crash - calls, lost=lost))
            except Crash:
                answer = honest(state, payload)
            calls += world.calls
            return answer

        world.act = act  # type: ignore[method-assign]
        end = life(world)
        return calls, end
