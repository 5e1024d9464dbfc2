"""Whether a command of a sentence, which is not run, exists with its options."""

import re

import typer

from everstep.cli.main import app
from tests.docs.pages import ROOT

PLACEHOLDER = re.compile(r"^[A-Z][A-Z0-9_-]*$|…")


def problem(words: list[str]) -> str | None:
    """What is wrong with the words after ``everstep``; None where it would start."""
    words = ["1" if PLACEHOLDER.match(word) else word for word in words]
    command = typer.main.get_command(app)
    name = "everstep"
    if words and words[0] in ("--help", "--install-completion", "--show-completion"):
        return None
    while words and (inner := getattr(command, "commands", {}).get(words[0])) is not None:
        command, name = inner, f"{name} {words.pop(0)}"
    if hasattr(command, "commands"):
        return f"{name} has no command {words[:1]}"
    missing = [w for w in words if re.match(r"^(examples|config)/", w) and not (ROOT / w).exists()]
    if missing:
        return f"{missing[0]} is not in the repository"
    try:
        command.make_context(name, words)
    except Exception as error:
        # typer carries its own copy of click, whose UsageError has no public name
        if not hasattr(error, "format_message"):
            raise
        return f"{name}: {error.format_message()}"
    return None
