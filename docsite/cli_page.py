"""docs/reference/cli.md: every command and option, from typer's app."""

from collections.abc import Iterator
from typing import Any

import typer

from docsite.tables import cell
from everstep.cli.errors import EXIT_CODES
from everstep.cli.main import app


def commands(group: Any = None, name: str = "everstep") -> Iterator[tuple[str, Any]]:
    """Full name and command, groups opened, in the order of the table of commands."""
    top: Any = group or typer.main.get_command(app)
    for key, command in top.commands.items():
        full = f"{name} {key}"
        if hasattr(command, "commands"):
            yield from commands(command, full)
        else:
            yield full, command


def _usage(name: str, command: Any) -> str:
    given = [
        (p.metavar or p.name.upper()) if p.required else f"[{p.metavar or p.name.upper()}]"
        for p in command.params
        if p.param_type_name == "argument"
    ]
    return " ".join([name, *given, "[OPTIONS]" if len(given) < len(command.params) else ""]).strip()


def _options(command: Any) -> Iterator[str]:
    rows = []
    for p in command.params:
        shown = ", ".join([*p.opts, *p.secondary_opts])
        if p.param_type_name == "argument":
            shown = p.metavar or p.name.upper()
        default = p.default if isinstance(p.default, str | int | float) else None
        value = "" if default is None or isinstance(default, bool) else f"`{default}`"
        rows.append(f"| `{shown}` | {cell(getattr(p, 'help', None) or '')} | {value} |")
    if rows:
        yield from ("| | | default |", "|---|---|---|", *rows, "")


def text() -> str:
    lines = [
        "# Command line",
        "",
        "Written from the program when this site is built. Data goes to standard output, talk to"
        " standard error. `everstep --install-completion` sets up completion for your shell.",
        "",
        "| exit code | |",
        "|---|---|",
        *(f"| {code} | {cell(what)} |" for code, what in EXIT_CODES.items()),
        "",
    ]
    for name, command in commands():
        lines += [f"## {name.removeprefix('everstep ')}", "", f"`{_usage(name, command)}`", ""]
        lines += [str(command.help or "").strip(), "", *_options(command)]
    return "\n".join(lines)
