"""docs/reference/errors.md: the catalogue of errors that a person may see."""

import re
from collections import Counter
from collections.abc import Iterator

from docsite.examples import examples
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
}


WORDS = 8


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


def _row(site: Site, anchor: str) -> str:
    value = "" if site.value is None else f" (got {{{site.value}}})"
    link = f'<a id="{anchor}" href="#{anchor}">¶</a>'
    what, hint = _code(site.what + value), _code(site.hint)
    return f"| {link} {what} | {hint} | [more]({site.see}) | `{site.where}` |"


def _section(kind: Kind, found: dict[Site, str]) -> Iterator[str]:
    title, text = SECTIONS[kind]
    yield from (f"## {title}", "", text, "")
    for what, said in examples(kind):
        yield from (f"{what}:", "", "```text", said, "```", "")
    yield from ("| what | hint | | made in |", "|---|---|---|---|")
    yield from (_row(site, anchor) for site, anchor in found.items() if site.kind == kind)
    yield ""


def text() -> str:
    found = anchors([site for site in sites() if not site.is_open])
    lines = [
        "# Every error",
        "",
        "What a person may be told, where it is made, and what it says to do. Tables are read from "
        "the code and examples are produced by it when this site is built; what stands in braces "
        "is put in at that moment. Kinds and shape: [Errors](../errors.md).",
        "",
        *(line for kind in SECTIONS for line in _section(kind, found)),
    ]
    return "\n".join(lines)
