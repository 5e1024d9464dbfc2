"""Which line of a log a failure was classified by: pure, over lines that were read before."""

from collections.abc import Sequence

from everstep.cli.cloud import LogEvent
from everstep.contracts.failures import Failure
from everstep.policy.redact import redact

AROUND = 6
"""Lines before and after the cause that are shown."""
LEAST = 12
"""Characters that must agree: a shorter cause is found by chance."""


def find_cause(failure: Failure, events: Sequence[LogEvent]) -> int | None:
    """Index of the line: the first one that holds the cause, redacted as the cause is; of several
    the one nearest to the time that was classified. None where no line does."""
    found = [i for i, event in enumerate(events) if _same(failure.cause, event.text)]
    if not found:
        return None
    at = failure.time_epoch
    return found[0] if at is None else min(found, key=lambda i: abs(events[i].time - at))


def _same(cause: str, text: str) -> bool:
    wanted, line = " ".join(cause.split()), " ".join(redact(text).split())
    if not line:
        return False
    return wanted == line or (len(wanted) >= LEAST and wanted in line) or (
        len(line) >= LEAST and line in wanted
    )  # fmt: skip
