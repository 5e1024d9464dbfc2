"""The life of one training job, in a thread of its own."""

import logging
import signal
import socket
import threading
import time
from typing import Any

from emulator.names import AwsError
from emulator.training.host import Host
from emulator.training.machines import members
from emulator.training.record import Record
from emulator.training.settings import Settings
from emulator.training.storage import NoSuchData, archive, upload_changes, upload_file
from emulator.world import World

logger = logging.getLogger("emulator")

CAPACITY = (
    "CapacityError: Unable to provision requested ML compute capacity. Please retry using a "
    "different ML instance type."
)
# Two spaces, as SageMaker writes it.
INTERNAL = "InternalServerError: We encountered an internal error.  Please try again."


class Job:
    """Record and hosts of one job. Orders from outside set flags; the job's thread acts."""

    def __init__(self, world: World, record: Record, settings: Settings, warm: bool) -> None:
        self.record = record
        self.hosts: list[Host] = []
        self._world = world
        self._settings = settings
        self._warm = warm
        self._wake = threading.Condition()
        self._stop = False
        self._lost = False
        self._interrupt: bool | None = None
        self._triggers: list[tuple[int, Any]] = []
        self._restarts = 0
        self._synced: dict[str, dict[str, tuple[int, int]]] = {}

    # Orders -----------------------------------------------------------------------------

    def stop(self) -> None:
        """StopTrainingJob."""
        if self.record.terminal:
            raise AwsError(
                "ValidationException",
                "The request was rejected because the training job is in status "
                f"{self.record.status}.",
            )
        with self._wake:
            self._stop = True
            self._wake.notify_all()

    def lose_host(self, name: str) -> None:
        """The machine under a host is gone."""
        host = self.host(name)
        with self._wake:
            # Said before it is done: the death that follows is not the algorithm's.
            self._lost = True
            self._wake.notify_all()
        host.kill()

    def interrupt(self, capacity_back: bool) -> None:
        """A spot reclaim."""
        with self._wake:
            self._interrupt = capacity_back
            self._wake.notify_all()

    def at_step(self, step: int, do: Any) -> None:
        """Call ``do`` once a host's log has a step line of at least ``step``."""
        with self._wake:
            self._triggers.append((step, do))

    def host(self, name: str) -> Host:
        """A running host by name (``algo-1``)."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise AwsError("NoSuchHost", f"{self.record.name} has no host {name} now", 404)

    def signal(self, number: int, name: str | None = None) -> list[int]:
        """Signal all processes of one host, or of all."""
        hosts = [self.host(name)] if name else self.hosts
        return [pid for host in hosts for pid in host.signal(number)]

    # Life -------------------------------------------------------------------------------

    def run(self) -> None:
        """From Starting to a terminal status."""
        try:
            self.record.move("Starting")
            while self._life():
                self._restarts += 1
        except NoSuchData as error:
            self._end_hosts()
            self.record.fail(f"ClientError: Data download failed:{error}")
        except Exception as error:
            logger.exception("job %s", self.record.name)
            self._end_hosts()
            self.record.fail(f"InternalServerError: emulator: {error!r}")

    def _life(self) -> bool:
        """One start of the cluster. True: the service starts it again."""
        if self._world.faults.take("capacity", self.record.name):
            self._pause(self._settings.provision_seconds)
            self.record.fail(CAPACITY)
            return False
        self._pause(0.0 if self._warm else self._settings.provision_seconds)
        if self._stop:
            return self._stopped("Stopped")
        self.record.move("Downloading")
        port, request = _free_port(), self.record.request
        cluster = members(request)
        self.hosts = [Host(self._world, request, member, cluster, port) for member in cluster]
        for host in self.hosts:
            host.prepare()
        if self._stop:
            return self._stopped("Stopped")
        self.record.move("Training")
        begun = time.monotonic()
        for host in self.hosts:
            host.start(self._ended)
        try:
            return self._watch(begun)
        finally:
            self._end_hosts()

    def _watch(self, begun: float) -> bool:
        limit = begun + float(
            self.record.request["StoppingCondition"].get("MaxRuntimeInSeconds", 86_400)
        )
        synced = begun
        while True:
            with self._wake:
                self._wake.wait(timeout=self._settings.look_seconds)
                interrupt, self._interrupt = self._interrupt, None
            self._fire_triggers()
            now = time.monotonic()
            if now - synced > self._settings.sync_seconds:
                self._sync()
                synced = now
            failed = [host for host in self.hosts if host.exit_code not in (None, 0)]
            if self._lost:
                return self._after_loss(begun)
            if interrupt is not None:
                return self._after_interrupt(interrupt, begun)
            if self._stop:
                self.record.move("Stopping", "Stopping")
                return self._shut_down("Stopped", begun)
            if now > limit:
                return self._shut_down("MaxRuntimeExceeded", begun)
            if failed:
                return self._after_failure(failed[0], begun)
            if all(host.exit_code == 0 for host in self.hosts):
                self.record.trained(now - begun)
                return self._complete()

    def _complete(self) -> bool:
        self.record.move("Uploading")
        self._save()
        self._keep_pool()
        self.record.move("Completed", "Completed")
        return False

    def _after_failure(self, first: Host, begun: float) -> bool:
        # The others may say more before they are ended, as victims do.
        self._grace(self._settings.sibling_seconds, terminate=True)
        self.record.trained(time.monotonic() - begun)
        if self._lost:
            return self._after_loss(time.monotonic())
        text = first.failure() or next((h.failure() for h in self.hosts if h.failure()), "")
        self._sync()
        self._keep_pool()
        self.record.fail(f"AlgorithmError: {text}, exit code: {first.exit_code}")
        return False

    def _after_loss(self, begun: float) -> bool:
        """The other hosts are ours, and train, until the loss is noticed."""
        self._lost = False
        self._grace(self._settings.sibling_seconds, terminate=False)
        self.record.trained(time.monotonic() - begun)
        strategy = self.record.request.get("RetryStrategy", {})
        if self._restarts < int(strategy.get("MaximumRetryAttempts", 0)):
            self.record.move("Restarting")
            self.record.move("Starting")
            return True
        self.record.fail(INTERNAL)
        return False

    def _after_interrupt(self, capacity_back: bool, begun: float) -> bool:
        self._grace(self._settings.stop_seconds, terminate=True)
        self._sync()
        self.record.trained(time.monotonic() - begun)
        self.record.move("Interrupted")
        if capacity_back:
            self.record.move("Starting", message="Preparing the instances for training")
            return True
        self.record.move("MaxWaitTimeExceeded", "Stopped")
        return False

    def _shut_down(self, secondary: str, begun: float) -> bool:
        self._grace(self._settings.stop_seconds, terminate=True)
        self.record.trained(time.monotonic() - begun)
        self._save()
        return self._stopped(secondary)

    def _stopped(self, secondary: str) -> bool:
        self._keep_pool()
        self.record.move(secondary, "Stopped")
        return False

    def _grace(self, seconds: float, terminate: bool) -> None:
        """Let the hosts end within ``seconds``, asked or not; then kill what is left."""
        if terminate:
            for host in self.hosts:
                host.terminate()
        deadline = time.monotonic() + seconds
        with self._wake:
            while any(host.running for host in self.hosts):
                left = deadline - time.monotonic()
                if left <= 0 or self._world.closing.is_set():
                    break
                self._wake.wait(timeout=min(left, 0.5))
        self._end_hosts()

    def _end_hosts(self) -> None:
        for host in self.hosts:
            if host.running:
                host.signal(signal.SIGKILL)
                host.kill()
        for host in self.hosts:
            with self._wake:
                self._wake.wait_for(lambda host=host: not host.running, timeout=10)  # type: ignore
            self.record.metrics.update(host.final)

    def _ended(self, host: Host) -> None:
        with self._wake:
            self._wake.notify_all()

    def _fire_triggers(self) -> None:
        reached = max((host.step for host in self.hosts), default=-1)
        with self._wake:
            due = [do for step, do in self._triggers if reached >= step]
            self._triggers = [(step, do) for step, do in self._triggers if reached < step]
        for do in due:
            do()

    def _sync(self) -> None:
        checkpoints = self.record.request.get("CheckpointConfig")
        events = self.record.request.get("TensorBoardOutputConfig")
        for host in self.hosts:
            known = self._synced.setdefault(host.name, {})
            if checkpoints:
                upload_changes(host.checkpoints, checkpoints["S3Uri"], known)
            if events:
                known = self._synced.setdefault(f"{host.name}/tensorboard", {})
                upload_changes(host.root / "output" / "tensorboard", events["S3OutputPath"], known)

    def _save(self) -> None:
        self._sync()
        path = self.record.request["OutputDataConfig"]["S3OutputPath"].rstrip("/")
        base = f"{path}/{self.record.name}/output"
        model = archive([host.root / "model" for host in self.hosts])
        output = archive([host.root / "output" / "data" for host in self.hosts])
        if model:
            upload_file(f"{base}/model.tar.gz", model)
            self.record.model_uri = f"{base}/model.tar.gz"
        if output:
            upload_file(f"{base}/output.tar.gz", output)

    def _keep_pool(self) -> None:
        seconds = int(self.record.request["ResourceConfig"].get("KeepAlivePeriodInSeconds", 0))
        if seconds:
            self.record.warm_pool = {"Status": "Available"}
            self._world.background(lambda: self._end_pool(seconds), f"pool {self.record.name}")

    def _end_pool(self, seconds: float) -> None:
        if not self._world.closing.wait(self._world.scaled(seconds)):
            pool = self.record.warm_pool
            if pool and pool["Status"] == "Available":
                pool["Status"] = "Terminated"

    def _pause(self, seconds: float) -> None:
        with self._wake:
            self._wake.wait_for(lambda: self._stop, timeout=seconds)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
