"""What efa-check has recorded of hosts: a good one, and each fault that keeps EFA unused.

Forms: libfabric issue 5689 and man fi_info (providers), aws-ofi-nccl issue 141 and
aws-parallelcluster-cookbook PR 1882 (the installer's list, Debian and RPM), aws-ofi-nccl issues 49,
161, 889 (the plugin's line), glibc's ``ldconfig -p``.
"""

from typing import Any

from trainer.efa_evidence import Evidence

PACKAGES = (
    "# EFA installer version: 1.49.0\n# Debug packages installed: no\n# Packages installed:\n"
    "efa-config_1.18_all efa-profile_1.7_all libfabric-aws-bin_2.4.0amzn1.0_amd64 "
    "libfabric1-aws_2.4.0amzn1.0_amd64 libnccl-ofi_1.20.0-1_amd64 openmpi40-aws_4.1.7-2_amd64\n"
)
OLD_DEBIAN = (
    "# EFA installer version: 1.17.2\n# Debug packages installed: no\n# Packages installed:\n"
    "efa-config_1.10_all efa-profile_1.5_all libfabric-aws-bin_1.16.0~amzn3.0_amd64 "
    "libfabric1-aws_1.16.0~amzn3.0_amd64 openmpi40-aws_4.1.4-1_amd64 rdma-core_41.0-1_amd64\n"
)
RPM = (
    "# EFA installer version: 1.49.0\n# Debug packages installed: no\n# Packages installed:\n"
    "efa-config-1.18-1.amzn2023.noarch libfabric-aws-2.4.0amzn1.0-1.amzn2023.x86_64 "
    "libfabric-aws-devel-2.4.0amzn1.0-1.amzn2023.x86_64 libnccl-ofi-1.20.0-1.amzn2023.x86_64\n"
)
FI_VERSION = (
    "/opt/amazon/efa/bin/fi_info: 2.4.0amzn1.0\nlibfabric: 2.4.0amzn1.0\nlibfabric api: 2.4\n"
)
LDCONFIG = (
    "\tlibnccl.so.2 (libc6,x86-64) => /opt/everstep/lib/python3.12/site-packages/nvidia/nccl/lib/"
    "libnccl.so.2\n"
    "\tlibgdrapi.so.2 (libc6,x86-64) => /opt/gdrcopy/lib/libgdrapi.so.2\n"
    "\tlibfabric.so.1 (libc6,x86-64) => /opt/amazon/efa/lib/libfabric.so.1\n"
)
NO_DATA = "fi_getinfo: -61 (No data available)\n"


def provider(domain: str, fabric: str = "efa", kind: str = "FI_EP_RDM", name: str = "efa") -> str:
    return (
        f"provider: {name}\n    fabric: {fabric}\n    domain: {domain}\n    version: 204.0\n"
        f"    type: {kind}\n    protocol: FI_PROTO_EFA\n"
    )


def interfaces(count: int) -> str:
    """As libfabric 2 lists them: direct, reliable and plain datagrams of each."""
    return "".join(
        provider(f"rdmap{79 + i}s0-rdm", "efa-direct")
        + provider(f"rdmap{79 + i}s0-rdm")
        + provider(f"rdmap{79 + i}s0-dgrm", kind="FI_EP_DGRAM")
        for i in range(count)
    )


GOOD = Evidence(
    packages=PACKAGES,
    fi_version=FI_VERSION,
    fi_info=interfaces(32),
    plugin_path="/opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so",
    plugin_version="1.20.0",
    nccl_loaded="2.29.7",
    nccl_torch="2.29.7",
    ldconfig=LDCONFIG,
    shadows={"libfabric.so.1": ["/opt/amazon/efa/lib/libfabric.so.1"]},
    environment={"LD_LIBRARY_PATH": "/opt/amazon/efa/lib", "NCCL_DEBUG": "INFO"},
    devices=["dev/gdrdrv", *(f"dev/infiniband/uverbs{i}" for i in range(32))],
    instance_type="ml.p5.48xlarge",
)


