"""``python -m trainer.launch``: the container's entry point, one process a host.

Starts a rank a GPU (one on a CPU host), watches them, and alone takes the platform's SIGTERM: it
leaves a stop file that the ranks see between two steps, and gives them ``STOP_SECONDS`` to save.
Where ranks fail for a cause that starting again can cure, all hosts' ranks start again in the same
job (``trainer.council``, ``trainer.in_job``). Imports no torch, so the ranks have the machine to
themselves while they start. Arguments go to ``trainer.main``.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType

from everstep.contracts.env import FailureFile, TrainerEnv
from everstep.contracts.failures import FailureClass
from trainer.council import Alone, Chair, Delegate, Member, Report, Verdict, free_port
from trainer.efa import libfabric_version, settings
from trainer.errors import ConfigError, TrainerError
from trainer.failure import FailureRecorder
from trainer.host import Cluster, MlRoot, env_of, number_of
from trainer.main import parser, read_config
from trainer.restarter import Restarter
from trainer.watching import FlightRecords, Pulses

STOP_SECONDS = 110.0
"""SageMaker kills 120 s after SIGTERM; ten are left to say why."""
SURVIVOR_SECONDS = 1.0
"""Ranks that outlive the first failure by this are killed: they only wait for the dead one."""
GATHER_SECONDS = 1800.0
"""For the hosts of a job to find each other: images are pulled at different speeds."""
POLL_SECONDS = 0.05
_HANGS = (FailureClass.COMMUNICATION_HANG, FailureClass.HANG)
_FI_INFO = "/opt/amazon/efa/bin/fi_info"
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
        self._code = 0
        self._efa = settings(libfabric_version(_fi_info()))
        self._flight = FlightRecords(self._node_dir / "flight", cluster, env)
        self._pulses = Pulses(self._node_dir / "pulse", cluster.ranks_per_node, _patience(environ))

    def run(self) -> int:
        """The exit code: 0 only where every rank finished or stopped after a save."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        member: Member | None = None
        try:
            member = self._member()
            while (verdict := self._await(member)) is not None and verdict.start:
                report = self._generation(member, verdict)
                member.report(report)
            return self._code
        finally:
            self._kill()
            if member is not None:
                member.close()
            shutil.rmtree(self._node_dir, ignore_errors=True)

    def _member(self) -> Member:
        """This host's seat among the launchers."""
        cluster = self._cluster
        restarter = Restarter(
            self._env,
            self._recorder(0),
            self._node_dir / "step",
            self._restart_budget,
            hosts=cluster.hosts,
            ranks=len(cluster.hosts) * cluster.ranks_per_node,
        )
        if len(cluster.hosts) == 1:
            return Alone(restarter.decide, Verdict(start=True, port=cluster.master_port))
        job = f"{self._env.run_id}/{self._env.launch}"
        address = (cluster.master_addr, cluster.master_port)
        if cluster.node == 0:
            first = lambda: Verdict(start=True, port=free_port())  # noqa: E731
            Chair(
                cluster.master_port, cluster.hosts, job, restarter.decide, first, GATHER_SECONDS
            ).start()
            address = ("127.0.0.1", cluster.master_port)
        return Delegate(address, cluster.node, job, GATHER_SECONDS)

    def _await(self, member: Member) -> Verdict | None:
        """None where the platform wants the job to stop and no rank is there that could."""
        while (verdict := member.verdict()) is None:
            if self._stop_deadline is not None and time.monotonic() > self._stop_deadline:
                return None
            time.sleep(POLL_SECONDS)
        if verdict.failed:
            self._code = self._code or 1
        return verdict

    def _generation(self, member: Member, verdict: Verdict) -> Report:
        """One start of the ranks, to the end of the last of them."""
        if verdict.generation:
            self._recorder(0).clear_local()
        self._pulses.reset()
        self._code, self._oom_kills = 0, _oom_kills()
        self._workers = [
            self._start(local_rank, verdict) for local_rank in range(self._cluster.ranks_per_node)
        ]
        failure = self._supervise(member)
        noticed = time.time()
        if self._code:
            if failure is None or failure.failure_class in _HANGS:
                self._flight.ask()  # also where another host's ranks have failed: they may hang
            self._give_survivors_time()
        self._kill()
        return Report(
            done=self._code == 0,
            failure=failure,
            noticed_epoch=noticed,
            records=self._flight.collect(verdict.generation),
            stopping=self._stop_deadline is not None,
        )

    def _start(self, local_rank: int, verdict: Verdict) -> subprocess.Popen[bytes]:
        said = {
            "NCCL_DEBUG": "INFO",
            "NCCL_DEBUG_SUBSYS": "INIT,NET",
            "NCCL_DEBUG_FILE": str(self._node_dir / "nccl-%p.log"),
        }
        environment = {"OMP_NUM_THREADS": "1", **said, **self._efa, **self._environ}
        environment |= self._cluster.worker_environment(local_rank)
        environment |= {
            "MASTER_PORT": str(verdict.port),
            "PYTHONUNBUFFERED": "1",
            "EVERSTEP_NODE_DIR": str(self._node_dir),
            "EVERSTEP_LAUNCHER_PID": str(os.getpid()),
            "EVERSTEP_STARTED_EPOCH": str(self._started),
            "EVERSTEP_GENERATION": str(verdict.generation),
            "EVERSTEP_LOST_EPOCH": str(verdict.lost_epoch),
            "EVERSTEP_NOTICED_EPOCH": str(verdict.noticed_epoch),
            "EVERSTEP_SPAWNED_EPOCH": str(time.time()),
            # where NCCL's watchdog, which ends the process itself, leaves its record
            "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
            "TORCH_FR_DUMP_TEMP_FILE": str(self._node_dir / "flight" / "rank-"),
        }
        # a session of its own: a SIGTERM to the launcher's group must not reach the ranks
        return subprocess.Popen(
            [sys.executable, "-m", "trainer.main", *self._arguments],
            env=environment,
            start_new_session=True,
        )

    def _supervise(self, member: Member) -> FailureFile | None:
        """Until every rank is done, one has failed, or another host's has."""
        while True:
            codes = [worker.poll() for worker in self._workers]
            for local_rank, code in enumerate(codes):
                if code:
                    return self._failed(local_rank, code)
            if all(code == 0 for code in codes):
                return None
            frozen = self._pulses.stopped()
            if frozen is not None:
                self._code = 1
                return self._stopped(frozen)
            if member.halted or member.verdict() is not None:
                self._code = 1
                return None
            if self._stop_deadline is not None and time.monotonic() > self._stop_deadline:
                print("launch: the ranks did not stop in time; killed", file=sys.stderr)
                self._code = 1
                return None
            time.sleep(POLL_SECONDS)

    def _failed(self, local_rank: int, code: int) -> FailureFile:
        rank = self._cluster.node * self._cluster.ranks_per_node + local_rank
        recorder = self._recorder(rank)
        out_of_memory = code == -signal.SIGKILL and _oom_kills() > self._oom_kills
        # NCCL's watchdog writes its record, and then ends the process
        hung = code == -signal.SIGABRT and self._flight.there(rank)
        failure = recorder.write(recorder.from_exit(code, out_of_memory, hung))
        print(
            f"launch: rank {rank} ended with {code}; first cause: {failure.kind}: "
            f"{failure.message} (rank {failure.rank} on {failure.host})",
            file=sys.stderr,
            flush=True,
        )
        self._code = code if code > 0 else 128 - code
        return failure

    def _stopped(self, local_rank: int) -> FailureFile:
        """A rank that has given no sign of life: its launcher kills it, and all others."""
        rank = self._cluster.node * self._cluster.ranks_per_node + local_rank
        recorder = self._recorder(rank)
        return recorder.write(recorder.from_silence(self._pulses.patience))

    def _give_survivors_time(self) -> None:
        """They only wait for the dead one; a moment to say why they end."""
        until = time.monotonic() + SURVIVOR_SECONDS
        while time.monotonic() < until and any(w.poll() is None for w in self._workers):
            time.sleep(POLL_SECONDS)

    def _kill(self) -> None:
        """The ranks, and what they have started: each has a session of its own."""
        for worker in self._workers:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(worker.pid, signal.SIGKILL)
        for worker in self._workers:
            worker.wait()

    def _recorder(self, rank: int) -> FailureRecorder:
        return FailureRecorder(self._env, self._ml, self._cluster.current, rank, self._started)

    def _restart_budget(self) -> int:
        try:
            return read_config(parser().parse_args(self._arguments), self._ml).guard.in_job_restarts
        except (ConfigError, SystemExit):
            return 0  # the ranks say what is wrong with it

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._workers:
            raise SystemExit(0)  # nothing to save: the hosts are still looking for each other
        if self._stop_deadline is not None:
            return
        self._stop_deadline = time.monotonic() + STOP_SECONDS
        (self._node_dir / "stop").write_text(signal.Signals(number).name)


