"""Rung 1 of the restart ladder: may the ranks start again on the same hosts, in the same job?

Pure. Asked before each restart, with what ended the ranks and what ended them before. Yes only for
what the program and the hosts did not cause: a rank that was killed, a hang, a broken connection,
storage that was busy, a rewind. Everything else fails the job, and the control plane decides.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from everstep.contracts.env import FailureFile
from everstep.contracts.failures import FailureClass
from trainer.failure import lost_a_peer

REWIND = "Rewind"
"""Kind of the failure by which the trainer itself asks for a restart. Its ledger bounds these."""
REPLICAS_DIFFER = "ReplicaError"
TRANSIENT = frozenset(
    {FailureClass.COMMUNICATION_HANG, FailureClass.HANG, FailureClass.STORAGE_TRANSIENT}
)
_VARYING = re.compile(r"0x[0-9a-fA-F]+|\d+")


@dataclass(frozen=True)
class Death:
    """Why the ranks of one generation ended, and what was safe by then."""

    failure: FailureFile
    committed: int
    """Step of the newest committed checkpoint; 0 for none."""

    @property
    def rewind(self) -> bool:
        return self.failure.kind == REWIND


def why_not(death: Death, former: Sequence[Death], budget: int, *, stopping: bool) -> str | None:
    """None where the ranks may start again, else the reason in words."""
    failure = death.failure
    if stopping:
        return "the job is being stopped"
    if death.rewind:
        return None
    if not _curable(failure):
        return f"{failure.failure_class or failure.kind} is not cured by starting again"
    counted = [x for x in former if not x.rewind]
    since = [x for x in counted if x.committed >= death.committed]
    if since and _cause(since[-1].failure) == _cause(failure):
        return "the same cause as before, and no new checkpoint in between"
    if len(since) >= budget:
        return f"{len(since)} restarts since the last checkpoint (guard.in_job_restarts={budget})"
    return None


def _curable(failure: FailureFile) -> bool:
    if failure.kind == REPLICAS_DIFFER:
        return True  # once may be chance; twice without a checkpoint is the host's
    if failure.failure_class is not None:
        return failure.failure_class in TRANSIENT
    return failure.kind == "signal" or lost_a_peer(failure.kind, failure.message)


def _cause(failure: FailureFile) -> str:
    """Ranks, addresses and process ids differ between two deaths of one cause."""
    message = failure.message.rpartition(" waited: ")[2]  # a hang is a hang, wherever it was
    return _VARYING.sub("#", f"{failure.kind}: {message}")
