"""The regular expression of a user's own rule: it compiles, says something, and always ends."""

import re
from collections.abc import Iterable, Iterator
from re import _constants, _parser  # type: ignore[attr-defined]  # the parse tree has no public name
from typing import Any


def checked_pattern(value: str) -> str:
    """``value`` itself. Raises ``ValueError`` with the reason why it may be no rule's pattern."""
    try:
        found = re.compile(value).search("")
    except (re.error, OverflowError) as error:
        raise ValueError(f"is not a regular expression: {error}") from error
    if found:
        raise ValueError("matches an empty text, so everything: say more")
    if _ambiguous(_parser.parse(value)):
        raise ValueError(
            "repeats what itself repeats or branches, which can take for ever on one line; "
            r"hint: one quantifier where two are nested, a+ for (a+)+, [\w.]+ for (\w+\.?)+"
        )
    return value


FEW = 8
"""Repeats whose ways to divide a text are still few."""
_REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT)


def _ambiguous(pattern: Iterable[Any], repeated: bool = False) -> bool:
    """Whether a repeat holds a part that may take more or less: the ways to match may multiply."""
    for kind, value in pattern:
        repeat = kind in _REPEATS
        if repeated and (kind is _constants.BRANCH or (repeat and value[0] != value[1])):
            return True
        many = repeated or (repeat and value[1] > FEW)
        if any(_ambiguous(part, many) for part in _below(value)):
            return True
    return False


def _below(value: Any) -> Iterator[Any]:
    """The parts of one element of a parsed pattern."""
    if isinstance(value, _parser.SubPattern):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _below(part)
