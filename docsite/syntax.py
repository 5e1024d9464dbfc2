"""What the syntax of a call says: its arguments as templates, each side of a choice for itself."""

import ast
import re
from collections import Counter
from collections.abc import Iterator

Known = dict[str, ast.expr]
"""What a name stands for, where it is given one value and no other."""


def named(tree: ast.AST, names: set[str]) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names
    ]


def argument(call: ast.Call, place: int, name: str) -> ast.expr | None:
    if place < len(call.args):
        return call.args[place]
    return next((k.value for k in call.keywords if k.arg == name), None)


def template(node: ast.expr | None) -> str:
    if node is None:
        return ""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(
            template(part.value if isinstance(part, ast.FormattedValue) else part)
            if not isinstance(part, ast.FormattedValue)
            else open_part(part.value)
            for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return template(node.left) + template(node.right)
    return open_part(node)


def open_part(node: ast.expr) -> str:
    return "{" + re.sub(r"[{}]", "", ast.unparse(node)) + "}"


def pattern(text: str) -> str:
    return ".*".join(re.escape(part) for part in re.split(r"\{[^{}]*\}", text))


def owners(tree: ast.AST) -> dict[ast.Call, ast.FunctionDef]:
    """The innermost function around each call."""
    return {
        call: function
        for function in ast.walk(tree)  # outer ones first
        if isinstance(function, ast.FunctionDef)
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
    }


def known_in(*bodies: ast.AST | None) -> Known:
    """Inner names last. Of a module its own level alone."""
    found: Known = {}
    for body in bodies:
        inside = body.body if isinstance(body, ast.Module) else ast.walk(body) if body else ()
        nodes = list(inside)
        names = (x for x in nodes if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store))
        stored = Counter(x.id for x in names)
        given = [pair for node in nodes if isinstance(node, ast.Assign) for pair in _given(node)]
        found |= {name: value for name, value in given if stored[name] <= 1}
    return found


def _given(node: ast.Assign) -> Iterator[tuple[str, ast.expr]]:
    (target, *_), value = node.targets, node.value
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for name, one in zip(target.elts, value.elts, strict=True):
            if isinstance(name, ast.Name):
                yield name.id, one


def choices(call: ast.Call, known: Known) -> list[ast.Call]:
    """The call with names replaced by what they stand for. Twice where an argument is ``a if b
    else c``, or a sum with one in it: first each such argument's one side, then its other."""
    made = [
        ast.Call(
            call.func,
            [_side(x, side, known) for x in call.args],
            [ast.keyword(k.arg, _side(k.value, side, known)) for k in call.keywords],
            lineno=call.lineno,
        )
        for side in ("body", "orelse")
    ]
    return made if ast.unparse(made[0]) != ast.unparse(made[1]) else made[:1]


def _side(node: ast.expr, side: str, known: Known) -> ast.expr:
    if isinstance(node, ast.Name):
        value = known.get(node.id)
        plain = isinstance(value, ast.Constant | ast.JoinedStr | ast.IfExp | ast.BinOp)
        return _side(value, side, {}) if value is not None and plain else node
    if isinstance(node, ast.IfExp):
        return _side(getattr(node, side), side, known)
    if isinstance(node, ast.BinOp):
        parts = (_side(x, side, known) for x in (node.left, node.right))
        return ast.BinOp(next(parts), node.op, next(parts))
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "redact":
        return _side(node.args[0], side, known)  # it says the same, but for secrets
    return node
