"""docs/reference/errors.md: the catalogue of errors that a person may see."""

from collections.abc import Iterator

from docsite.examples import examples
from docsite.sites import Kind, Site, sites
from docsite.tables import cell

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


def _row(site: Site) -> str:
    value = "" if site.value is None else f" (got {{{site.value}}})"
    what, hint = (cell(text).replace("`", "'") for text in (site.what + value, site.hint))
    return f"| `{what}` | `{hint}` | [more]({site.see}) | `{site.where}` |"


def _section(kind: Kind, found: list[Site]) -> Iterator[str]:
    title, text = SECTIONS[kind]
    yield from (f"## {title}", "", text, "")
    for what, said in examples(kind):
        yield from (f"{what}:", "", "```text", said, "```", "")
    yield from ("| what | hint | | made in |", "|---|---|---|---|")
    yield from (_row(site) for site in found if site.kind == kind and not site.is_open)
    yield ""


def text() -> str:
    found = sites()
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
