"""Reads what the emulator recorded: denied calls, and grants that nothing has used."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from emulator.access import Statement, applies, matches

_UNSEEN = ("xray:",)
"""Done by the platform in ways that are not emulated: neither used nor unused here."""


def access_report(state: Path) -> dict[str, Any]:
    """``denied``: every refused call; ``functions``: operations and unused grants of each."""
    calls = _calls(state / "calls.jsonl")
    roles: dict[str, list[Statement]] = {}
    if (state / "roles.json").exists():
        roles = json.loads((state / "roles.json").read_text())
    by_function: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for call in calls:
        by_function[call["function"]].append(call)
    return {
        "denied": [_denial(call) for call in calls if call["denied"]],
        "functions": {
            name: {
                "calls": len(made := by_function[name]),
                "operations": sorted({f"{c['service']}:{c['operation']}" for c in made}),
                "unused": unused_grants(statements, [n for c in made for n in c["needs"]]),
            }
            for name, statements in sorted(roles.items())
        },
    }


def unused_grants(statements: list[Statement], needs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Actions of allow statements that no recorded need has drawn on, with their resources."""
    distinct = {json.dumps([n["action"], n["resource"], n["context"]]): n for n in needs}
    unused = []
    for statement in statements:
        if statement["Effect"] != "Allow":
            continue
        drawn = [
            need["action"]
            for need in distinct.values()
            if applies(statement, need["action"], need["resource"], need["context"])
        ]
        actions = statement.get("Action", [])
        left = [
            action
            for action in ([actions] if isinstance(actions, str) else actions)
            if not action.startswith(_UNSEEN)
            and not any(matches(action, used, ignore_case=True) for used in drawn)
        ]
        if left:
            unused.append({"actions": left, "resource": statement.get("Resource")})
    return unused


def _calls(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def _denial(call: dict[str, Any]) -> dict[str, Any]:
    refused = [need for need in call["needs"] if not need["allowed"]]
    return {
        "function": call["function"],
        "call": f"{call['service']}:{call['operation']}",
        "needs": [
            {"action": n["action"], "resource": n["resource"], "reason": n["reason"]}
            for n in refused
        ],
    }
