"""Every place in the code that makes an error for a person: found in the syntax tree, so that
none can be missing from the catalogue."""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from docsite.syntax import argument, choices, known_in, named, owners, pattern, template

ROOT = Path(__file__).parents[1]
Kind = Literal["cli", "spec", "config", "trainer", "run", "rule", "doctor", "efa"]


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
            re.search(pattern(part), text, re.DOTALL) is not None for part in (self.what, self.hint)
        )

    @property
    def is_open(self) -> bool:
        """Nothing of it is fixed: it passes on what another place has made."""
        return not re.sub(r"\{[^{}]*\}", "", self.what + self.hint).strip(": \n")


Make = Callable[[ast.Call, str], Site | None]
"""None where the call says that all is well, or leaves the words to others."""


def sites() -> list[Site]:
    """In order of kind, file and line."""
    found = [
        *_calls("everstep/cli", {"fail", "CliError"}, _cli),
        *(s for room in ("everstep", "lambdas") for s in _calls(room, {"Problem"}, _spec)),
        *_calls("stacks", {"Problem"}, _config),
        *_calls("trainer", trainer_errors(), _trainer),
        *(s for room in ("everstep/policy", "lambdas") for s in _calls(room, {"Failure"}, _run)),
        *_calls("everstep/policy", _TABLE, _rule),
        *_calls("everstep/cli", {"Finding"}, _doctor),
        *_calls("trainer", {"Finding"}, _efa),
    ]
    alone = {(s.where, s.what, s.hint): s for s in found}  # a choice may be of the value alone
    return sorted(alone.values(), key=lambda s: (s.kind, s.file, s.line))


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
        file, within = str(path.relative_to(ROOT)), owners(tree)
        for node in named(tree, names):
            maker = within.get(node)
            callers = named(tree, {maker.name}) if maker and _passes_on(maker, node) else []
            for one in choices(node, known_in(tree, maker)):
                if (site := make(one, file)) is None:
                    continue
                if maker is None or not callers:
                    yield site
                    continue
                for caller in callers:
                    for call in choices(caller, known_in(tree, within.get(caller))):
                        yield _filled(site, maker, call)


def _passes_on(maker: ast.FunctionDef, call: ast.Call) -> bool:
    """A function that only gives an error its shape: its callers hold the words."""
    place = 2 if call.keywords else 0
    message = argument(call, place, "message") or argument(call, place, "cause")
    given = {argument.arg for argument in maker.args.args}
    return isinstance(message, ast.Name) and message.id in given


def _filled(site: Site, maker: ast.FunctionDef, call: ast.Call) -> Site:
    what, hint = site.what, site.hint
    for place, given in enumerate(maker.args.args):
        said = template(argument(call, place, given.arg))
        what, hint = (text.replace(f"{{{given.arg}}}", said) for text in (what, hint))
    return replace(site, line=call.lineno, what=what, hint=hint)


def _cli(call: ast.Call, file: str) -> Site:
    what, hint = (template(argument(call, n, key)) for n, key in enumerate(("what", "hint")))
    return Site("cli", file, call.lineno, what, hint, None, "../cli.md")


def _problem(kind: Kind, call: ast.Call, file: str, page: str) -> Site:
    path, value, message, hint = (
        argument(call, n, key) for n, key in enumerate(("path", "value", "message", "hint"))
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
    what, hint = (template(argument(call, n, key)) for n, key in enumerate(("message", "hint")))
    section = _SECTIONS.get(call.func.id, "") if isinstance(call.func, ast.Name) else ""
    return Site("trainer", file, call.lineno, what, hint, None, f"../runbook.md{section}")


def _class(call: ast.Call, place: int) -> str:
    given = argument(call, place, "failure_class")
    return given.attr.lower() if isinstance(given, ast.Attribute) else template(given)


def _run(call: ast.Call, file: str) -> Site | None:
    cause = template(argument(call, 2, "cause"))
    if not cause:  # a placeholder: nothing was recorded
        return None
    why, hint = _class(call, 0), template(argument(call, 6, "hint"))
    what, page = f"{why}: {cause}", f"../runbook.md#{why}".replace("#{name}", "")
    return Site("run", file, call.lineno, what, hint, None, page)


_TABLE = {"_status", "_reason", "_event", "_log", "_symptom", "_victim", "_words", "_sure"}


def _rule(call: ast.Call, file: str) -> Site | None:
    """Those with a hint of their own; of the others it is their class's."""
    hint, why = template(argument(call, 4, "hint")), _class(call, 1)
    if not hint:
        return None
    what = f"{why}: {{cause}} (rule {template(argument(call, 0, 'id'))})"
    return Site("rule", file, call.lineno, what, hint, None, f"../runbook.md#{why}")


def _doctor(call: ast.Call, file: str) -> Site | None:
    return _found("doctor", call, file, ("check", "state", "said", "fix"), "../cli.md")


def _efa(call: ast.Call, file: str) -> Site | None:
    return _found("efa", call, file, ("what", "level", "said", "hint"), "../images.md")


def _found(
    kind: Kind, call: ast.Call, file: str, fields: tuple[str, str, str, str], see: str
) -> Site | None:
    """A finding that is not good news. One that may be has its fix where it is not."""
    places = (0, 1, 2, 3) if kind == "doctor" else (1, 0, 2, 3)
    what, level, said, hint = (
        template(argument(call, place, key)) for place, key in zip(places, fields, strict=True)
    )
    if level == "ok" or (level.startswith("{") and not hint):
        return None
    return Site(kind, file, call.lineno, f"{what}: {said}", hint, None, see)
