"""``everstep classify``: what a message means, by the rules that the control plane asks."""

import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from pydantic import TypeAdapter, ValidationError

from everstep.cli.errors import fail
from everstep.cli.output import out, tame
from everstep.contracts.failures import Failure, UserRule
from everstep.policy.classify import STAGES, WORDS, Finding, explain
from everstep.policy.reading import Where, read
from everstep.policy.redact import redact
from everstep.policy.rule import Rule, from_user

KINDS = ", ".join(f"{x.value!r}" for x in Where)


class Message(NamedTuple):
    id: str
    text: str
    where: Where


def classify(
    file: Annotated[
        Path | None, typer.Argument(help="One text to classify; '-' or nothing: standard input.")
    ] = None,
    jsonl: Annotated[
        Path | None,
        typer.Option(help='A file of {"id","text","where"} lines; "-" for standard input.'),
    ] = None,
    where: Annotated[Where, typer.Option(help="What kind of place the text is from.")] = Where.LOG,
    why: Annotated[
        bool, typer.Option("--explain", help="Which rule, and what it outranked.")
    ] = False,
    rules: Annotated[
        Path | None, typer.Option(help="A config file with [[rules]] of your own.")
    ] = None,
) -> None:
    """The failure class, the action and the root-cause line of a message. Secrets are hidden."""
    if file is not None and jsonl is not None:
        fail("both a text and --jsonl were given", "give one of them")
    extra = _rules(rules) if rules is not None else ()
    if jsonl is not None:
        for message in messages(jsonl):
            print(json.dumps(answer(message, extra), ensure_ascii=False))
        return
    text = _read(file or Path("-"))
    if not text.strip():
        fail("there is no text to classify", "give a file, or text on standard input")
    found = explain(read(text, where), extra)
    _show(found.failure)
    if why:
        _show_findings(found.findings)


def answer(message: Message, extra: tuple[Rule, ...] = ()) -> dict[str, str]:
    """What one line of ``--jsonl`` prints."""
    failure = explain(read(message.text, message.where), extra).failure
    return {
        "id": redact(message.id),
        "class": WORDS[failure.failure_class].value,
        "action": failure.action.value,
        "cause": failure.cause,
    }


def messages(path: Path) -> Iterator[Message]:
    """Every line is checked before the first one is answered: half an answer misleads."""
    found = []
    for number, line in enumerate(_read(path).splitlines(), 1):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            item = json.loads(line)
        except (ValueError, RecursionError) as error:  # a number of thousands of digits; too deep
            fail(f"{place}: is not JSON: {error}", 'one {"id", "text", "where"} object a line')
        found.append(_message(item, place))
    return iter(found)


def _message(item: Any, place: str) -> Message:
    if not isinstance(item, dict):
        fail(f"{place}: is not a JSON object", 'one {"id", "text", "where"} object a line')
    for key in ("id", "text", "where"):
        if not isinstance(item.get(key), str):
            fail(f"{place}: {key!r} is missing or no text", 'each line has "id", "text", "where"')
    if item["where"] not in set(Where):
        fail(f"{place}: unknown kind {redact(item['where'])!r}", f"one of {KINDS}")
    return Message(item["id"], item["text"], Where(item["where"]))


def _read(path: Path) -> str:
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except OSError as error:
        fail(f"cannot read {path}: {error.strerror}", "give the path of a text file")
    except UnicodeDecodeError as error:
        fail(f"{path} is not UTF-8 text: {error.reason}", "classify takes text, not archives")


def _rules(path: Path) -> tuple[Rule, ...]:
    try:
        raw = tomllib.loads(_read(path)).get("rules", [])
        return from_user(TypeAdapter(list[UserRule]).validate_python(raw))
    except tomllib.TOMLDecodeError as error:
        fail(f"{path} is not TOML: {error}", "see docs/runbook.md, rules of your own")
    except ValidationError as error:
        said = "\n".join(
            f"- rules.{'.'.join(map(str, x['loc']))}: {x['msg']}" for x in error.errors()
        )
        fail(f"{path} has wrong rules:\n{said}", "see docs/runbook.md, rules of your own")


def _show(failure: Failure) -> None:
    out.print(f"class       {failure.failure_class}", markup=False)
    out.print(f"action      {failure.action}", markup=False)
    out.print(f"cause       {tame(failure.cause)}", markup=False)
    if failure.rank is not None:
        out.print(f"rank        {failure.rank}", markup=False)
    if failure.time_epoch is not None:
        out.print(f"time        {failure.time_epoch:.3f}", markup=False)
    out.print(f"confidence  {failure.confidence:.2f}", markup=False)
    out.print(f"hint        {failure.hint}", markup=False)
    out.print(f"runbook     docs/runbook.md#{failure.failure_class}", markup=False)


def _show_findings(findings: list[Finding]) -> None:
    first = findings[0]
    stage = STAGES[first.stage] if first.stage < len(STAGES) else "no rule matched"
    out.print(f"\nrule        {first.rule.id} ({stage}, {first.role.name.lower()})", markup=False)
    for other in findings[1:]:
        out.print(f"outranked   {other.rule.id}: {_reason(first, other)}", markup=False)
        out.print(f"            {tame(other.text)}", markup=False)


def _reason(first: Finding, other: Finding) -> str:
    if other.stage > first.stage:
        return f"{STAGES[first.stage]} outranks {STAGES[other.stage]}"
    if other.role > first.role:
        return f"a {first.role.name.lower()} outranks a {other.role.name.lower()}"
    return "it came later"
