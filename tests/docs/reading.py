"""Whether a command could be run: program, sub-command and options are asked of the program."""

import functools
import importlib.util
import re
import subprocess
import sys
from collections.abc import Sequence

import botocore.session
import typer
from botocore import xform_name

from everstep.cli.main import app
from tests.docs.pages import ROOT

AWS_OWN = {("s3", "cp"): {"--recursive"}, ("s3", "ls"): set()}
"""The AWS command line's own commands, which no service model has."""
AWS_GLOBAL = {"--query", "--output", "--region"}
PLACEHOLDER = re.compile(r"^[A-Z][A-Z0-9_-]*$|…")


def problem(words: Sequence[str]) -> str | None:
    """What is wrong with it; None where it would start."""
    program, rest = words[0], list(words[1:])
    if program == "everstep":
        return _everstep(rest)
    if program in ("python", ".venv/bin/python"):
        return _python(rest)
    if program == "torchrun":
        return _python(rest[rest.index("-m") :])
    if program == "aws":
        return _aws(rest)
    if program == "make":
        return _make(rest)
    return f"{program!r} is not known: run it, read it or give the reason in tests/docs/pages.py"


def _everstep(words: list[str]) -> str | None:
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
    numbers = ["1" if w == "N" else w for w in words]
    try:
        command.make_context(name, numbers)
    except Exception as error:
        # typer carries its own copy of click, whose UsageError has no public name
        if not hasattr(error, "format_message"):
            raise
        return f"{name}: {error.format_message()}"
    return None


@functools.cache
def _help(*program: str) -> str:
    done = subprocess.run(
        [sys.executable, *program, "--help"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else ""


def _python(words: list[str]) -> str | None:
    if words[0] == "-m":
        program, rest = words[:2], words[2:]
        if importlib.util.find_spec(program[1]) is None:
            return f"there is no module {program[1]}"
    else:
        program, rest = words[:1], words[1:]
        if not (ROOT / program[0]).is_file():
            return f"{program[0]} is not in the repository"
    options = {w.split("=")[0] for w in rest if w.startswith("--")}
    known = _help(*program) if options else ""
    # an underscored sub-command may have its options in a help of its own
    if options and rest and re.fullmatch(r"[a-z][a-z-]*", rest[0]):
        known += _help(*program, rest[0])
    unknown = sorted(x for x in options if not re.search(rf"{x}(?![\w-])", known))
    return f"{' '.join(program)} has no option {unknown[0]}" if unknown else None


def _aws(words: list[str]) -> str | None:
    service, operation = words[0], words[1]
    given = {w for w in words[2:] if w.startswith("--")} - AWS_GLOBAL
    if (service, operation) in AWS_OWN:
        unknown = given - AWS_OWN[service, operation]
        return f"aws {service} {operation} has no option {sorted(unknown)[0]}" if unknown else None
    model = botocore.session.get_session().get_service_model(
        {"stepfunctions": "stepfunctions"}.get(service, service)
    )
    operations = {xform_name(name, "-"): name for name in model.operation_names}
    if operation not in operations:
        return f"aws {service} has no command {operation}"
    shape = model.operation_model(operations[operation]).input_shape
    known = {f"--{xform_name(name, '-')}" for name in (shape.members if shape else {})}
    unknown = given - known
    return f"aws {service} {operation} has no option {sorted(unknown)[0]}" if unknown else None


def _make(words: list[str]) -> str | None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    asked = [w for w in words if "=" not in w]
    unknown = [w for w in asked if w not in targets]
    return f"the Makefile has no target {unknown[0]}" if unknown else None
