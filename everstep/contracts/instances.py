"""SageMaker training instance types that Everstep knows: the table, and what is asked of it.

Figures, unless a row's comment says otherwise: EC2's DescribeInstanceTypes, as two public copies
of it have them: Karpenter's reference v1.14 (2026-07), and moto 5.2.5, with which a test compares
every row. Names: SageMaker's TrainingInstanceType in botocore 1.44 (a test). Read 2026-11.
"""

from difflib import get_close_matches
from typing import NamedTuple


class InstanceType(NamedTuple):
    """One row. ``nvme`` types bring local disks, ignore ``VolumeSizeInGB`` and refuse
    ``VolumeKmsKeyId``."""

    vcpus: int
    host_gib: int
    accelerator: str = ""
    """As its maker calls it; empty on a CPU type."""
    accelerators: int = 0
    gpu_gb: int = 0
    """Of one accelerator, as it is sold: never more than EC2 reports."""
    efa_interfaces: int = 0
    network_gbps: float = 0
    """Of a host, all of its network cards together. The baseline where AWS says "up to"."""
    nvme_gb: int = 0
    """Of all local disks together."""
    neuron_cores: int = 0
    """That a program on Trainium sees: each is one rank."""

    @property
    def gpus(self) -> int:
        """CUDA devices: none on Trainium."""
        return 0 if self.neuron_cores else self.accelerators

    @property
    def nvme(self) -> bool:
        return self.nvme_gb > 0

    @property
    def processes(self) -> int:
        """Ranks started on a node: one a GPU or NeuronCore, one on a CPU-only type."""
        return max(1, self.neuron_cores or self.gpus)


