"""Signs of life for the launcher, and the short collective timeout once steps have a rhythm.

A thread of each rank touches a file. A rank that is frozen, or holds the interpreter, stops doing
so, also where all ranks freeze at once and no collective is left to time out. The same thread
writes the flight record when the launcher asks for it: a rank that sits elsewhere while the others
wait in a collective has not raised anything itself.
"""

import threading
from collections.abc import Sequence
from datetime import timedelta

import torch.distributed as dist
from torch.distributed import distributed_c10d

from trainer.callbacks import StepDone
from trainer.flight import write_record
from trainer.host import Worker

PULSE_SECONDS = 0.25
STEADY_STEPS = 2
"""Compilation, caches and lazily made communicators are behind after so many."""


def start_pulse(worker: Worker) -> None:
    """For the life of the process."""
    threading.Thread(target=_beat, args=(worker,), name="pulse", daemon=True).start()


def _beat(worker: Worker) -> None:
    file, asked = worker.pulse_file(worker.local_rank), False
    file.parent.mkdir(parents=True, exist_ok=True)
    pause = threading.Event()
    while True:
        file.touch()
        if not asked and worker.record_request.exists():
            asked = True
            write_record(worker)
        pause.wait(PULSE_SECONDS)


class Timeouts:
    """Collectives may take long while a run starts, and must not once it steps."""

    def __init__(self, seconds: float, patient: Sequence[dist.ProcessGroup]) -> None:
        """``patient``: groups that keep their own, long one."""
        self._seconds, self._patient, self._seen = seconds, patient, 0

    def after_step(self, done: StepDone) -> None:
        self._seen += 1
        if self._seen != STEADY_STEPS:
            return
        for group in list(distributed_c10d._world.pg_map):
            if group not in self._patient:
                distributed_c10d._set_pg_timeout(timedelta(seconds=self._seconds), group)

    def close(self) -> None: ...
