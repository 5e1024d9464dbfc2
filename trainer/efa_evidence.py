"""What an image and its host say of EFA: gathered once, so that it can be judged here or elsewhere.

Standard library only, and no torch unless it is there: it runs in a build, on a laptop, in a job.
"""

import ctypes
import importlib
import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

FI_INFO = "opt/amazon/efa/bin/fi_info"
PACKAGES = "opt/amazon/efa_installed_packages"
PLUGINS = (
    "opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so",
    "opt/amazon/ofi-nccl/lib/libnccl-net.so",
    "opt/amazon/ofi-nccl/lib/x86_64-linux-gnu/libnccl-net.so",
    "opt/aws-ofi-nccl/lib/libnccl-net.so",
    "opt/aws-ofi-nccl/install/lib/libnccl-net.so",
)
"""Where installers of several years have put it (public Dockerfiles; DLC's and the installer's)."""
LIBRARIES = ("libfabric.so.1", "libnccl.so.2", "libgdrapi.so.2")
VARIABLES = re.compile(r"(NCCL|FI|OFI_NCCL|RDMAV|GDRCOPY)_\w+|LD_LIBRARY_PATH|LD_PRELOAD")
SECONDS = 60.0


class Evidence(NamedTuple):
    """Texts as the tools print them; empty where a tool or a file is not there."""

    packages: str = ""
    """The EFA installer's own list."""
    fi_version: str = ""
    fi_info: str = ""
    """Of ``fi_info -p efa``, errors included."""
    plugin_path: str = ""
    plugin_version: str = ""
    """``1.20.0``: in the plugin's own text."""
    nccl_loaded: str = ""
    """What the loader gives for libnccl.so.2 once torch is there."""
    nccl_torch: str = ""
    """``torch.cuda.nccl.version()``: a constant of its build."""
    ldconfig: str = ""
    """Of ``ldconfig -p``, the lines on ``LIBRARIES``."""
    shadows: Mapping[str, list[str]] = {}
    """Of each library, the files in the order of LD_LIBRARY_PATH."""
    environment: Mapping[str, str] = {}
    devices: Sequence[str] = ()
    """/dev/infiniband/uverbs*, /dev/gdrdrv, /dev/nvidia[0-9]*."""
    instance_type: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """The inverse of ``record``. Raises ValueError where it is none."""
        raw = json.loads(text)
        empty = cls(devices=[])
        if not isinstance(raw, dict) or any(
            name not in cls._fields or type(value) is not type(getattr(empty, name))
            for name, value in raw.items()
        ):
            raise ValueError("is no record of efa-check")
        return cls(**raw)

    def record(self) -> str:
        return json.dumps(self._asdict(), indent=1)


def gather(environ: Mapping[str, str], instance_type: str = "", root: Path = Path("/")) -> Evidence:
    """Of this machine. ``root``: where /opt and /dev are looked for."""
    plugin = next((root / path for path in PLUGINS if (root / path).exists()), None)
    listed = _said("ldconfig", "-p").splitlines()
    folders = [folder for folder in environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    found = {
        name: [str(path) for folder in folders if (path := Path(folder) / name).exists()]
        for name in LIBRARIES
    }
    devices = root / "dev"
    return Evidence(
        packages=_text(root / PACKAGES),
        fi_version=_said(str(root / FI_INFO), "--version"),
        fi_info=_said(str(root / FI_INFO), "-p", "efa"),
        plugin_path=str(plugin or ""),
        plugin_version=plugin_version(plugin.read_bytes()) if plugin else "",
        nccl_torch=_nccl_of_torch(),  # first: what torch has loaded is what it will use
        nccl_loaded=_nccl_loaded(),
        ldconfig="\n".join(x for x in listed if x.split() and x.split()[0] in LIBRARIES),
        shadows={name: paths for name, paths in found.items() if paths},
        environment={k: v for k, v in sorted(environ.items()) if VARIABLES.fullmatch(k)},
        devices=sorted(
            str(path.relative_to(root))
            for pattern in ("infiniband/uverbs*", "gdrdrv", "nvidia[0-9]*")
            for path in devices.glob(pattern)
        ),
        instance_type=instance_type or _instance_type(root),
    )


def plugin_version(content: bytes) -> str:
    """Of aws-ofi-nccl, which prints it when it is loaded: the text is in the file."""
    match = re.search(rb"aws-ofi-nccl (\d+\.\d+(?:\.\d+)?)", content)
    return match[1].decode() if match else ""


def dotted(version: int) -> str:
    """NCCL's own number: ``22907`` is 2.29.7, and before 2.9 ``2808`` was 2.8.8."""
    major, rest = divmod(version, 10_000 if version >= 10_000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def _nccl_loaded() -> str:
    number = ctypes.c_int()
    try:
        ctypes.CDLL("libnccl.so.2").ncclGetVersion(ctypes.byref(number))
    except (OSError, AttributeError):  # no torch for CUDA, and no NCCL beside it
        return ""
    return dotted(number.value)


def _nccl_of_torch() -> str:
    try:
        nccl: Any = importlib.import_module("torch.cuda.nccl")
        return ".".join(str(part) for part in nccl.version()[:3])
    except (ImportError, OSError, AttributeError, RuntimeError):  # no torch, or one for CPUs
        return ""


def _instance_type(root: Path) -> str:
    text = _text(root / "opt/ml/input/config/resourceconfig.json")
    try:
        return str(json.loads(text).get("current_instance_type", "")) if text else ""
    except (ValueError, AttributeError):
        return ""


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _said(*command: str) -> str:
    """Both streams: fi_info tells its failures on the second."""
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=SECONDS,
            env={"PATH": os.defpath + ":/sbin:/usr/sbin", **os.environ},
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout
