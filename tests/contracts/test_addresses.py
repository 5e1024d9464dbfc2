"""A run larger than its subnet: refused with the arithmetic, and only then."""

from typing import Any

import pytest

from everstep.contracts.addresses import address_problems, addresses_held, smallest_mask
from everstep.contracts.run_spec import RunSpec


def spec(*compute: dict[str, Any]) -> RunSpec:
    return RunSpec.model_validate(
        {
            "model": {"preset": "llama3-8b"},
            "data": {"prefix": "x"},
            "train": {"global_batch": 64, "sequence_length": 128},
            "stop": {"steps": 1},
            "compute": list(compute),
            "checkpoint": {},
        }
    )


P5 = {"instance_type": "ml.p5.48xlarge"}


@pytest.mark.parametrize(
    ("mask", "nodes", "fits"),
    [(26, 1, True), (26, 2, False), (20, 123, True), (20, 124, False), (19, 248, True)],
)
def test_a_p5_takes_33_addresses(mask: int, nodes: int, fits: bool) -> None:
    problems = list(address_problems(spec(P5 | {"nodes": nodes}), addresses_held(mask)))
    assert (problems == []) == fits
    if not fits:
        (problem,) = problems
        assert (problem.path, problem.value) == ("compute.0.nodes", nodes)
        assert f"(32 EFA interfaces + 1) × {nodes} = {33 * nodes} addresses" in problem.message
        assert f"than the {2 ** (32 - mask) - 5} that" in problem.message
        assert f"network.training_mask = {smallest_mask(33 * nodes)} or less" in (
            problem.hint or ""
        )


def test_the_mask_of_the_hint_is_the_smallest_that_holds_them() -> None:
    for addresses in (*range(1, 300), 4091, 4092, 16379, 16380):
        mask = smallest_mask(addresses)
        assert addresses_held(mask) >= addresses
        assert mask == 30 or addresses_held(mask + 1) < addresses


def test_groups_count_and_each_place_is_looked_at() -> None:
    cpu = {"name": "loaders", "instance_type": "ml.m5.2xlarge", "count": 30}
    places = spec(P5, P5 | {"groups": [cpu]}, P5 | {"nodes": 2})
    found = list(address_problems(places, addresses_held(26)))
    assert [problem.path for problem in found] == ["compute.1.nodes", "compute.2.nodes"]
    assert "(32 EFA interfaces + 1) × 1 + (0 EFA interfaces + 1) × 30 = 63" in found[0].message


def test_nothing_is_said_where_the_size_is_not_known() -> None:
    assert list(address_problems(spec(P5 | {"nodes": 5000}), None)) == []