WRONG: list[tuple[str, dict[str, Any], str, str]] = [
    # fault, what is recorded, where it is said, a word of it
    ("no provider", {"fi_info": NO_DATA}, "provider efa", "-61 (No data available)"),
    ("fi_info says nothing", {"fi_info": ""}, "provider efa", "fi_info says nothing"),
    (
        "TCP fallback",
        {"fi_info": provider("eth0", "172.31.0.0/20", "FI_EP_MSG", "tcp")},
        "provider efa",
        "offers tcp instead: TCP fallback",
    ),
    (
        "sockets",
        {"fi_info": provider("eth0", name="sockets")},
        "provider efa",
        "offers sockets instead",
    ),
    ("one interface gone", {"fi_info": interfaces(31)}, "provider efa", "31 interfaces, ml.p5"),
    ("no devices", {"devices": ["dev/gdrdrv"]}, "EFA devices", "no /dev/infiniband/uverbs*"),
    ("a device gone", {"devices": GOOD.devices[:-1]}, "EFA devices", "31 in the container"),
    ("no installer", {"packages": ""}, "EFA installer", "is not in this image"),
    (
        "installer 1.47.0",
        {"packages": PACKAGES.replace("1.49.0", "1.47.0")},
        "EFA installer",
        "large broadcasts",
    ),
    (
        "installer 1.9.0, which is no number to compare as text",
        {"packages": PACKAGES.replace("1.49.0", "1.9.0")},
        "EFA installer",
        "older than 1.48.0",
    ),
    ("no fi_info", {"fi_version": ""}, "libfabric", "does not run"),
    (
        "Ubuntu's libfabric",
        {"fi_version": FI_VERSION.replace("2.4.0amzn1.0", "1.17.0")},
        "libfabric",
        "1.17 needs settings",
    ),
    (
        "libfabric of another install",
        {"fi_version": FI_VERSION.replace("2.4.0amzn1.0", "1.22.0")},
        "libfabric",
        "1.22 answers, the EFA installer brought 2.4.0",
    ),
    ("no plugin", {"plugin_path": "", "plugin_version": ""}, "aws-ofi-nccl", "would use TCP"),
    ("plugin 1.18.0", {"plugin_version": "1.18.0"}, "aws-ofi-nccl", "hangs on large broadcasts"),
    (
        "a plugin that was built beside the installer's",
        {"plugin_version": "1.14.2", "plugin_path": "/opt/aws-ofi-nccl/lib/libnccl-net.so"},
        "aws-ofi-nccl",
        "the installer brought 1.20.0",
    ),
    (
        "the base image's NCCL",
        {"nccl_loaded": "2.27.3"},
        "NCCL",
        "the loader finds 2.27.3, torch was built with 2.29.7",
    ),
    ("torch for CPUs", {"nccl_torch": "", "nccl_loaded": ""}, "NCCL", "this torch has none"),
    (
        "another libfabric first",
        {"shadows": {"libfabric.so.1": ["/usr/lib/x86_64-linux-gnu/libfabric.so.1"]}},
        "LD_LIBRARY_PATH",
        "comes before /opt/amazon/efa/lib",
    ),
    (
        "NCCL by force",
        {"environment": {"LD_PRELOAD": "/usr/lib/libnccl.so.2.27.3"}},
        "LD_PRELOAD",
        "libnccl",
    ),
    *(
        (f"{name}={value}", {"environment": {name: value}}, f"{name}={value}", "")
        for name, value in (
            ("NCCL_PROTO", "simple"),
            ("NCCL_PROTO", "Simple"),
            ("NCCL_NET", "Socket"),
            ("NCCL_NET", "IB"),
            ("NCCL_NET_PLUGIN", "none"),
            ("NCCL_NET_GDR_LEVEL", "LOC"),
            ("NCCL_P2P_DISABLE", "1"),
            ("FI_PROVIDER", "tcp"),
            ("FI_PROVIDER", "sockets"),
            ("FI_EFA_USE_DEVICE_RDMA", "0"),
        )
    ),
]

WARNED: list[tuple[dict[str, Any], str]] = [
    ({"environment": {"FI_PROVIDER": "efa"}}, "FI_PROVIDER=efa"),
    ({"environment": {"FI_EFA_USE_DEVICE_RDMA": "1"}}, "FI_EFA_USE_DEVICE_RDMA=1"),
    ({"environment": {"RDMAV_FORK_SAFE": "1"}}, "RDMAV_FORK_SAFE=1"),
    ({"environment": {"FI_EFA_FORK_SAFE": "1"}}, "FI_EFA_FORK_SAFE=1"),
    ({"environment": {"NCCL_ALGO": "Ring"}}, "NCCL_ALGO=Ring"),
    ({"plugin_version": ""}, "aws-ofi-nccl"),
    ({"devices": GOOD.devices[1:]}, "GDRCopy"),
    ({"ldconfig": LDCONFIG.replace("libgdrapi", "libother")}, "GDRCopy"),
    (
        {"ldconfig": LDCONFIG + "\tlibnccl.so.2 (libc6,x86-64) => /usr/lib/libnccl.so.2\n"},
        "NCCL",
    ),
]
