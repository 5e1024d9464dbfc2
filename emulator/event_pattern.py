"""EventBridge event patterns, as documented: which events a rule is about."""

import fnmatch
import operator
from collections.abc import Callable
from typing import Any

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def matches(pattern: dict[str, Any], event: Any) -> bool:
    """Whether every field that the pattern names has one of its values in the event."""
    for key, wanted in pattern.items():
        if key == "$or":
            if not any(matches(option, event) for option in wanted):
                return False
            continue
        found = event.get(key, _MISSING) if isinstance(event, dict) else _MISSING
        if isinstance(wanted, dict):
            if not matches(wanted, found if isinstance(found, dict) else {}):
                return False
        elif not _field(wanted, found):
            return False
    return True


class _Missing:
    """No such field: differs from null."""


_MISSING = _Missing()


def _field(wanted: list[Any], found: Any) -> bool:
    values = found if isinstance(found, list) else [found]
    # An empty list is a present field without a value.
    return any(_one(option, value) for option in wanted for value in values or [_MISSING])


def _one(option: Any, value: Any) -> bool:
    if not isinstance(option, dict):
        return type(option) is type(value) and option == value
    ((kind, argument),) = option.items()
    if kind == "exists":
        return (value is not _MISSING) == argument
    if value is _MISSING:
        return False
    if kind == "anything-but":
        return not _any_of(argument, value)
    return _text(kind, argument, value)


def _any_of(argument: Any, value: Any) -> bool:
    if isinstance(argument, dict):
        return _one(argument, value)
    return value in (argument if isinstance(argument, list) else [argument])


def _text(kind: str, argument: Any, value: Any) -> bool:
    if kind == "numeric":
        pairs = zip(argument[::2], argument[1::2], strict=True)
        numeric = isinstance(value, int | float) and not isinstance(value, bool)
        return numeric and all(_COMPARE[sign](value, bound) for sign, bound in pairs)
    if not isinstance(value, str):
        return False
    if kind in ("prefix", "suffix") and isinstance(argument, dict):
        argument, value = argument["equals-ignore-case"].lower(), value.lower()
    if kind == "prefix":
        return value.startswith(argument)
    if kind == "suffix":
        return value.endswith(argument)
    if kind == "equals-ignore-case":
        return value.lower() == str(argument).lower()
    if kind == "wildcard":
        # Only ``*`` is special there.
        return fnmatch.fnmatchcase(value, str(argument).replace("[", "[[]").replace("?", "[?]"))
    raise ValueError(f"event pattern operator {kind!r} is not emulated")
