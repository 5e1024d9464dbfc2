"""Fit hosts, and EFA in use: judged by lines in the forms that public issues show."""

from pathlib import Path

import pytest
import torch

from trainer import health
from trainer.efa import OLD_SETTINGS, libfabric_version, read_log, refusal, settings
from trainer.health import NoRoom, bus_rate, check_room, gpu_trouble

# NVIDIA/nccl 1597 (P5en), with the channel lines of aws-ofi-nccl's and its users' logs
P5EN = """
8h200-2:6831:6840 [0] NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.14.0
8h200-2:6831:6840 [0] NCCL INFO NET/OFI Selected Provider is efa (found 16 nics)
8h200-2:6831:6840 [0] NCCL INFO NET/OFI Skipping NCCL_PROTO checks on P5en + RDMA
8h200-2:6831:6840 [0] NCCL INFO Using network Libfabric
8h200-2:6831:6850 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Libfabric/0/GDRDMA
8h200-2:6831:6850 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Libfabric/0/GDRDMA
"""
# a P6 with today's names: efa-direct, a flush suffix
NEWEST = """
host:1:257 [0] NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.20.0
host:1:257 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa-direct (found 16 nics)
host:1:257 [0] NCCL INFO Using network Libfabric
host:1:257 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Libfabric/0/GDRDMA/Shared
NCCL version 2.28.3+cuda13.0
"""
# NVIDIA/nccl 527 (P4d)
P4D = """
ip-10-216-178-255:416481:416522 [3] NCCL INFO NET/OFI Using aws-ofi-nccl 1.4.0aws
ip-10-216-179-87:417138:417176 [7] NCCL INFO NET/OFI Selected Provider is efa
ip-10-216-179-87:417138:417176 [7] NCCL INFO Using network AWS Libfabric
efa-worker-0:27:72 [1] NCCL INFO Channel 00 : 1[101d0] -> 8[101c0] [send] via NET/AWS Libfabric/0/GDRDMA
"""  # noqa: E501
# aws-ofi-nccl 161: EFA, and a device that cannot read GPU memory
G4 = """
algo-1:462:462 [0] NCCL INFO NET/OFI Using aws-ofi-nccl 1.3.0aws
libfabric:462:1673041636:efa:core:rxr_info_to_rxr():506<warn> FI_HMEM capability requires RDMA, which this device does not support.
algo-1:462:462 [0] NCCL INFO NET/OFI Selected Provider is efa
algo-1:462:462 [0] NCCL INFO Using network AWS Libfabric
algo-1:462:500 [0] NCCL INFO Channel 00/0 : 0[1e0] -> 1[1e0] [send] via NET/AWS Libfabric/0
"""  # noqa: E501
# NVIDIA/nccl 959: no plugin; aws-ofi-nccl 889: a plugin, and no provider; NVIDIA/nccl 229
NO_PLUGIN = """
[1] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so).
llama-3-8b-node-0-0:152:386 [0] NCCL INFO NET/IB : No device found.
llama-3-8b-node-0-0:152:386 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.4.51<0>
llama-3-8b-node-0-0:152:386 [0] NCCL INFO Using network Socket
llama-3-8b-node-0-0:152:386 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0
"""
NO_PROVIDER = """
ip-10-36-29-253:79:79 [0] NCCL INFO cudaDriverVersion 12040
NCCL version 2.21.5+cuda12.8
libfabric:85:1747438790::core:core:fi_getinfo_():1392<warn> fi_getinfo: provider efa output empty list
ip-10-36-29-253:79:79 [0] NCCL INFO Using network Socket
"""  # noqa: E501
OTHER_PROVIDER = P4D.replace("Provider is efa", "Provider is sockets")
NOT_OPTIMAL = """
get_ofi_provider:312 NCCL WARN NET/OFI Could not find any optimal provider
ip-192-168-22-101:1:1 [0] NCCL INFO Using network Socket
"""


