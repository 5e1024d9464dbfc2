"""SageMaker training instance types that Everstep knows, as data.

Figures: AWS's EC2 accelerated-computing instance specifications (GPUs, GPU memory,
host memory, EFA interfaces), read 2026-11. ``nvme`` types bring local disks, ignore
``VolumeSizeInGB`` and refuse ``VolumeKmsKeyId``.
"""

from difflib import get_close_matches
from typing import NamedTuple


class InstanceType(NamedTuple):
    """One row; memory in GiB on the host and GB on the GPU."""

    gpus: int
    efa_interfaces: int
    host_gib: int
    gpu_gb: int
    nvme: bool = True

    @property
    def processes(self) -> int:
        """Ranks started on a node: one a GPU, one on a CPU-only type."""
        return max(1, self.gpus)


INSTANCE_TYPES: dict[str, InstanceType] = {
    # CPU types: data preparation, and the emulator's tiny runs.
    "ml.m5.large": InstanceType(0, 0, 8, 0, nvme=False),
    "ml.m5.xlarge": InstanceType(0, 0, 16, 0, nvme=False),
    "ml.m5.2xlarge": InstanceType(0, 0, 32, 0, nvme=False),
    "ml.m5.4xlarge": InstanceType(0, 0, 64, 0, nvme=False),
    "ml.m5.12xlarge": InstanceType(0, 0, 192, 0, nvme=False),
    "ml.c5.2xlarge": InstanceType(0, 0, 16, 0, nvme=False),
    "ml.g5.2xlarge": InstanceType(1, 0, 32, 24),
    "ml.g5.12xlarge": InstanceType(4, 1, 192, 24),
    "ml.g5.48xlarge": InstanceType(8, 1, 768, 24),
    "ml.g6.12xlarge": InstanceType(4, 1, 192, 24),
    "ml.g6.48xlarge": InstanceType(8, 1, 768, 24),
    "ml.g6e.12xlarge": InstanceType(4, 1, 384, 48),
    "ml.g6e.24xlarge": InstanceType(4, 2, 768, 48),
    "ml.g6e.48xlarge": InstanceType(8, 4, 1536, 48),
    "ml.p4d.24xlarge": InstanceType(8, 4, 1152, 40),
    "ml.p4de.24xlarge": InstanceType(8, 4, 1152, 80),
    "ml.p5.4xlarge": InstanceType(1, 1, 256, 80),
    "ml.p5.48xlarge": InstanceType(8, 32, 2048, 80),
    "ml.p5e.48xlarge": InstanceType(8, 32, 2048, 141),
    "ml.p5en.48xlarge": InstanceType(8, 16, 2048, 141),
    "ml.p6-b200.48xlarge": InstanceType(8, 8, 2048, 180),
    "ml.p6-b300.48xlarge": InstanceType(8, 16, 4096, 269),
}

EFA_GIGABITS: dict[str, int] = {
    "ml.g5.12xlarge": 40,
    "ml.g5.48xlarge": 100,
    "ml.g6.12xlarge": 40,
    "ml.g6.48xlarge": 100,
    "ml.g6e.12xlarge": 100,
    "ml.g6e.24xlarge": 200,
    "ml.g6e.48xlarge": 400,
    "ml.p4d.24xlarge": 400,
    "ml.p4de.24xlarge": 400,
    "ml.p5.4xlarge": 100,
    "ml.p5.48xlarge": 3200,
    "ml.p5e.48xlarge": 3200,
    "ml.p5en.48xlarge": 3200,
    "ml.p6-b200.48xlarge": 3200,
    "ml.p6-b300.48xlarge": 6400,
}
"""Network of a host in Gbit/s, all of its EFA interfaces together. Same source."""


def efa_gigabits(name: str) -> int | None:
    """None for a type that is not known, or has no EFA."""
    return EFA_GIGABITS.get(name)


_FP8_FAMILIES = {"g6", "g6e", "p5", "p5e", "p5en", "p6-b200", "p6-b300"}
"""GPUs of compute capability 8.9 and up: L4, L40S, H100, H200, B200, B300."""


def has_fp8(name: str) -> bool:
    """Whether the type's GPUs multiply in FP8. False for a type that is not known."""
    return name in INSTANCE_TYPES and name.split(".")[1] in _FP8_FAMILIES


def similar_types(name: str) -> list[str]:
    """Known types closest to a name that is not one (for hints)."""
    return get_close_matches(name, INSTANCE_TYPES, n=3, cutoff=0.5) or sorted(INSTANCE_TYPES)[:3]
