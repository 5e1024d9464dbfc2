"""What follows when ranks have ended: asks the policy, and says aloud what it decided.

One for a job, in the process of host 0's launcher. Imports no torch.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from everstep.contracts.env import FailureFile, TrainerEnv
from everstep.contracts.failures import FailureClass
from everstep.contracts.progress import Phase
from trainer.checkpoint.catalogue import Catalogue
from trainer.council import Report, Verdict, free_port
from trainer.failure import PATIENCE, FailureRecorder
from trainer.flight import blame
from trainer.in_job import Death, why_not
from trainer.report import Reporter
from trainer.store import open_store


class Restarter:
    """``decide`` is called once for each generation of ranks that has ended on every host."""

    def __init__(
        self,
        env: TrainerEnv,
        recorder: FailureRecorder,
        step_file: Path,
        budget: Callable[[], int],
        *,
        hosts: list[str],
        ranks: int,
    ) -> None:
        """``step_file`` was touched after each step; ``budget`` is only asked for when needed."""
        self._env, self._recorder, self._step_file = env, recorder, step_file
        self._budget, self._hosts, self._ranks = budget, hosts, ranks
        self._former: list[Death] = []
        self._generation = 0

    def decide(self, reports: list[Report]) -> Verdict:
        failures = [report.failure for report in reports if report.failure]
        if not failures:
            return Verdict(start=False)
        # the hosts agree on the first cause through its file, unless storage was what failed
        failure = self._named(min(failures, key=lambda found: found.time_epoch), reports)
        death = Death(failure, self._committed(failure))
        stopping = any(report.stopping for report in reports)
        reason = why_not(death, self._former, self._budget(), stopping=stopping)
        if reason is not None:
            print(f"launch: no restart in the job: {reason}", file=sys.stderr, flush=True)
            self._recorder.replace(failure)
            return Verdict(start=False, failed=True)
        self._former.append(death)
        self._generation += 1
        self._recorder.clear()
        self._say(death)
        noticed = min(report.noticed_epoch for report in reports if report.failure)
        return Verdict(
            start=True,
            generation=self._generation,
            port=free_port(),
            lost_epoch=self._last_step() or noticed,
            noticed_epoch=noticed,
        )

    def _named(self, failure: FailureFile, reports: list[Report]) -> FailureFile:
        """A hang's failure names the rank that the others waited for, and the collective."""
        if failure.failure_class != FailureClass.COMMUNICATION_HANG:
            return failure
        records = {rank: seen for report in reports for rank, seen in report.records.items()}
        found = blame(records, self._ranks)
        if found is None:
            return failure
        rank, words = found
        print(f"launch: {words}", file=sys.stderr, flush=True)
        return failure.model_copy(
            update={
                "rank": rank,
                "host": self._hosts[rank * len(self._hosts) // self._ranks],
                "message": f"{words}: {failure.message}",
            }
        )

    def _say(self, death: Death) -> None:
        failure, report = death.failure, Reporter(0)
        report.line(
            "restart",
            generation=self._generation,
            rank=failure.rank,
            host=failure.host,
            error=failure.kind,
            cause=" ".join(failure.message.split())[:300],
            committed=death.committed,
        )
        report.phase(Phase.WARMUP, death.committed)

    def _committed(self, failure: FailureFile) -> int:
        """0 also where storage cannot be asked: then only the first restart is given."""
        try:
            listed = Catalogue(open_store(self._env.checkpoint_uri, PATIENCE)).newest_first()
        except Exception as trouble:  # noqa: BLE001 - the ranks will meet it too, with a class
            print(f"launch: cannot list checkpoints: {trouble}", file=sys.stderr, flush=True)
            return 0
        return next((item.name.step for item in listed if item.committed), 0)

    def _last_step(self) -> float:
        try:
            return self._step_file.stat().st_mtime
        except FileNotFoundError:
            return 0.0
