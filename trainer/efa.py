"""Is EFA carrying NCCL's traffic, with GPUDirect? Read from NCCL's own log, not from what is set.

The forms of the lines are those that users show in public: aws/aws-ofi-nccl issues 49, 67, 161 and
889, NVIDIA/nccl issues 229, 527, 959 and 1597.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple, Self

from everstep.contracts.instances import INSTANCE_TYPES

NO_SETTINGS_SINCE = (1, 18)
"""libfabric from which on EFA needs no variable (with aws-ofi-nccl 1.7, which came with it)."""
OLD_SETTINGS = {
    "FI_PROVIDER": "efa",
    "FI_EFA_USE_DEVICE_RDMA": "1",
    "FI_EFA_FORK_SAFE": "1",
    "RDMAV_FORK_SAFE": "1",
    "NCCL_PROTO": "simple",
}
"""For images below that. On newer ones ``NCCL_PROTO`` bars the faster protocols."""
KNOWN_BAD = {(1, 18, 0): "hangs on large broadcasts between nodes"}
"""Versions of aws-ofi-nccl, see containers/versions.toml."""
INSTALLER_FLOOR = "1.48.0"
"""Of the EFA installer, see containers/versions.toml."""
KNOWN_BAD_INSTALLERS = {"1.47.0": "its aws-ofi-nccl 1.18.0 hangs on large broadcasts between nodes"}
WITHOUT_GPUDIRECT = ("ml.g5.", "ml.g6.", "ml.g6e.", "ml.p3dn.")
"""EFA types whose device cannot read GPU memory."""

_NETWORK = re.compile(r"NCCL INFO Using network (?:AWS )?(\w+)")
_PROVIDER = re.compile(
    r"NET/OFI Selected [Pp]rovider is ([\w;-]+)(?:, fabric is ([\w-]+))?(?: \(found (\d+) nics\))?"
)
_PLUGIN = re.compile(r"NET/OFI (?:Using|Initializing) aws-ofi-nccl (\d+)\.(\d+)(?:\.(\d+))?")
_VIA = re.compile(r"\[(?:send|receive)\] via NET/(?:AWS )?(\w+)/\d+(\S*)")
_NCCL = re.compile(r"NCCL version (\d+)\.(\d+)\.(\d+)")
_TROUBLE = re.compile(
    r"NCCL WARN NET/OFI .*|NET/Plugin ?: (?:No plugin found|Could not find: libnccl-net).*"
    r"|libfabric:.*provider efa output empty list.*|.*FI_HMEM capability requires RDMA.*"
)


class Fabric(NamedTuple):
    """What a log says; None and empty where it does not."""

    networks: frozenset[str] = frozenset()
    """Each that a communicator chose: ``Libfabric``, ``Socket``, ``IB``."""
    provider: str | None = None
    plugin: tuple[int, int, int] | None = None
    nccl: tuple[int, int, int] | None = None
    routes: frozenset[tuple[str, bool]] = frozenset()
    """(network, GPUDirect) of each channel between nodes."""
    trouble: str = ""
    """The first line that tells why."""

    def plus(self, other: Self) -> "Fabric":
        """Two ranks of one node together."""
        return Fabric(
            self.networks | other.networks,
            self.provider or other.provider,
            self.plugin or other.plugin,
            self.nccl or other.nccl,
            self.routes | other.routes,
            self.trouble or other.trouble,
        )


def read_log(lines: Iterable[str]) -> Fabric:
    """Everything that ``NCCL_DEBUG=INFO`` told of the network."""
    found = Fabric()
    for line in lines:
        if match := _NETWORK.search(line):
            found = found._replace(networks=found.networks | {match[1]})
        elif match := _PROVIDER.search(line):
            found = found._replace(provider=match[1])
        elif match := _PLUGIN.search(line):
            found = found._replace(plugin=(int(match[1]), int(match[2]), int(match[3] or 0)))
        elif match := _VIA.search(line):
            found = found._replace(routes=found.routes | {(match[1], "GDRDMA" in match[2])})
        elif match := _NCCL.search(line):
            found = found._replace(nccl=(int(match[1]), int(match[2]), int(match[3])))
        elif not found.trouble and (match := _TROUBLE.search(line)):
            found = found._replace(trouble=match[0].strip()[:300])
    return found


def refusal(fabric: Fabric, instance_type: str) -> str | None:
    """Why a job of several such hosts must not start, or None."""
    known = INSTANCE_TYPES.get(instance_type)
    if known is None or known.efa_interfaces == 0:
        return None
    why = f": {fabric.trouble}" if fabric.trouble else ""
    if fabric.plugin in KNOWN_BAD:
        version = ".".join(map(str, fabric.plugin or ()))
        return f"aws-ofi-nccl {version} {KNOWN_BAD[fabric.plugin]}"
    if not fabric.networks and not fabric.routes:
        return f"NCCL's log does not say which network it uses on {instance_type}{why}"
    used = fabric.networks | {network for network, _ in fabric.routes}
    if slow := sorted(used - {"Libfabric"}):
        return f"NCCL uses {slow[0]} on {instance_type}, which has EFA{why}"
    if fabric.provider is not None and not fabric.provider.startswith("efa"):
        return f"libfabric's provider is {fabric.provider} on {instance_type}, not efa{why}"
    direct = not instance_type.startswith(WITHOUT_GPUDIRECT)
    if direct and fabric.routes and not any(gpu for _, gpu in fabric.routes):
        return f"NCCL uses EFA without GPUDirect on {instance_type}{why}"
    return None


def settings(libfabric: tuple[int, int] | None) -> dict[str, str]:
    """Environment for EFA: none from libfabric 1.18 on, or where there is no libfabric."""
    if libfabric is None or libfabric >= NO_SETTINGS_SINCE:
        return {}
    return dict(OLD_SETTINGS)


def libfabric_version(text: str) -> tuple[int, int] | None:
    """Of what ``fi_info --version`` prints."""
    match = re.search(r"libfabric: (\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None
