"""``python -m trainer.launch``: the container's entry point, one process a host.

Starts a rank a GPU (one on a CPU host), watches them, and alone takes the platform's SIGTERM: it
leaves a stop file that the ranks see between two steps, and gives them ``STOP_SECONDS`` to save.
Imports no torch, so the ranks have the machine to themselves while they start. Arguments go to
``trainer.main``.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from everstep.contracts.env import TrainerEnv
from trainer.errors import TrainerError
from trainer.failure import FailureRecorder
from trainer.host import Cluster, MlRoot

STOP_SECONDS = 110.0
"""SageMaker kills 120 s after SIGTERM; ten are left to say why."""
SURVIVOR_SECONDS = 1.0
"""Ranks that outlive the first failure by this are killed: they only wait for the dead one."""
POLL_SECONDS = 0.05
_OOM_EVENTS = Path("/sys/fs/cgroup/memory.events")


class Launcher:
    """The ranks of one host."""

    def __init__(
        self,
        cluster: Cluster,
        env: TrainerEnv,
        ml: MlRoot,
        arguments: list[str],
        environ: Mapping[str, str],
    ) -> None:
        self._cluster, self._env, self._ml = cluster, env, ml
        self._arguments, self._environ = arguments, environ
        self._workers: list[subprocess.Popen[bytes]] = []
        self._stop_deadline: float | None = None
        self._node_dir = Path(tempfile.mkdtemp(prefix="everstep-"))
        self._oom_kills = _oom_kills()
        self._started = time.time()

    def run(self) -> int:
        """The exit code: 0 only where every rank finished or stopped after a save."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        try:
            for local_rank in range(self._cluster.ranks_per_node):
                self._workers.append(self._start(local_rank))
            return self._supervise()
        finally:
            self._kill()
            shutil.rmtree(self._node_dir, ignore_errors=True)

    def _start(self, local_rank: int) -> subprocess.Popen[bytes]:
        environment = {"OMP_NUM_THREADS": "1", **self._environ}
        environment |= self._cluster.worker_environment(local_rank)
        environment |= {
            "PYTHONUNBUFFERED": "1",
            "EVERSTEP_NODE_DIR": str(self._node_dir),
            "EVERSTEP_LAUNCHER_PID": str(os.getpid()),
            "EVERSTEP_STARTED_EPOCH": str(self._started),
        }
        # a session of its own: a SIGTERM to the launcher's group must not reach the ranks
        return subprocess.Popen(
            [sys.executable, "-m", "trainer.main", *self._arguments],
            env=environment,
            start_new_session=True,
        )

    def _supervise(self) -> int:
        while True:
            codes = [worker.poll() for worker in self._workers]
            for local_rank, code in enumerate(codes):
                if code:
                    return self._failed(local_rank, code)
            if all(code == 0 for code in codes):
                return 0
            if self._stop_deadline is not None and time.monotonic() > self._stop_deadline:
                print("launch: the ranks did not stop in time; killed", file=sys.stderr)
                return 1
            time.sleep(POLL_SECONDS)

    def _failed(self, local_rank: int, code: int) -> int:
        rank = self._cluster.node * self._cluster.ranks_per_node + local_rank
        recorder = FailureRecorder(self._env, self._ml, self._cluster.current, rank, self._started)
        out_of_memory = code == -signal.SIGKILL and _oom_kills() > self._oom_kills
        failure = recorder.write(recorder.from_exit(code, out_of_memory))
        print(
            f"launch: rank {rank} ended with {code}; first cause: {failure.kind}: "
            f"{failure.message} (rank {failure.rank} on {failure.host})",
            file=sys.stderr,
            flush=True,
        )
        until = time.monotonic() + SURVIVOR_SECONDS
        while time.monotonic() < until and any(w.poll() is None for w in self._workers):
            time.sleep(POLL_SECONDS)
        return code if code > 0 else 128 - code

    def _kill(self) -> None:
        for worker in self._workers:
            if worker.poll() is None:
                worker.kill()
        for worker in self._workers:
            worker.wait()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._stop_deadline is not None:
            return
        self._stop_deadline = time.monotonic() + STOP_SECONDS
        (self._node_dir / "stop").write_text(signal.Signals(number).name)


def main(argv: list[str] | None = None) -> int:
    env, ml = TrainerEnv.parse(os.environ), MlRoot.parse(os.environ)
    try:
        cluster = Cluster.parse(os.environ, ml)
    except TrainerError as error:
        recorder = FailureRecorder(env, ml, "", 0)
        recorder.write(recorder.from_exception(error, None))
        print(f"launch: {error}", file=sys.stderr)
        return 1
    arguments = sys.argv[1:] if argv is None else argv
    return Launcher(cluster, env, ml, arguments, os.environ).run()


def _oom_kills() -> int:
    """Processes of this container that the kernel has killed for memory so far."""
    try:
        words = _OOM_EVENTS.read_text().split()
        return int(words[words.index("oom_kill") + 1])
    except (OSError, ValueError):
        return 0


if __name__ == "__main__":
    sys.exit(main())
