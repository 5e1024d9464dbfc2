"""What all ranks agree on between two steps: stop, save, and the number of valid tokens."""

import time
from dataclasses import dataclass

import torch
import torch.distributed as dist

from trainer.checkpoint.pace import Pace
from trainer.host import Worker

SHORTEST_MARGIN = 120.0


@dataclass(frozen=True)
class Agreed:
    """The same on every rank."""

    tokens: int
    """Valid target tokens of the coming step, over all ranks."""
    stop: str | None
    """``sigterm`` or ``deadline``: save and leave."""
    save: bool
    """The interval is over, by rank 0's clock."""


class Control:
    """One small all-reduce a step, between the hosts' CPUs: no device is waited for."""

    def __init__(
        self,
        worker: Worker,
        deadline: float | None,
        pace: Pace,
    ) -> None:
        self._worker = worker
        self._deadline, self._pace = deadline, pace
        left = 0.0 if deadline is None else deadline - time.time()
        self._least = min(SHORTEST_MARGIN, 0.1 * max(0.0, left))
        """Seconds before the deadline that are kept free while nothing is measured yet."""

    def agree(self, tokens: int, step_seconds: float, save_seconds: float) -> Agreed:
        """``tokens``: this rank's; the times: of the last step and the last save."""
        margin = max(self._least, 3 * step_seconds + 2 * save_seconds)
        late = self._deadline is not None and time.time() > self._deadline - margin
        due = self._worker.rank == 0 and self._pace.due()
        words = torch.tensor(
            [tokens, self._worker.stop_file.exists(), late, due],
            dtype=torch.int64,
        )
        dist.all_reduce(words)
        tokens, stop, late_ranks, save = words.tolist()
        reason = "sigterm" if stop else "deadline" if late_ranks else None
        return Agreed(tokens=tokens, stop=reason, save=bool(save))
