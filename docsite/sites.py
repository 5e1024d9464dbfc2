"""Every place in the code that makes an error for a person: found in the syntax tree, so that
none can be missing from the catalogue."""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parents[1]
Kind = Literal["cli", "spec", "config", "trainer"]


@dataclass(frozen=True)
class Site:
    """``what`` and ``hint`` are templates: what is computed stands in braces."""

    kind: Kind
    file: str
    line: int
    what: str
    hint: str
    value: str | None
    """The expression of a Problem's value; other kinds say it in ``what``."""
    see: str
    """The page to read on, from docs/reference."""

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def names_a_value(self) -> bool:
        return self.value is not None or "{" in self.what

    def made(self, text: str) -> bool:
        """Whether this place can have made that text."""
        return all(
            re.search(_pattern(part), text, re.DOTALL) is not None
            for part in (self.what, self.hint)
        )

    @property
    def is_open(self) -> bool:
        """Nothing of it is fixed: it passes on what another place has made."""
        return not re.sub(r"\{[^{}]*\}", "", self.what + self.hint).strip(": \n")


Make = Callable[[ast.Call, str], Site]


def sites() -> list[Site]:
    """In order of file and line: the command line, specs, configs, the trainer."""
    found = [
        *_calls("everstep/cli", {"fail", "CliError"}, _cli),
        *(s for room in ("everstep", "lambdas") for s in _calls(room, {"Problem"}, _spec)),
        *_calls("stacks", {"Problem"}, _config),
        *_calls("trainer", trainer_errors(), _trainer),
    ]
    return sorted(found, key=lambda s: (s.kind, s.file, s.line))


def trainer_errors() -> set[str]:
    """TrainerError and every class made from it, anywhere in the trainer."""
    known = {"TrainerError"}
    classes = [
        (node.name, {base.id for base in node.bases if isinstance(base, ast.Name)})
        for path in (ROOT / "trainer").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    while new := {name for name, bases in classes if bases & known} - known:
        known |= new
    return known


def _calls(room: str, names: set[str], make: Make) -> Iterator[Site]:
    for path in sorted((ROOT / room).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        file = str(path.relative_to(ROOT))
        inside = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        for node in _named(tree, names):
            site = make(node, file)
            maker = next((f for f in inside.values() if node in ast.walk(f)), None)
            callers = _named(tree, {maker.name}) if maker and _passes_on(maker, node) else []
            yield from [_filled(site, maker, call) for call in callers] if maker else []
            if not callers:
                yield site


def _named(tree: ast.AST, names: set[str]) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names
    ]


def _passes_on(maker: ast.FunctionDef, call: ast.Call) -> bool:
    """A function that only gives an error its shape: its callers hold the words."""
    message = _argument(call, 2 if call.keywords else 0, "message")
    given = {argument.arg for argument in maker.args.args}
    return isinstance(message, ast.Name) and message.id in given


def _filled(site: Site, maker: ast.FunctionDef, call: ast.Call) -> Site:
    what, hint = site.what, site.hint
    for place, argument in enumerate(maker.args.args):
        said = template(_argument(call, place, argument.arg))
        what, hint = (text.replace(f"{{{argument.arg}}}", said) for text in (what, hint))
    return replace(site, line=call.lineno, what=what, hint=hint)


def _argument(call: ast.Call, place: int, name: str) -> ast.expr | None:
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
            else _open(part.value)
            for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return template(node.left) + template(node.right)
    return _open(node)


def _open(node: ast.expr) -> str:
    return "{" + re.sub(r"[{}]", "", ast.unparse(node)) + "}"


def _pattern(text: str) -> str:
    return ".*".join(re.escape(part) for part in re.split(r"\{[^{}]*\}", text))


def _cli(call: ast.Call, file: str) -> Site:
    what, hint = (template(_argument(call, n, key)) for n, key in enumerate(("what", "hint")))
    return Site("cli", file, call.lineno, what, hint, None, "../cli.md")


def _problem(kind: Kind, call: ast.Call, file: str, page: str) -> Site:
    path, value, message, hint = (
        _argument(call, n, key) for n, key in enumerate(("path", "value", "message", "hint"))
    )
    what = f"{template(path)}: {template(message)}"
    given = None if value is None else ast.unparse(value)
    return Site(kind, file, call.lineno, what, template(hint), given, page)


def _spec(call: ast.Call, file: str) -> Site:
    return _problem("spec", call, file, "run-spec.md")


def _config(call: ast.Call, file: str) -> Site:
    return _problem("config", call, file, "config.md")


_SECTIONS = {"ConfigError": "#bad_config", "DataError": "#bad_data", "DivergedError": "#diverged"}


def _trainer(call: ast.Call, file: str) -> Site:
    what, hint = (template(_argument(call, n, key)) for n, key in enumerate(("message", "hint")))
    section = _SECTIONS.get(call.func.id, "") if isinstance(call.func, ast.Name) else ""
    return Site("trainer", file, call.lineno, what, hint, None, f"../runbook.md{section}")
