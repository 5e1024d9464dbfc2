"""IAM's evaluation of identity policies, without I/O: may this action on this resource?

An explicit deny wins; else one allow is enough; else no. Conditions: string, ARN, Boolean,
numeric and null operators with ``IfExists``, ``ForAnyValue`` and ``ForAllValues``.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

Context = Mapping[str, str | list[str]]
Statement = dict[str, Any]


class Verdict(NamedTuple):
    """The answer, and the number of the statement that gave it (None: no statement matched)."""

    allowed: bool
    statement: int | None

    @property
    def reason(self) -> str:
        """In words."""
        if self.statement is None:
            return "no statement allows it"
        return f"statement {self.statement} {'allows' if self.allowed else 'denies'} it"


class UnknownCondition(Exception):
    """A condition operator that is not emulated: said, not guessed."""


def statements_of(documents: Sequence[dict[str, Any]]) -> list[Statement]:
    """All statements of some policy documents, in order."""
    return [one for document in documents for one in _listed(document.get("Statement", []))]


def evaluate(
    statements: Sequence[Statement], action: str, resource: str | None, context: Context
) -> Verdict:
    """``resource`` None: it could not be derived from the call, so any statement's will do."""
    allowed: int | None = None
    for number, statement in enumerate(statements):
        if not applies(statement, action, resource, context):
            continue
        if statement["Effect"] == "Deny":
            return Verdict(False, number)
        if allowed is None:
            allowed = number
    return Verdict(allowed is not None, allowed)


def applies(statement: Statement, action: str, resource: str | None, context: Context) -> bool:
    """Whether a statement is about this request."""
    return (
        _action_matches(statement, action)
        and _resource_matches(statement, resource)
        and _conditions_hold(statement.get("Condition", {}), context)
    )


def matches(pattern: str, text: str, ignore_case: bool = False) -> bool:
    """IAM's wildcards: ``*`` any run of characters, ``?`` one."""
    return bool(_compiled(pattern, ignore_case).fullmatch(text))


def arn_matches(pattern: str, text: str) -> bool:
    """``ArnLike``: each of the six parts by itself; only in the last does ``*`` cross a colon."""
    wanted, found = pattern.split(":", 5), text.split(":", 5)
    return len(wanted) == len(found) and all(
        matches(one, other) for one, other in zip(wanted, found, strict=True)
    )


@lru_cache(maxsize=4096)
def _compiled(pattern: str, ignore_case: bool) -> re.Pattern[str]:
    text = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.compile(text, re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def _action_matches(statement: Statement, action: str) -> bool:
    if "NotAction" in statement:
        return not any(matches(p, action, True) for p in _listed(statement["NotAction"]))
    return any(matches(p, action, True) for p in _listed(statement.get("Action", [])))


def _resource_matches(statement: Statement, resource: str | None) -> bool:
    if resource is None:
        return True
    if "NotResource" in statement:
        return not any(matches(p, resource) for p in _listed(statement["NotResource"]))
    return any(matches(p, resource) for p in _listed(statement.get("Resource", [])))


def _conditions_hold(conditions: Mapping[str, Mapping[str, Any]], context: Context) -> bool:
    lowered = {key.lower(): value for key, value in context.items()}
    return all(
        _holds(operator, key, [str(v) for v in _listed(values)], lowered)
        for operator, block in conditions.items()
        for key, values in block.items()
    )


def _holds(operator: str, key: str, wanted: list[str], context: Mapping[str, Any]) -> bool:
    quantifier, _, name = operator.rpartition(":")
    if_exists = name.endswith("IfExists")
    name = name.removesuffix("IfExists")
    present = key.lower() in context
    if name == "Null":
        return all((value.lower() == "true") != present for value in wanted)
    found = [str(value) for value in _listed(context.get(key.lower(), []))]
    negative = name in _NEGATIVE
    compare = _NEGATIVE.get(name) or _POSITIVE.get(name)
    if compare is None:
        raise UnknownCondition(operator)
    if not present:
        # A negated operator holds on a missing key; a plain one does not, but for IfExists.
        return if_exists or negative or quantifier == "ForAllValues"
    results = [any(compare(value, one) for value in wanted) != negative for one in found]
    return all(results) if quantifier == "ForAllValues" else any(results)


def _number(compare: Callable[[float, float], bool]) -> Callable[[str, str], bool]:
    return lambda wanted, found: compare(float(found), float(wanted))


_POSITIVE: dict[str, Callable[[str, str], bool]] = {
    "StringEquals": lambda wanted, found: wanted == found,
    "StringEqualsIgnoreCase": lambda wanted, found: wanted.lower() == found.lower(),
    "StringLike": lambda wanted, found: matches(wanted, found),
    "ArnEquals": arn_matches,
    "ArnLike": arn_matches,
    "Bool": lambda wanted, found: wanted.lower() == found.lower(),
    "NumericEquals": _number(lambda a, b: a == b),
    "NumericLessThan": _number(lambda a, b: a < b),
    "NumericLessThanEquals": _number(lambda a, b: a <= b),
    "NumericGreaterThan": _number(lambda a, b: a > b),
    "NumericGreaterThanEquals": _number(lambda a, b: a >= b),
}
_NEGATIVE: dict[str, Callable[[str, str], bool]] = {
    "StringNotEquals": _POSITIVE["StringEquals"],
    "StringNotEqualsIgnoreCase": _POSITIVE["StringEqualsIgnoreCase"],
    "StringNotLike": _POSITIVE["StringLike"],
    "ArnNotEquals": arn_matches,
    "ArnNotLike": arn_matches,
    "NumericNotEquals": _POSITIVE["NumericEquals"],
}


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
