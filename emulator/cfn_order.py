"""The order of a template's resources: what they refer to comes first."""

import re
from collections.abc import Iterator
from typing import Any

_SUB = re.compile(r"\$\{([A-Za-z0-9]+)(?:\.[^}]+)?\}")


def in_order(resources: dict[str, Any]) -> list[str]:
    """Logical ids, each after those that it refers to."""
    ordered: dict[str, None] = {}

    def visit(name: str, path: frozenset[str]) -> None:
        if name in ordered or name in path or name not in resources:
            return
        for other in _references(resources[name]):
            visit(other, path | {name})
        ordered[name] = None

    for name in resources:
        visit(name, frozenset())
    return list(ordered)


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for item in node:
            yield from _references(item)
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        if key == "Ref":
            yield value
        elif key == "Fn::GetAtt":
            yield value[0] if isinstance(value, list) else value.split(".")[0]
        elif key == "DependsOn":
            yield from [value] if isinstance(value, str) else value
        elif key == "Fn::Sub":
            yield from _SUB.findall(value[0] if isinstance(value, list) else value)
            yield from _references(value)
        else:
            yield from _references(value)