@pytest.mark.parametrize(
    ("log", "kind", "words"),
    [
        (P5EN, "ml.p5en.48xlarge", None),
        (NEWEST, "ml.p6-b300.48xlarge", None),
        (P4D, "ml.p4d.24xlarge", None),
        (G4, "ml.g5.48xlarge", None),
        (G4, "ml.p4d.24xlarge", "EFA without GPUDirect on ml.p4d.24xlarge: libfabric:462"),
        (NO_PLUGIN, "ml.p5.48xlarge", "uses Socket on ml.p5.48xlarge, which has EFA: NET/Plugin :"),
        (NO_PROVIDER, "ml.p5.48xlarge", "provider efa output empty list"),
        (NOT_OPTIMAL, "ml.p4d.24xlarge", "Could not find any optimal provider"),
        (OTHER_PROVIDER, "ml.p4d.24xlarge", "provider is sockets"),
        (P5EN.replace("1.14.0", "1.18.0"), "ml.p5en.48xlarge", "hangs on large broadcasts"),
        ("", "ml.p5.48xlarge", "does not say which network"),
        # one communicator of several on sockets is enough to be slow
        (P5EN + NO_PLUGIN, "ml.p5.48xlarge", "uses Socket"),
        (NO_PLUGIN, "ml.g5.2xlarge", None),
        (NO_PLUGIN, "ml.m5.large", None),
        (NO_PLUGIN, "somewhere.else", None),
    ],
)
def test_public_logs_are_judged(log: str, kind: str, words: str | None) -> None:
    found = refusal(read_log(log.splitlines()), kind)
    assert (found is None) == (words is None), found
    assert words is None or words in str(found)


def test_what_a_log_says() -> None:
    fabric = read_log(NEWEST.splitlines())
    assert fabric.networks == {"Libfabric"}
    assert fabric.plugin == (1, 20, 0)
    assert fabric.nccl == (2, 28, 3)
    assert fabric.routes == {("Libfabric", True)}
    both = fabric.plus(read_log(NO_PLUGIN.splitlines()))
    assert both.networks == {"Libfabric", "Socket"}


def test_settings_by_version() -> None:
    assert libfabric_version("fi_info: 2.4.0amzn1.0\nlibfabric: 2.4.0amzn1.0\n") == (2, 4)
    assert libfabric_version("") is None
    assert settings((2, 4)) == settings((1, 18)) == settings(None) == {}
    assert settings((1, 16)) == OLD_SETTINGS


def test_gpus_by_nvidia_smi() -> None:
    assert gpu_trouble("0, 0, No, No\n1, 0, No, No\n") == []
    assert gpu_trouble("0, [N/A], [N/A], [N/A]\n") == []
    assert gpu_trouble("") == []
    assert gpu_trouble("0, 0, No, No\n3, 2, Yes, No\n4, 0, No, Yes\n") == [
        "GPU 3 has 2 uncorrected ECC errors",
        "GPU 3 waits for a reset to remap memory rows",
        "GPU 4 could not remap memory rows",
    ]


def test_a_rate_is_that_of_nccl_tests() -> None:
    """nccl-tests' own arithmetic: 1 GiB in 6.09 ms over 16 ranks is 330.4 GB/s of bus."""
    assert bus_rate(2**30, 6.09e-3, 16) == pytest.approx(330.4, rel=1e-3)


def test_room_for_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = [torch.zeros(1000), torch.zeros(250, dtype=torch.bfloat16)]
    room = {"free": 4500}
    usage = type("Usage", (), room)
    monkeypatch.setattr(health.shutil, "disk_usage", lambda folder: usage)
    check_room(tmp_path / "not" / "there", tensors, 1)
    usage.free = 4499
    with pytest.raises(NoRoom, match=r"4.5e-06 GB free.*hint: raise compute.volume_gib"):
        check_room(tmp_path, tensors, 1)
    check_room(tmp_path, tensors, 2)
