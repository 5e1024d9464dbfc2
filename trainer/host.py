"""Where a process of the trainer runs: SageMaker's files, the launcher's words, torchrun's.

Parsed once in each entry point; no other module of the trainer reads the environment.
"""

import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from everstep.contracts.env import TrainerEnv
from trainer.errors import ConfigError

DEFAULT_PORT = 29400
Number = TypeVar("Number", int, float)


def number_of(environ: Mapping[str, str], name: str, default: Number) -> Number:
    """A variable of the type of its default. Raises ``ConfigError``."""
    text = environ.get(name)
    if not text:
        return default
    try:
        return type(default)(text)
    except ValueError as error:
        raise ConfigError(f"{name}={text!r} is no number", "a number, or unset") from error


def env_of(environ: Mapping[str, str]) -> TrainerEnv:
    """``TrainerEnv``. Raises ``ConfigError``."""
    try:
        return TrainerEnv.parse(environ)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = f"EVERSTEP_{str(first['loc'][0]).upper()}"
        raise ConfigError(
            f"{name}={first['input']!r}: {first['msg'].removeprefix('Value error, ')}",
            "mend or unset it",
        ) from error


class MlRoot(BaseModel):
    """SageMaker's folder layout. ``EVERSTEP_ML_ROOT`` moves it (the emulator has one a host)."""

    model_config = ConfigDict(frozen=True)

    root: Path = Path("/opt/ml")

    @classmethod
    def parse(cls, environ: Mapping[str, str]) -> Self:
        return cls(root=Path(environ.get("EVERSTEP_ML_ROOT") or "/opt/ml"))

    @property
    def failure_file(self) -> Path:
        return self.root / "output" / "failure"

    def channel(self, name: str) -> Path:
        return self.root / "input" / "data" / name

    def config(self, name: str) -> dict[str, Any]:
        """``input/config/{name}.json``; empty where the platform wrote none."""
        path = self.root / "input" / "config" / f"{name}.json"
        try:
            loaded = json.loads(path.read_text())
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise ConfigError(f"{path} is not JSON: {error}", "see what wrote it") from error
        if not isinstance(loaded, dict):
            raise ConfigError(f"{path} holds no object", "see what wrote it")
        return loaded


class Cluster(BaseModel):
    """The job's hosts as the launcher of one host sees them."""

    model_config = ConfigDict(frozen=True)

    hosts: list[str]
    current: str
    interface: str | None
    ranks_per_node: int
    master_addr: str
    master_port: int

    @classmethod
    def parse(cls, environ: Mapping[str, str], ml: MlRoot) -> Self:
        """resourceconfig.json, else ``SM_*``, else this host alone."""
        resource = ml.config("resourceconfig")
        try:
            hosts = resource.get("hosts") or json.loads(environ.get("SM_HOSTS") or "[]")
        except ValueError as error:
            raise ConfigError(
                f"SM_HOSTS={environ['SM_HOSTS']!r} is not JSON", 'for example ["algo-1"]'
            ) from error
        hosts = list(hosts) or ["localhost"]
        current = resource.get("current_host") or environ.get("SM_CURRENT_HOST") or hosts[0]
        if current not in hosts:
            raise ConfigError(
                f"current_host {current!r} is not among hosts {hosts}",
                "resourceconfig.json (or SM_HOSTS and SM_CURRENT_HOST) must agree",
            )
        devices = len(list(Path("/dev").glob("nvidia[0-9]*")))
        gpus = number_of(
            environ, "EVERSTEP_RANKS_PER_NODE", number_of(environ, "SM_NUM_GPUS", devices)
        )
        return cls(
            hosts=hosts,
            current=current,
            interface=resource.get("network_interface_name")
            or environ.get("SM_NETWORK_INTERFACE_NAME"),
            ranks_per_node=max(1, gpus),
            master_addr=environ.get("EVERSTEP_MASTER_ADDR")
            or ("127.0.0.1" if len(hosts) == 1 else hosts[0]),
            master_port=number_of(environ, "EVERSTEP_RDZV_PORT", DEFAULT_PORT),
        )

    @property
    def node(self) -> int:
        return self.hosts.index(self.current)

    def worker_environment(self, local_rank: int) -> dict[str, str]:
        """torch's ``env://`` variables for one worker of this host."""
        environment = {
            "RANK": str(self.node * self.ranks_per_node + local_rank),
            "LOCAL_RANK": str(local_rank),
            "WORLD_SIZE": str(len(self.hosts) * self.ranks_per_node),
            "LOCAL_WORLD_SIZE": str(self.ranks_per_node),
            "MASTER_ADDR": self.master_addr,
            "MASTER_PORT": str(self.master_port),
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
            "EVERSTEP_HOST": self.current,
        }
        loopback = self.master_addr in ("127.0.0.1", "localhost")
        interface = "lo" if loopback else self.interface
        if interface:
            # gloo otherwise resolves the host's own name, which a container may not know
            environment |= {"GLOO_SOCKET_IFNAME": interface}
        if self.interface and not loopback:
            environment |= {"NCCL_SOCKET_IFNAME": self.interface}
        return environment


