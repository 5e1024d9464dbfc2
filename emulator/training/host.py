"""One host of a training job: its own ``/opt/ml``, its container's process, its log stream."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from emulator import cfn_fsx
from emulator.cloudwatch import put_metrics, write_log
from emulator.front import HOST_KEY_PREFIX
from emulator.names import REGION, arn
from emulator.processes import base_environment
from emulator.training.machines import Member
from emulator.training.storage import NoSuchData, download
from emulator.world import World
from everstep.contracts.instances import INSTANCE_TYPES
from everstep.contracts.progress import parse_line

ROOT = Path(__file__).resolve().parents[2]
"""The repository: the stand-in for what the image holds."""
LOG_GROUP = "/aws/sagemaker/TrainingJobs"
DEFAULT_COMMAND = ["python", "-m", "trainer.launch"]
_FOLDERS = ("input/config", "input/data", "output/data", "model", "checkpoints")


class Host:
    """Started once a life of the job; a restart of the job makes new ones."""

    def __init__(
        self, world: World, request: dict[str, Any], me: Member, cluster: list[Member], port: int
    ) -> None:
        self.name = name = me.host
        self._me, self._cluster = me, cluster
        self.job = request["TrainingJobName"]
        self.part = f"host:{self.job}/{name}"
        self.root = world.state / "jobs" / self.job / name
        self.exit_code: int | None = None
        self.step = -1
        self.final: dict[str, float] = {}
        self._world = world
        self._request = request
        self._hosts = [member.host for member in cluster]
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        definitions = request["AlgorithmSpecification"].get("MetricDefinitions", [])
        self._metrics = [(d["Name"], re.compile(d["Regex"])) for d in definitions]
        self._stream = f"{self.job}/{name}-{int(time.time())}"

    def prepare(self) -> None:
        """Lay out the folders and the configuration files, and download the channels."""
        for folder in _FOLDERS:
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        config = self.root / "input" / "config"
        (config / "resourceconfig.json").write_text(json.dumps(self._resource_config()))
        parameters = self._request.get("HyperParameters", {})
        (config / "hyperparameters.json").write_text(json.dumps(parameters))
        channels = {c["ChannelName"]: c for c in self._channels()}
        mode = self._request["AlgorithmSpecification"]["TrainingInputMode"]
        described = {
            name: {
                "TrainingInputMode": channel.get("InputMode", mode),
                "S3DistributionType": _distribution(channel),
                "RecordWrapperType": channel.get("RecordWrapperType", "None"),
            }
            for name, channel in channels.items()
        }
        (config / "inputdataconfig.json").write_text(json.dumps(described))
        for name, channel in channels.items():
            self._channel(self.root / "input" / "data" / name, channel)
        checkpoints = self._request.get("CheckpointConfig")
        if checkpoints:
            download(checkpoints["S3Uri"], self.checkpoints)

    @property
    def checkpoints(self) -> Path:
        """The local checkpoint folder, below this host's root."""
        local = self._request.get("CheckpointConfig", {}).get("LocalPath", "/opt/ml/checkpoints")
        return self.root / str(local).removeprefix("/opt/ml").lstrip("/")

    def start(self, ended: Callable[["Host"], None]) -> None:
        """Run the container's command; ``ended`` is called when its main process has ended."""
        reading, writing = os.pipe()
        self._process = self._world.processes.start(
            self._command(), self.part, self._environment(), cwd=ROOT, stdout=writing
        )
        os.close(writing)
        self._reader = threading.Thread(
            target=self._read, args=(reading,), name=self.part, daemon=True
        )
        self._reader.start()
        threading.Thread(target=self._wait, args=(ended,), name=self.part, daemon=True).start()

    @property
    def running(self) -> bool:
        return self._process is not None and self.exit_code is None

    def terminate(self) -> None:
        """SIGTERM to the container's main process, as ``docker stop`` sends it."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to everything of this host."""
        self._world.processes.kill_part(self.part)

    def signal(self, number: int) -> list[int]:
        """Signal every process of this host, in whichever session."""
        return self._world.processes.signal_part(self.part, number)

    def failure(self) -> str:
        """What the container wrote to ``/opt/ml/output/failure``."""
        try:
            return (self.root / "output" / "failure").read_text(errors="replace").strip()
        except FileNotFoundError:
            return ""

    def _wait(self, ended: Callable[["Host"], None]) -> None:
        assert self._process
        assert self._reader
        code = self._process.wait()
        # A container ends with its first process: nothing outlives it.
        self._world.processes.kill_part(self.part)
        self._reader.join(timeout=5)
        self.exit_code = code if code >= 0 else 128 - code
        ended(self)

    def _read(self, descriptor: int) -> None:
        rest = b""
        with os.fdopen(descriptor, "rb", buffering=0) as output:
            while data := output.read(1 << 16):
                *lines, rest = (rest + data).split(b"\n")
                self._lines([line.decode(errors="replace") for line in lines])
        if rest:
            self._lines([rest.decode(errors="replace")])

    def _lines(self, lines: list[str]) -> None:
        # A log event holds at most 256 KiB.
        write_log(LOG_GROUP, self._stream, [line[:262_118] for line in lines])
        for line in lines:
            values = {}
            for name, regex in self._metrics:
                match = regex.search(line)
                if match:
                    values[name] = _number(match[1])
            found = {name: value for name, value in values.items() if value is not None}
            if found:
                self.final.update(found)
                put_metrics(LOG_GROUP, found, {"TrainingJobName": self.job})
            progress = parse_line(line) if '"everstep"' in line else None
            if progress and progress.everstep == "step" and progress.step is not None:
                self.step = progress.step

    def _command(self) -> list[str]:
        algorithm = self._request["AlgorithmSpecification"]
        command = [
            *algorithm.get("ContainerEntrypoint", DEFAULT_COMMAND),
            *algorithm.get("ContainerArguments", []),
        ]
        if command[0] in ("python", "python3"):
            command[0] = sys.executable
        if command[0] == "torchrun":
            command[:1] = [sys.executable, "-m", "torch.distributed.run"]
        # All hosts are this machine: what /etc/hosts does there, and a port for each job.
        here = f"127.0.0.1:{self._port}"
        return [self._here(re.sub(r"\balgo-1:[0-9]+", here, word)) for word in command]

    def _here(self, path: str) -> str:
        """A container's own path, as this machine has it for this host."""
        below = path.removeprefix("/opt/ml/")
        return path if below == path else str(self.root / below)

    def _environment(self) -> dict[str, str]:
        key = HOST_KEY_PREFIX + hashlib.sha256(self.job.encode()).hexdigest()[:16].upper()
        self._world.faults.know_host(key, self.job)
        kind = INSTANCE_TYPES.get(self._me.instance_type)
        channels = [c["ChannelName"] for c in self._channels()]
        return {
            **base_environment(),
            "AWS_ENDPOINT_URL": self._world.endpoint,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": "localhost,127.0.0.1",
            "TRAINING_JOB_NAME": self.job,
            "TRAINING_JOB_ARN": arn("sagemaker", f"training-job/{self.job}"),
            "SM_CURRENT_HOST": self.name,
            "SM_HOSTS": json.dumps(self._hosts),
            "SM_NUM_GPUS": str(kind.gpus if kind else 0),
            "SM_CHANNELS": json.dumps(channels),
            "SM_MODEL_DIR": str(self.root / "model"),
            "SM_OUTPUT_DATA_DIR": str(self.root / "output" / "data"),
            "SM_NETWORK_INTERFACE_NAME": "lo",
            **{f"SM_CHANNEL_{c.upper()}": str(self.root / "input" / "data" / c) for c in channels},
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "OMP_NUM_THREADS": "1",
            **{k: self._here(v) for k, v in self._request.get("Environment", {}).items()},
            # Where this machine differs from a SageMaker host: not for the job to change.
            "EVERSTEP_ML_ROOT": str(self.root),
            "EVERSTEP_MASTER_ADDR": "127.0.0.1",
            "EVERSTEP_RDZV_PORT": str(self._port),
        }

    def _resource_config(self) -> dict[str, Any]:
        groups: dict[str, dict[str, Any]] = {}
        for host, group, kind in self._cluster:
            row = {"instance_group_name": group, "instance_type": kind, "hosts": []}
            groups.setdefault(group, row)["hosts"].append(host)
        return {
            "current_host": self.name,
            "current_instance_type": self._me.instance_type,
            "current_group_name": self._me.group,
            "hosts": self._hosts,
            "instance_groups": list(groups.values()),
            "network_interface_name": "lo",
        }

    def _channels(self) -> list[dict[str, Any]]:
        """Those that this host's group gets."""
        return [
            channel
            for channel in self._request.get("InputDataConfig", [])
            if self._me.group
            in channel["DataSource"]
            .get("S3DataSource", {})
            .get("InstanceGroupNames", [self._me.group])
        ]

    def _channel(self, folder: Path, channel: dict[str, Any]) -> None:
        source = channel["DataSource"]
        if "FileSystemDataSource" in source:
            system = source["FileSystemDataSource"]
            name, directory = system["FileSystemId"], system["DirectoryPath"]
            mount, _, path = directory.lstrip("/").partition("/")
            mounted = cfn_fsx.folder(self._world, name) / mount
            if not mounted.is_dir():
                raise NoSuchData(f"{name} cannot be mounted as {mount}")
            shared, prefix = mounted / path, cfn_fsx.linked_prefix(self._world, name, path)
            with _IMPORT:
                if prefix and not shared.exists():
                    shared.mkdir(parents=True)
                    download(f"{prefix}/", shared)
            if not shared.is_dir():
                raise NoSuchData(f"{name} has no directory {directory}")
            folder.symlink_to(shared, target_is_directory=True)
            return
        folder.mkdir(exist_ok=True)
        index = self._hosts.index(self.name)
        sharded = _distribution(channel) == "ShardedByS3Key"
        share = (index, len(self._hosts)) if sharded else (0, 1)
        download(source["S3DataSource"]["S3Uri"], folder, share)


_IMPORT = threading.Lock()
"""A file system is shared: the first host imports, and no other reads half a file."""


def _distribution(channel: dict[str, Any]) -> str:
    source = channel["DataSource"].get("S3DataSource", {})
    return str(source.get("S3DataDistributionType", "FullyReplicated"))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None  # the regular expression caught something that is no number
