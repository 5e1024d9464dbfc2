"""ValidateSpec and the size of the training subnets, which the stack tells the handlers."""

import pytest

from everstep.contracts.payloads import State
from tests.lambdas.test_lives import Life
from tests.lambdas.world import TEAM, World

TWO = [{"instance_type": "ml.m5.large", "nodes": 2}]


@pytest.mark.parametrize(
    ("held", "in_vpc", "refused"),
    [(1, True, True), (2, True, False), (None, True, False), (1, False, False)],
)
def test_a_run_larger_than_its_subnet_is_refused_before_it_is_registered(
    world: World, held: int | None, in_vpc: bool, refused: bool
) -> None:
    world.env = world.env.model_copy(update={"subnet_addresses": held})
    life = Life(world, compute=TWO)
    if not in_vpc:
        life.team = TEAM.model_copy(update={"subnets": {}})
    assert (life.go() is State.REFUSE_SPEC) == refused
    if refused:
        message = life.payload["message"]
        assert "compute.0.nodes" in message
        assert "(0 EFA interfaces + 1) × 2 = 2 addresses are more than the 1" in message
        assert "hint: fewer nodes" in message
