"""Progress lines on standard output, from rank 0 alone (see everstep.contracts.progress)."""

import sys
from typing import Any

from everstep.contracts.progress import Phase, format_line


class Reporter:
    """Prints nothing on any rank but 0. Safe to call from the checkpoint thread."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def line(self, kind: str, **fields: Any) -> None:
        """One progress line, flushed. One ``write`` call, so that lines never interleave."""
        if self.rank == 0:
            sys.stdout.write(format_line(kind, **fields) + "\n")
            sys.stdout.flush()

    def phase(self, phase: Phase, step: int) -> None:
        self.line("phase", phase=phase.value, step=step)

    def log(self, text: str) -> None:
        """Log text, which nobody parses, on standard error."""
        if self.rank == 0:
            sys.stderr.write(f"trainer: {text}\n")
            sys.stderr.flush()
