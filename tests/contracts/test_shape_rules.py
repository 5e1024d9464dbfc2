"""A shape that torch would refuse on hosts that are paid for is refused before."""

import pytest

from everstep.contracts.check import check_spec
from everstep.contracts.models import PRESETS

SPEC = {"data": "datasets/x", "compute": [{"instance_type": "ml.m5.large"}], "stop": {"steps": 9}}


@pytest.mark.parametrize(
    ("dim", "heads", "kv_heads", "hints"),
    [
        (100, 7, 7, {"model.config.heads": "dim 98, or other heads"}),
        (90, 6, 3, {"model.config.heads": "dim 96, or other heads"}),
        (4, 8, 8, {"model.config.heads": "dim 16, or other heads"}),
        (96, 8, 3, {"model.config.kv_heads": "kv_heads 2"}),
        (96, 8, 16, {"model.config.kv_heads": "kv_heads 8"}),
        (96, 8, 1, {}),
    ],
)
def test_heads_must_divide(dim: int, heads: int, kv_heads: int, hints: dict[str, str]) -> None:
    shape = {"dim": dim, "layers": 1, "heads": heads, "kv_heads": kv_heads, "ffn_dim": 64}
    _, problems = check_spec({**SPEC, "model": {"config": {**shape, "vocab_size": 1024}}})
    assert {problem.path: problem.hint for problem in problems} == hints
    if hints:  # the hint is right
        key, value = next(iter(hints.values())).split(",")[0].split()
        mended = {**shape, key: int(value), "vocab_size": 1024}
        assert check_spec({**SPEC, "model": {"config": mended}})[1] == []


@pytest.mark.parametrize("name", PRESETS)
def test_no_preset_is_refused(name: str) -> None:
    assert check_spec({**SPEC, "model": name})[1] == []
