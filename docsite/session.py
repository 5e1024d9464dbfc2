"""The console blocks of a page, run in order in one shell, as a newcomer would."""

import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from docsite.blocks import Command

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
TERMINAL = {"TTY_COMPATIBLE": "1", "NO_COLOR": "1", "COLUMNS": "88", "TERM": "dumb"}
"""rich draws as at a terminal of this width, though the output goes to a file."""


@dataclass
class Result:
    command: Command
    code: int
    stdout: str
    stderr: str


def run_page(
    commands: Iterable[Command], cwd: Path, environ: Mapping[str, str], seconds: float
) -> list[Result]:
    """One shell for the whole page: exports of one command serve the next. It ends with the first
    command that fails."""
    given = list(commands)
    with tempfile.TemporaryDirectory() as folder:
        lines = []
        for n, command in enumerate(given):
            out, err, code = (f"{folder}/{n}.{kind}" for kind in ("out", "err", "code"))
            lines.append(f"{{ {command.text}\n}} >{out} 2>{err}; code=$?; echo $code >{code}")
            lines.append("[ $code = 0 ] || exit 0")
        subprocess.run(
            ["bash", "-c", "\n".join(lines)],
            cwd=cwd,
            env={**environ, **TERMINAL},
            timeout=seconds,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        read = Path(folder)
        return [
            Result(
                command,
                int((read / f"{n}.code").read_text()),
                _plain(read / f"{n}.out"),
                _plain(read / f"{n}.err"),
            )
            for n, command in enumerate(given)
            if (read / f"{n}.code").exists()
        ]


def _plain(file: Path) -> str:
    return _ESCAPE.sub("", file.read_text(errors="replace"))


def shape(line: str) -> str:
    """A line without what differs from run to run: numbers, times, ids, runs of spaces."""
    return " ".join(re.sub(r"[0-9][0-9.,:TZ-]*", "#", line).split())
