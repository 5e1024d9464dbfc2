"""What the launcher sees of its ranks from outside: signs of life, and flight records."""

import sys
import time
from pathlib import Path

from everstep.contracts.env import TrainerEnv
from trainer.failure import PATIENCE
from trainer.flight import Seen, last_seen
from trainer.host import Cluster
from trainer.store import open_store

LOOK_SECONDS = 1.0


class Pulses:
    """Which rank has given no sign of life for too long."""

    def __init__(self, folder: Path, ranks: int, patience: float) -> None:
        self.patience = patience
        self._folder, self._ranks = folder, ranks
        self._looked = time.time()
        self._alive: dict[int, float] = {}

    def reset(self) -> None:
        """New ranks: they have given none yet, and are waited for as long as they need."""
        for rank in range(self._ranks):
            (self._folder / str(rank)).unlink(missing_ok=True)
        self._alive, self._looked = {}, time.time()

    def stopped(self) -> int | None:
        """The local rank, or None. A pause of this very process is not counted against any."""
        now = time.time()
        away = now - self._looked
        if away < LOOK_SECONDS:
            return None
        self._looked = now
        for rank in range(self._ranks):
            try:
                last = (self._folder / str(rank)).stat().st_mtime
            except FileNotFoundError:
                continue
            before = self._alive.get(rank, last)
            if away > 5 * LOOK_SECONDS:
                before += away
            self._alive[rank] = max(last, before)
            if now - self._alive[rank] > self.patience:
                return rank
        return None


class FlightRecords:
    """Asks this host's ranks for their records, reads them, and keeps them with the run."""

    def __init__(self, folder: Path, cluster: Cluster, env: TrainerEnv) -> None:
        self._folder, self._cluster, self._env = folder, cluster, env

    def ask(self) -> None:
        self._folder.mkdir(exist_ok=True)
        (self._folder / "wanted").touch()

    def there(self, rank: int) -> bool:
        return (self._folder / f"rank-{rank}").exists()

    def collect(self, generation: int) -> dict[int, Seen]:
        """By rank; empty where none was written. The folder is empty afterwards."""
        first = self._cluster.node * self._cluster.ranks_per_node
        found: dict[int, Seen] = {}
        for rank in range(first, first + self._cluster.ranks_per_node):
            path = self._folder / f"rank-{rank}"
            seen = last_seen(path)
            if seen is not None:
                found[rank] = seen
                self._keep(path, f"flight-{generation}/rank-{rank}.pickle")
            path.unlink(missing_ok=True)
        (self._folder / "wanted").unlink(missing_ok=True)
        return found

    def _keep(self, path: Path, name: str) -> None:
        try:
            store = open_store(self._env.output_uri, PATIENCE)
            store.write(f"{self._env.launch:05d}/{name}", path.read_bytes())
        except Exception as trouble:  # noqa: BLE001 - evidence only; the failure goes on without
            print(f"launch: cannot keep {name}: {trouble}", file=sys.stderr, flush=True)