T = InstanceType
INSTANCE_TYPES: dict[str, InstanceType] = {
    # CPU types: data preparation, data groups beside GPUs, and the emulator's tiny runs.
    "ml.m5.large": T(2, 8, network_gbps=0.75),
    "ml.m5.xlarge": T(4, 16, network_gbps=1.25),
    "ml.m5.2xlarge": T(8, 32, network_gbps=2.5),
    "ml.m5.4xlarge": T(16, 64, network_gbps=5),
    "ml.m5.12xlarge": T(48, 192, network_gbps=12),
    "ml.m5.24xlarge": T(96, 384, network_gbps=25),
    "ml.c5.2xlarge": T(8, 16, network_gbps=2.5),
    "ml.c5.9xlarge": T(36, 72, network_gbps=12),
    "ml.c5.18xlarge": T(72, 144, network_gbps=25),
    # vCPU, host GiB, accelerator, number, GB each, EFA interfaces, Gbit/s, NVMe GB
    "ml.g5.xlarge": T(4, 16, "A10G", 1, 24, 0, 2.5, 250),
    "ml.g5.2xlarge": T(8, 32, "A10G", 1, 24, 0, 5, 450),
    "ml.g5.4xlarge": T(16, 64, "A10G", 1, 24, 0, 10, 600),
    "ml.g5.8xlarge": T(32, 128, "A10G", 1, 24, 1, 25, 900),
    "ml.g5.12xlarge": T(48, 192, "A10G", 4, 24, 1, 40, 3800),
    "ml.g5.16xlarge": T(64, 256, "A10G", 1, 24, 1, 25, 1900),
    "ml.g5.24xlarge": T(96, 384, "A10G", 4, 24, 1, 50, 3800),
    "ml.g5.48xlarge": T(192, 768, "A10G", 8, 24, 1, 100, 7600),
    "ml.g6.xlarge": T(4, 16, "L4", 1, 24, 0, 2.5, 250),
    "ml.g6.2xlarge": T(8, 32, "L4", 1, 24, 0, 5, 450),
    "ml.g6.4xlarge": T(16, 64, "L4", 1, 24, 0, 10, 600),
    "ml.g6.8xlarge": T(32, 128, "L4", 1, 24, 1, 25, 900),
    "ml.g6.12xlarge": T(48, 192, "L4", 4, 24, 1, 40, 3760),
    "ml.g6.16xlarge": T(64, 256, "L4", 1, 24, 1, 25, 1880),
    "ml.g6.24xlarge": T(96, 384, "L4", 4, 24, 1, 50, 3760),
    "ml.g6.48xlarge": T(192, 768, "L4", 8, 24, 1, 100, 7520),
    "ml.g6e.xlarge": T(4, 32, "L40S", 1, 48, 0, 2.5, 250),
    "ml.g6e.2xlarge": T(8, 64, "L40S", 1, 48, 0, 5, 450),
    "ml.g6e.4xlarge": T(16, 128, "L40S", 1, 48, 0, 20, 600),
    "ml.g6e.8xlarge": T(32, 256, "L40S", 1, 48, 1, 25, 900),
    "ml.g6e.12xlarge": T(48, 384, "L40S", 4, 48, 1, 100, 3800),
    "ml.g6e.16xlarge": T(64, 512, "L40S", 1, 48, 1, 35, 1900),
    "ml.g6e.24xlarge": T(96, 768, "L40S", 4, 48, 2, 200, 3800),
    "ml.g6e.48xlarge": T(192, 1536, "L40S", 8, 48, 4, 400, 7600),
    "ml.p4d.24xlarge": T(96, 1152, "A100", 8, 40, 4, 400, 8000),
    "ml.p4de.24xlarge": T(96, 1152, "A100", 8, 80, 4, 400, 8000),
    "ml.p5.4xlarge": T(16, 256, "H100", 1, 80, 1, 100, 3800),
    "ml.p5.48xlarge": T(192, 2048, "H100", 8, 80, 32, 3200, 30400),
    "ml.p5e.48xlarge": T(192, 2048, "H200", 8, 141, 32, 3200, 30400),
    "ml.p5en.48xlarge": T(192, 2048, "H200", 8, 141, 16, 3200, 30400),
    "ml.p6-b200.48xlarge": T(192, 2048, "B200", 8, 180, 8, 3200, 30400),
    "ml.p6-b300.48xlarge": T(192, 4096, "B300", 8, 269, 16, 6400, 30400),
    # NeuronCores: two a Trainium chip. A Trainium2 chip has eight, two of which make one that a
    # program sees (its default); that figure and its 96 GB are of AWS's product pages: unverified.
    "ml.trn1.2xlarge": T(8, 32, "Trainium", 1, 32, 0, 3.125, 474, neuron_cores=2),
    "ml.trn1.32xlarge": T(128, 512, "Trainium", 16, 32, 8, 800, 7600, neuron_cores=32),
    "ml.trn1n.32xlarge": T(128, 512, "Trainium", 16, 32, 16, 1600, 7600, neuron_cores=32),
    "ml.trn2.48xlarge": T(192, 2048, "Trainium2", 16, 96, 16, 3200, 7600, neuron_cores=64),
}

RESERVABLE = frozenset(
    {
        "ml.p4d.24xlarge",
        "ml.p4de.24xlarge",
        "ml.p5.4xlarge",
        "ml.p5.48xlarge",
        "ml.p5e.48xlarge",
        "ml.p5en.48xlarge",
        "ml.p6-b200.48xlarge",
        "ml.p6-b300.48xlarge",
        "ml.trn1.32xlarge",
        "ml.trn2.48xlarge",
    }
)
"""Of the table: those that a training plan can hold. botocore 1.44, ReservedCapacityInstanceType (a
test); P6e-GB200 UltraServers are left out: their hosts are ARM and placed in another way."""


def efa_gigabits(name: str) -> float | None:
    """Network of a host in Gbit/s. None for a type that is not known, or has no EFA."""
    kind = INSTANCE_TYPES.get(name)
    return kind.network_gbps if kind is not None and kind.efa_interfaces else None


_FP8_FAMILIES = {"g6", "g6e", "p5", "p5e", "p5en", "p6-b200", "p6-b300"}
"""GPUs of compute capability 8.9 and up: L4, L40S, H100, H200, B200, B300."""


def has_fp8(name: str) -> bool:
    """Whether the type's GPUs multiply in FP8. False for a type that is not known."""
    return name in INSTANCE_TYPES and name.split(".")[1] in _FP8_FAMILIES


def similar_types(name: str) -> list[str]:
    """Known types closest to a name that is not one (for hints)."""
    return get_close_matches(name, INSTANCE_TYPES, n=3, cutoff=0.5) or sorted(INSTANCE_TYPES)[:3]
