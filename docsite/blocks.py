"""Fenced blocks of a Markdown page, and the commands in them."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_FENCE = re.compile(r"^(?P<indent>\s*)```(?P<language>\S*)\s*$")


@dataclass
class Block:
    """``line`` is that of the opening fence, from 1; ``indent`` is cut from ``lines``."""

    line: int
    language: str
    indent: str
    lines: list[str] = field(default_factory=list)


@dataclass
class Command:
    """One logical line. ``output`` is what a console block shows below it."""

    page: Path
    line: int
    text: str
    language: str
    output: list[str] = field(default_factory=list)

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(text: str) -> list[Block]:
    found: list[Block] = []
    now: Block | None = None
    for number, line in enumerate(text.splitlines(), 1):
        fence = _FENCE.match(line)
        if now is None and fence:
            now = Block(number, fence["language"], fence["indent"])
        elif now is not None and fence and not fence["language"]:
            found.append(now)
            now = None
        elif now is not None:
            now.lines.append(line.removeprefix(now.indent))
    return found


def commands(page: Path, text: str) -> Iterator[Command]:
    """Of ``console`` blocks what follows ``$``, of ``bash`` blocks (and where no ``$`` is) all."""
    for block in blocks(text):
        if block.language not in ("console", "bash"):
            continue
        command: Command | None = None
        prompts = any(line.startswith("$ ") for line in block.lines)
        for number, line in enumerate(block.lines, block.line + 1):
            if command is not None and command.text.endswith("\\"):
                command.text = command.text[:-1].rstrip() + " " + line.strip()
            elif prompts and not line.startswith("$ "):
                if command is not None:
                    command.output.append(line)
            elif (said := line.removeprefix("$ ").strip()) and not said.startswith("#"):
                if command is not None:
                    yield command
                command = Command(page, number, said, block.language)
        if command is not None:
            yield command


def parts(text: str) -> list[list[str]]:
    """The words of each program that a line starts: chained ones, and ones in ``$(…)``."""
    inner = re.findall(r"\$\(([^()]*)\)", text)
    outer = re.sub(r"\$\([^()]*\)", "SUBSTITUTED", text)
    found: list[list[str]] = []
    for line in [*inner, outer]:
        lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;<>")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, "&&"]:
            if set(word) <= set("&|;"):
                found.append(words)
                words = []
            else:
                words.append(word)
    return [words for words in found if words]
