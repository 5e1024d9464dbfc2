"""The table of instance types against EC2's own figures and SageMaker's own names."""

import gzip
import json
from importlib.resources import files
from typing import Any

import botocore.session
import pytest

from everstep.contracts.instances import (
    INSTANCE_TYPES,
    RESERVABLE,
    InstanceType,
    efa_gigabits,
    has_fp8,
)

MODEL = botocore.session.get_session().get_service_model("sagemaker")
EC2: dict[str, Any] = json.loads(
    gzip.decompress((files("moto.ec2.resources") / "instance_types.json.gz").read_bytes())
)
"""moto's copy of DescribeInstanceTypes."""
ROWS = sorted(INSTANCE_TYPES.items())
ISSUE = ("p4d", "p4de", "p5", "p5e", "p5en", "p6-b200", "p6-b300", "g5", "g6", "g6e", "trn1",
         "trn1n", "trn2")  # fmt: skip


def _devices(row: dict[str, Any]) -> list[dict[str, Any]]:
    gpus = row.get("GpuInfo", {}).get("Gpus")
    neuron = row.get("NeuronInfo", {}).get("NeuronDevices")
    return list(gpus or neuron or [])


@pytest.mark.parametrize(("name", "kind"), ROWS, ids=[name for name, _ in ROWS])
def test_a_row_says_what_ec2_says(name: str, kind: InstanceType) -> None:
    ec2 = EC2[name.removeprefix("ml.")]
    network = ec2["NetworkInfo"]
    assert kind.vcpus == ec2["VCpuInfo"]["DefaultVCpus"]
    assert kind.host_gib * 1024 == ec2["MemoryInfo"]["SizeInMiB"]
    assert kind.efa_interfaces == (network.get("EfaInfo") or {}).get("MaximumEfaInterfaces", 0)
    assert kind.nvme_gb == ec2.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0)
    devices = _devices(ec2)
    assert [(d["Name"], d["Count"]) for d in devices] == (
        [(kind.accelerator, kind.accelerators)] if kind.accelerators else []
    )
    said = network["NetworkPerformance"]
    words = said.removeprefix("Up to ").removesuffix(" Gigabit").split("x ")
    gigabits = float(words[-1]) * (int(words[0]) if len(words) > 1 else 1)
    assert (
        kind.network_gbps <= gigabits
        if said.startswith("Up to")
        else (kind.network_gbps == gigabits)
    )


@pytest.mark.parametrize(("name", "kind"), ROWS, ids=[name for name, _ in ROWS])
def test_memory_of_a_gpu_is_never_more_than_ec2_reports(name: str, kind: InstanceType) -> None:
    for device in _devices(EC2[name.removeprefix("ml.")]):
        if kind.accelerator == "Trainium2":
            continue  # EC2's copy says 512 GiB a chip, AWS's page 96 GB
        reported = device["MemoryInfo"]["SizeInMiB"] * 2**20
        assert reported * 0.9 < kind.gpu_gb * 1e9 <= reported * 1.0001


def test_every_name_is_one_that_sagemaker_trains_on() -> None:
    assert set(INSTANCE_TYPES) <= set(MODEL.shape_for("TrainingInstanceType").enum)


def test_what_a_plan_can_hold_is_what_botocore_says() -> None:
    known = set(MODEL.shape_for("ReservedCapacityInstanceType").enum)
    assert known & set(INSTANCE_TYPES) == RESERVABLE
    assert known - RESERVABLE == {"ml.p6e-gb200.36xlarge"}


def test_every_size_of_a_gpu_family_is_listed() -> None:
    known = [n for n in MODEL.shape_for("TrainingInstanceType").enum if n.split(".")[1] in ISSUE]
    assert set(known) <= set(INSTANCE_TYPES)
    assert {n.split(".")[1] for n in known} == set(ISSUE)


def test_trainium_has_ranks_but_no_gpus() -> None:
    trn = INSTANCE_TYPES["ml.trn1.32xlarge"]
    assert (trn.gpus, trn.accelerators, trn.processes) == (0, 16, 32)
    assert not has_fp8("ml.trn2.48xlarge")


def test_what_is_asked_of_a_type_that_is_not_known_is_no() -> None:
    assert efa_gigabits("ml.nope") is None
    assert efa_gigabits("ml.g5.xlarge") is None
    assert efa_gigabits("ml.p5.48xlarge") == 3200
    assert not has_fp8("ml.nope")
