"""The failure file: why the job failed, from the rank where it began.

One object a launch, ``{output_uri}/{launch:05d}/failure.json``, and SageMaker's own
``output/failure`` on each host, whose first line becomes FailureReason. A rank that only lost
its peers waits a moment before it writes, so that the first cause is there already.
Imports no torch: the launcher uses it too.
"""

import signal
import socket
import sys
import time
import traceback

from everstep.contracts.env import FailureFile, TrainerEnv
from everstep.contracts.failures import FailureClass
from trainer.errors import TrainerError
from trainer.host import MlRoot
from trainer.store import Store, open_store

GRACE_SECONDS = 2.0
PATIENCE = 30.0
"""For S3, once a rank has failed: the hosts are paid for."""
CLEAR_PATIENCE = 2.0
STALE_SECONDS = 60.0
"""A failure file this much older than the host's start is of an earlier start of the launch."""
TRACEBACK_CHARACTERS = 20_000
_VICTIM_TYPES = {"DistBackendError", "DistNetworkError", "DistStoreError"}
_HANG_WORDS = ("Timed out waiting", "Socket Timeout", "collective operation timeout")
_VICTIM_WORDS = (
    *_HANG_WORDS,
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "Connection refused",
    "NCCL communicator was aborted",
    "Connection was likely",
    "recvValue failed",
    "gloo/transport",
)


class FailureRecorder:
    """Writes the file for one process of one launch."""

    def __init__(
        self, env: TrainerEnv, ml: MlRoot, host: str, rank: int, started: float = 0.0
    ) -> None:
        self._env, self._ml, self._started = env, ml, started
        self._host, self._rank = host or socket.gethostname(), rank

    @property
    def _key(self) -> str:
        return f"{self._env.launch:05d}/failure.json"

    def clear_local(self) -> None:
        """Remove SageMaker's own file of this host: the job has survived what it says."""
        self._ml.failure_file.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove what an earlier start of this same launch left (SageMaker's own restarts, ours).

        Where S3 is busy it may stay: ``write`` knows it by its age.
        """
        try:
            open_store(self._env.output_uri, CLEAR_PATIENCE).delete([self._key])
        except Exception as trouble:  # noqa: BLE001 - an old failure file stops no training
            print(f"trainer: cannot remove {self._key}: {trouble}", file=sys.stderr, flush=True)

    def from_exception(self, error: BaseException, step: int | None) -> FailureFile:
        text = "".join(traceback.format_exception(error))
        return FailureFile(
            kind=type(error).__name__,
            message=str(error),
            traceback=text[-TRACEBACK_CHARACTERS:],
            rank=self._rank,
            host=self._host,
            step=step,
            time_epoch=time.time(),
            failure_class=_class_of(error),
        )

    def from_exit(self, code: int, out_of_memory: bool, hung: bool = False) -> FailureFile:
        """For a worker that ended without a word. ``code`` as ``Popen.returncode`` has it.

        ``hung``: it ended itself, over a collective that did not finish.
        """
        if code < 0:
            kind = "signal"
            message = f"rank {self._rank} was killed by {signal.Signals(-code).name}"
        else:
            kind, message = "exit", f"rank {self._rank} exited with code {code}"
        if out_of_memory:
            message += ": the host ran out of memory (hint: a larger instance type)"
        known = FailureClass.COMMUNICATION_HANG if hung else None
        return FailureFile(
            kind=kind,
            message=message,
            rank=self._rank,
            host=self._host,
            time_epoch=time.time(),
            failure_class=FailureClass.OUT_OF_MEMORY_HOST if out_of_memory else known,
        )

    def from_silence(self, seconds: float) -> FailureFile:
        """For a worker whose process is there and does not run."""
        return FailureFile(
            kind="frozen",
            message=f"rank {self._rank} has given no sign of life for {seconds:g} s",
            rank=self._rank,
            host=self._host,
            time_epoch=time.time(),
            failure_class=FailureClass.HANG,
        )

    def write(self, failure: FailureFile, *, victim: bool = False) -> FailureFile:
        """The first cause: ``failure``, or what another rank wrote before."""
        first = failure
        try:
            store = open_store(self._env.output_uri, PATIENCE)
            until = time.monotonic() + (GRACE_SECONDS if victim else 0.0)
            while (earlier := self._earlier(store)) is None and time.monotonic() < until:
                time.sleep(0.05)
            written = earlier is None and store.write_once(
                self._key, failure.model_dump_json(indent=1).encode()
            )
            if not written and (earlier := earlier or self._earlier(store)):
                first = earlier
        except Exception as trouble:  # noqa: BLE001 - storage may be what failed; go on locally
            print(f"trainer: cannot write {self._key}: {trouble}", file=sys.stderr, flush=True)
        self._write_local(first)
        return first

    def replace(self, failure: FailureFile) -> None:
        """The launchers' last word: more is known by then than when it was first written."""
        try:
            text = failure.model_dump_json(indent=1).encode()
            open_store(self._env.output_uri, PATIENCE).write(self._key, text)
        except Exception as trouble:  # noqa: BLE001 - storage may be what failed; go on locally
            print(f"trainer: cannot write {self._key}: {trouble}", file=sys.stderr, flush=True)
        self._write_local(failure)

    def _earlier(self, store: Store) -> FailureFile | None:
        """What another rank of this start has written; what an earlier start left is removed."""
        text = store.read(self._key)
        if text is None:
            return None
        found = FailureFile.model_validate_json(text)
        if found.time_epoch < self._started - STALE_SECONDS:
            store.delete([self._key])
            return None
        return found

    def _write_local(self, failure: FailureFile) -> None:
        if not self._ml.root.is_dir():
            return
        step = "" if failure.step is None else f", step {failure.step}"
        line = f"{failure.kind}: {failure.message} (rank {failure.rank} on {failure.host}{step})"
        try:
            self._ml.failure_file.parent.mkdir(parents=True, exist_ok=True)
            text = " ".join(line.split()) + "\n" + failure.traceback
            self._ml.failure_file.write_text(text)
        except OSError as trouble:
            print(f"trainer: cannot write the failure file: {trouble}", file=sys.stderr)


def is_victim(error: BaseException) -> bool:
    """Whether an error says only that another rank has gone."""
    if isinstance(error, TrainerError):
        return False
    kind = "RuntimeError" if isinstance(error, RuntimeError) else type(error).__name__
    return type(error).__name__ in _VICTIM_TYPES or lost_a_peer(kind, str(error))


def lost_a_peer(kind: str, message: str) -> bool:
    """The same of a failure that was written down."""
    return kind in _VICTIM_TYPES or (
        kind == "RuntimeError" and any(words in message for words in _VICTIM_WORDS)
    )


def _class_of(error: BaseException) -> str | None:
    if isinstance(error, TrainerError):
        return error.failure_class
    if type(error).__name__ == "OutOfMemoryError":
        return FailureClass.OUT_OF_MEMORY_GPU
    if is_victim(error) and any(words in str(error) for words in _HANG_WORDS):
        return FailureClass.COMMUNICATION_HANG
    return None
