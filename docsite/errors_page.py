"""docs/reference/errors.md: the catalogue of errors that a person may see."""

import re
from collections import Counter
from collections.abc import Iterator

from docsite.examples import examples
from docsite.produced import Said, examples_of, produced
from docsite.sites import Kind, Site, sites

SECTIONS: dict[Kind, tuple[str, str]] = {
    "cli": (
        "The command line",
        "Printed to standard error with the exit code that [Command line](../cli.md#exit-codes) "
        "explains. `everstep` without an option or with a wrong one answers with its usage.",
    ),
    "spec": (
        "The run spec",
        "All problems at once, by `everstep run` and `plan`, and by ValidateSpec, whose refused "
        "execution has them as its cause. Fields: [Run spec](run-spec.md).",
    ),
    "config": (
        "The config",
        "All problems at once, when the stacks are synthesised. Fields: [Config](config.md).",
    ),
    "trainer": (
        "The trainer",
        "In the job's log and in `failure.json`, with the hint in brackets. What follows is the "
        "class's matter: [Runbook](../runbook.md).",
    ),
    "run": (
        "A run on its way",
        "What the control plane finds before, between and after its jobs: the cause and hint of a "
        "run that gives up, in the message, in `everstep status` and as the execution's error.",
    ),
    "rule": (
        "The classifier",
        "The rules that have a hint of their own; all others have "
        "[their class's](failures.md). The cause is the line that was found.",
    ),
    "doctor": ("`everstep doctor`", "Findings that are not `ok`."),
    "efa": (
        "`efa-check`",
        "Findings that are not `ok`, of an image or a host: [Images](../images.md).",
    ),
}


WORDS = 8
SHOWN = 240
"""Characters of an example in the table: some of the tests' values are made to be long."""


def anchors(found: list[Site]) -> dict[Site, str]:
    """The address of each entry on the page: its room and the first words that it always says,
    with a number where another entry has said them."""
    seen: Counter[str] = Counter()
    made = {}
    for site in found:
        fixed = re.sub(r"\{[^{}]*\}", " ", site.what)
        name = "-".join([site.kind, *re.findall(r"[a-z0-9_]+", fixed.lower())[:WORDS]])
        seen[name] += 1
        made[site] = name if seen[name] == 1 else f"{name}-{seen[name]}"
    return made


def _code(text: str) -> str:
    """As it is: nothing of it is Markdown, neither a bar nor a backtick."""
    plain = "".join(f"&#{ord(c)};" if c in "`|*_[]<>&" else c for c in " ".join(text.split()))
    return f"<code>{plain}</code>"


def _row(site: Site, anchor: str, said: Said | None) -> str:
    value = "" if site.value is None else f" (got {{{site.value}}})"
    link = f'<a id="{anchor}" href="#{anchor}">¶</a>'
    what, hint = _code(site.what + value), _code(site.hint)
    if said is not None:
        what += f"<br>e.g. {_code(_short(said.what))}"
        hint += f"<br>e.g. {_code(_short(said.hint))}" if "{" in site.hint else ""
    return f"| {link} {what} | {hint} | [more]({site.see}) | `{site.where}` |"


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _section(kind: Kind, found: dict[Site, str], said: dict[Site, Said]) -> Iterator[str]:
    title, text = SECTIONS[kind]
    yield from (f"## {title}", "", text, "")
    for what, whole in examples(kind):
        yield from (f"{what}:", "", "```text", whole, "```", "")
    yield from ("| what | hint | | made in |", "|---|---|---|---|")
    yield from (
        _row(site, anchor, said.get(site)) for site, anchor in found.items() if site.kind == kind
    )
    yield ""


def text() -> str:
    found = anchors([site for site in sites() if not site.is_open])
    said = examples_of([*found], produced())
    lines = [
        "# Every error",
        "",
        "What a person may be told, where it is made, and what it says to do. Tables are read from "
        "the code and examples are produced by it when this site is built; what stands in braces "
        "is put in at that moment; below it what the program said in a test, where one makes it "
        "say so. Kinds and shape: [Errors](../errors.md).",
        "",
        *(line for kind in SECTIONS for line in _section(kind, found, said)),
    ]
    return "\n".join(lines)
