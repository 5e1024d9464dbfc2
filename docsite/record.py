"""``python -m docsite.record PAGE``: run a page and write what it printed below its commands.

Standard output only: talk and progress go to standard error and differ from run to run.
"""

import argparse
import os
from pathlib import Path

from docsite.blocks import blocks, commands
from docsite.session import Result, run_page

LINES = 24
"""More than this of one command is cut, and says so."""
CUT = "…"


def rewrite(text: str, results: list[Result]) -> str:
    """The page with its console blocks' outputs replaced."""
    said = {r.command.line: r.stdout.rstrip().splitlines() for r in results}
    lines = text.splitlines()
    for block in reversed(blocks(text)):
        if block.language != "console":
            continue
        new: list[str] = []
        shown: list[str] | None = None
        for number, line in enumerate(block.lines, block.line + 1):
            if line.startswith("$ "):
                shown = said.get(number, [])
            elif shown is None:
                continue  # what it showed until now
            new.append(line)
            if not line.endswith("\\"):
                new += (shown or [])[:LINES] + ([CUT] if len(shown or []) > LINES else [])
                shown = None
        lines[block.line : block.line + len(block.lines)] = [
            (block.indent + line).rstrip() for line in new
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m docsite.record", description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--cwd", type=Path, default=Path.cwd(), help="a clone to run it in")
    parser.add_argument("--seconds", type=float, default=1200)
    given = parser.parse_args()
    text = given.page.read_text(encoding="utf-8")
    wanted = [c for c in commands(given.page, text) if c.language == "console"]
    results = run_page(wanted, given.cwd, os.environ, given.seconds)
    for result in results:
        if result.code:
            raise SystemExit(f"{result.command.where}: exit {result.code}\n{result.stderr}")
    given.page.write_text(rewrite(text, results), encoding="utf-8")


if __name__ == "__main__":
    main()