def main(argv: list[str] | None = None) -> int:
    ml = MlRoot.parse(os.environ)
    try:
        env = env_of(os.environ)
    except ConfigError as error:  # no launch, so no failure file of one
        print(f"launch: {error}", file=sys.stderr)
        return 1
    arguments = sys.argv[1:] if argv is None else argv
    host = ""
    try:
        cluster = Cluster.parse(os.environ, ml)
        host = cluster.current
        return Launcher(cluster, env, ml, arguments, os.environ).run()
    except TrainerError as error:
        recorder = FailureRecorder(env, ml, host, 0)
        recorder.write(recorder.from_exception(error, None))
        print(f"launch: {error}", file=sys.stderr)
        return 1


def _fi_info() -> str:
    """Empty where the image has no EFA."""
    try:
        done = subprocess.run([_FI_INFO, "--version"], capture_output=True, text=True, timeout=30)
        return done.stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def _patience(environ: Mapping[str, str]) -> float:
    return number_of(environ, "EVERSTEP_PULSE_TIMEOUT", 300.0)


def _oom_kills() -> int:
    """Processes of this container that the kernel has killed for memory so far."""
    try:
        words = _OOM_EVENTS.read_text().split()
        return int(words[words.index("oom_kill") + 1])
    except (OSError, ValueError):
        return 0


if __name__ == "__main__":
    sys.exit(main())
