"""Values that someone could mean, or smuggle in: refused before synthesis, each in words."""

import copy
import math
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from stacks.config import CONFIG_FOLDER, check
from tests.stacks.wrong_configs import NASTY, put_nasty


@pytest.fixture
def raw() -> dict[str, Any]:
    return tomllib.loads((CONFIG_FOLDER / "prod.toml").read_text())


@pytest.mark.parametrize(("path", "value", "where", "word"), NASTY)
def test_is_refused_with_path_value_and_hint(
    raw: dict[str, Any], path: str, value: Any, where: str, word: str
) -> None:
    put_nasty(raw, path, value)
    config, problems = check(raw)
    assert config is None
    assert [str(p.path) for p in problems] == [where]
    assert word in str(problems[0])
    assert problems[0].hint


JUNK = (
    None, True, 0, -1, 10**30, 1.5, math.inf, math.nan, "", " ", "x", "*", "é", "🚀", "{", "}",
    "{}", "a" * 5000, "../..", "\0", [], {}, [None], [[]], {"": None}, {"x": {}},
)  # fmt: skip


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _leaves(value[key], (*path, key))


def test_no_junk_anywhere_ends_in_a_traceback(raw: dict[str, Any]) -> None:
    for path in list(_leaves(raw)):
        for junk in JUNK:
            changed = copy.deepcopy(raw)
            at: Any = changed
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = junk
            config, problems = check(changed)
            assert (config is None) == bool(problems), (path, junk)
            assert all(str(p) and p.hint for p in problems), (path, junk)