class Worker(BaseModel):
    """One rank, as its launcher (ours, or torchrun) describes it."""

    model_config = ConfigDict(frozen=True)

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    local_world_size: int = 1
    host: str = "localhost"
    ml: MlRoot = MlRoot()
    node_dir: Path
    """Folder that the ranks of one node share: stop file, staged checkpoints."""
    launcher_pid: int | None = None
    """Die when this process, our parent, is gone. None under torchrun."""
    started_epoch: float
    """When this host's launcher started: what the job's longest run time is counted from."""
    collective_timeout: float = 600.0
    """Seconds until a collective that does not finish becomes an error."""
    start_timeout: float = 1800.0
    """The same until the first steps are done."""
    generation: int = 0
    """Restarts of the ranks in this job so far, by our launcher. The same on every rank."""
    lost_epoch: float = 0.0
    noticed_epoch: float = 0.0
    spawned_epoch: float = 0.0
    """Of a restart: when the last step was done, when the end of the former ranks was noticed, and
    when this rank's process was started."""
    joined_epoch: float = 0.0
    """When all ranks had met."""

    @classmethod
    def parse(cls, environ: Mapping[str, str]) -> Self:
        port = environ.get("MASTER_PORT", "alone")
        shared = Path(tempfile.gettempdir()) / f"everstep-{environ.get('USER', 'user')}-{port}"
        return cls(
            rank=number_of(environ, "RANK", 0),
            local_rank=number_of(environ, "LOCAL_RANK", 0),
            world_size=number_of(environ, "WORLD_SIZE", 1),
            local_world_size=number_of(environ, "LOCAL_WORLD_SIZE", 1),
            host=environ.get("EVERSTEP_HOST") or "localhost",
            ml=MlRoot.parse(environ),
            node_dir=Path(environ.get("EVERSTEP_NODE_DIR") or shared),
            launcher_pid=number_of(environ, "EVERSTEP_LAUNCHER_PID", 0) or None,
            started_epoch=number_of(environ, "EVERSTEP_STARTED_EPOCH", time.time()),
            collective_timeout=number_of(environ, "EVERSTEP_COLLECTIVE_TIMEOUT", 600.0),
            start_timeout=number_of(environ, "EVERSTEP_START_TIMEOUT", 1800.0),
            generation=number_of(environ, "EVERSTEP_GENERATION", 0),
            lost_epoch=number_of(environ, "EVERSTEP_LOST_EPOCH", 0.0),
            noticed_epoch=number_of(environ, "EVERSTEP_NOTICED_EPOCH", 0.0),
            spawned_epoch=number_of(environ, "EVERSTEP_SPAWNED_EPOCH", 0.0),
        )

    @property
    def node(self) -> int:
        return self.rank // self.local_world_size

    @property
    def stop_file(self) -> Path:
        """Its text is the reason why the launcher asks every rank to save and stop."""
        return self.node_dir / "stop"

    def pulse_file(self, local_rank: int) -> Path:
        return self.node_dir / "pulse" / str(local_rank)

    @property
    def record_request(self) -> Path:
        """Made by the launcher when it wants every rank's flight record."""
        return self.node_dir / "flight" / "wanted"

    def record(self, rank: int) -> Path:
        return self.node_dir / "flight" / f"rank-{rank}"

    def nccl_log(self, pid: int) -> Path:
        """Where the launcher has NCCL write what it says of itself."""
        return self.node_dir / f"nccl-{pid}.log"

    @property
    def step_file(self) -> Path:
        """Rank 0 touches it after each step."""
        return self.node_dir / "step"
