"""Puts the emulator together and serves it until a signal ends it."""

import json
import logging
import os
import signal
import socket
import threading
from pathlib import Path

from moto.core.config import default_user_config
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import BaseWSGIServer, make_server

from emulator.access_log import AccessLog
from emulator.builds import Builds
from emulator.bus import Bus
from emulator.cfn_engine import CloudFormation
from emulator.control_api import ControlApi
from emulator.data_tasks import DataTasks
from emulator.executions import Executions
from emulator.file_systems import FileSystems
from emulator.front import Front
from emulator.lambda_pool import LambdaPool
from emulator.log_filter import LogFilter
from emulator.moto_patches import patch_moto
from emulator.queues import QueuePollers
from emulator.quotas import Quotas
from emulator.schedules import Schedules
from emulator.training.api import TrainingApi
from emulator.world import World

logger = logging.getLogger("emulator")


class Emulator:
    """All parts of one emulator. One a process: moto's backends are module globals."""

    def __init__(self, state: Path, port: int = 0, minute: float = 60.0) -> None:
        state.mkdir(parents=True, exist_ok=True)
        _configure_moto()
        # Bound before anything starts, so that port 0 has its number.
        self._socket = _listen(port)
        number = self._socket.getsockname()[1]
        os.environ["MOTO_PORT"] = str(number)
        self.world = World(state.resolve(), number, minute)
        self.front = Front(DomainDispatcherApplication(create_backend_app), self.world.faults)
        self.access = AccessLog(self.world)
        self.lambdas = LambdaPool(self.world, self.access)
        self.bus = Bus(self.world, self.lambdas)
        self.executions = Executions(self.world, self.bus, self.lambdas)
        self.quotas = Quotas()
        self.builds = Builds(self.world)
        self.training = TrainingApi(self.world, self.bus, self.quotas)
        self.cloudformation = CloudFormation(self.world)
        self.schedules = Schedules(self.world, self.lambdas, self.bus)
        self.pollers = QueuePollers(self.world, self.lambdas)
        self.front.control = ControlApi(self).handle
        for part in (
            self.bus,
            self.executions,
            self.quotas,
            self.builds,
            self.training,
            LogFilter(),
            DataTasks(self.world),
            FileSystems(self.world, self.training.settings),
        ):
            part.register(self.front)
        self._server: BaseWSGIServer | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Serve in the background."""
        self._server = make_server(
            "localhost",
            self.world.port,
            self.front,
            threaded=True,
            request_handler=MotoRequestHandler,
            fd=self._socket.fileno(),
        )
        serve_forever = self._server.serve_forever
        self._thread = threading.Thread(target=serve_forever, name="http", daemon=True)
        self._thread.start()
        self.lambdas.start()
        self.schedules.start()
        self.pollers.start()
        record = {"pid": os.getpid(), "port": self.world.port, "endpoint": self.world.endpoint}
        made = self.world.state / "emulator.json.part"
        made.write_text(json.dumps(record))
        made.rename(self.world.state / "emulator.json")

    def close(self) -> None:
        """End every process and the server."""
        self.world.closing.set()
        self.world.processes.close()
        if self._server:
            self._server.shutdown()
            self._server.server_close()
        self._socket.close()
        (self.world.state / "emulator.json").unlink(missing_ok=True)


def serve(state: Path, port: int, minute: float) -> int:
    """Run until SIGTERM or SIGINT. Prints one JSON line with the endpoint when ready."""
    state.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(
        filename=state / "emulator.log",
        level=logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    logger.setLevel(logging.INFO)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    emulator = Emulator(state, port, minute)
    try:
        emulator.start()
        print(json.dumps({"endpoint": emulator.world.endpoint}), flush=True)
        stop.wait()
    finally:
        emulator.close()
    return 0


def _configure_moto() -> None:
    default_user_config["stepfunctions"] = {"execute_state_machine": True}
    default_user_config["lambda"] = {"use_docker": False}
    os.environ.setdefault("MOTO_ACCOUNT_ID", "123456789012")
    # moto's own calls of itself (Step Functions' service integrations) need some credentials.
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    # Our own proxy settings must not catch requests to ourselves.
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "localhost,127.0.0.1"
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    patch_moto()


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(512)
    listener.set_inheritable(False)
    return listener
