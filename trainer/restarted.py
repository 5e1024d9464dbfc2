"""Tells the launcher that steps are done, and after a restart in the job where its time went."""

import time

from trainer.callbacks import StepDone
from trainer.host import Worker
from trainer.report import Reporter


class Moved:
    """Rank 0 touches the node's step file; the first time after a restart it prints the times."""

    def __init__(self, worker: Worker, report: Reporter) -> None:
        """Made when the checkpoint has been loaded."""
        self._worker, self._report = worker, report
        self._loaded, self._first = time.time(), True

    def after_step(self, done: StepDone) -> None:
        worker = self._worker
        if worker.rank == 0:
            worker.step_file.touch()
            if self._first and worker.generation:
                self._restarted()
            self._first = False

    def close(self) -> None: ...

    def _restarted(self) -> None:
        """``start``: interpreter, torch and the first meeting of all ranks."""
        worker, now = self._worker, time.time()
        ends = {
            "notice": worker.noticed_epoch,
            "decide": worker.spawned_epoch,
            "start": worker.joined_epoch,
            "load": self._loaded,
            "first_step": now,
        }
        parts, begin = {}, worker.lost_epoch
        for part, end in ends.items():
            parts[part], begin = round(end - begin, 3), end
        total = round(now - worker.lost_epoch, 3)
        self._report.line("restarted", generation=worker.generation, **parts, total=total)
