"""Wrong things beside those of the tests' tables: command lines, starts of the trainer, images that
cannot be had, and an account in which nothing is as it should be."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from botocore.exceptions import ClientError

from docsite.examples import SMALL
from everstep.cli import doctor_checks as doctor
from everstep.contracts.check import check_spec
from everstep.contracts.failures import Failure
from everstep.contracts.names import OUTPUT_DEAD_LETTERS, STACKS
from everstep.contracts.payloads import State, Team
from everstep.contracts.run_spec import RunSpec
from everstep.policy import images
from trainer.config import TrainerConfig, TrainerData, flat_from_toml
from trainer.fp8 import check_hardware
from trainer.host import MlRoot, env_of, number_of
from trainer.import_weights import check_config, files_of
from trainer.shards import parse_index
from trainer.sources import data_root

TEAM = Team(
    name="research",
    job_role_arn="arn:aws:iam::111122223333:role/job",
    data_uri="s3://data/research",
    checkpoint_uri="s3://checkpoints/research",
    output_uri="s3://output/research",
    image_repository="1.dkr/everstep",
)


def spec_of(**sections: Any) -> RunSpec:
    spec, problems = check_spec({**SMALL, **sections})
    assert spec is not None, problems
    return spec


FILES = {
    "tiny.json": json.dumps(SMALL).encode(),
    "utf16.json": json.dumps(SMALL).encode("utf-16"),
    "deep.json": b"[" * 100_000,
    "twice.json": b'{"model": "tiny", "model": "small"}',
    "utf16.log": "Killed".encode("utf-16"),
    "empty.log": b"\n",
    "torn.jsonl": b'{"id": "1",\n',
    "list.jsonl": b"[]\n",
    "short.jsonl": b'{"id": "1", "text": "Killed"}\n',
    "where.jsonl": b'{"id": "1", "text": "Killed", "where": "a letter"}\n',
    "torn.toml": b"[[rules]\n",
    "wrong.toml": b'[[rules]]\nid = "x"\npattern = "tape is full"\nclass = "tape"\n',
}
"""What the command lines read, in an empty folder."""
COMMANDS = [
    "run utf16.json",
    "run deep.json",
    "run twice.json",
    "capacity",
    "capacity tiny.json",
    "capacity --instance-type ml.p5.48xlarge",
    "capacity --instance-type ml.p5.48xlarg --nodes 3 --days 1",
    "capacity --instance-type ml.g5.48xlarge --nodes 999 --days 1",
    "capacity --instance-type ml.p5.48xlarge --nodes 2 --days 9999",
    "capacity --instance-type ml.p5.48xlarge --nodes 2 --days 7",
    "capacity --instance-type ml.p5.48xlarge --nodes 2 --days 7 --region moon-east-1",
    "capacity --instance-type ml.p5.48xlarge --nodes 2 --days 7 "
    "--after 2026-12-02 --before 2026-12-01",
    "classify utf16.log",
    "classify empty.log",
    "classify --jsonl torn.jsonl",
    "classify --jsonl list.jsonl",
    "classify --jsonl short.jsonl",
    "classify --jsonl where.jsonl",
    "classify empty.log --rules torn.toml",
    "classify empty.log --rules wrong.toml",
    "plan tiny.json --mfu 0.4 --tokens-per-s 1000",
    "report a-run --json --out a.html",
    "report a-run --out no/such/folder.html",
    "simulate --instance-type ml.p5.48xlarg",
    "simulate --set share_slow=2",
    "simulate --gpus 100000 --days 1000 --rates 1000",
]


def _flat(**flat: str) -> Callable[[], object]:
    return lambda: TrainerConfig.from_flat({k.replace("__", "."): v for k, v in flat.items()})


def _data(**data: Any) -> Callable[[], object]:
    return lambda: data_root(TrainerData(**data), env_of({}), NOWHERE)


def _index(raw: bytes) -> Callable[[], object]:
    return lambda: parse_index(raw, "datasets/mine")


def _fp8() -> None:
    train = spec_of(compute=[{"instance_type": "ml.p5.48xlarge"}], train={"dtype": "fp8"}).train
    check_hardware(train, torch.device("cpu"))


def _shape() -> None:
    check_config(Path("/nowhere"), TrainerConfig.from_flat(TINY).shape)


NOWHERE = MlRoot(root=Path("/nowhere"))
TINY = {"model.preset": "tiny", "stop.steps": "10"}
EMPTY = {"schema": 1, "dtype": "uint16", "vocab_size": 9, "total_tokens": 0, "shards": []}
TRAINER: list[Callable[[], object]] = [
    _flat(stop__steps="10"),
    _flat(model__preset="tiny", stop__steps="10", checkpoint__failures_per_node_day="0.1",
          checkpoint__every_steps="5"),
    lambda: flat_from_toml(Path("/nowhere/run.toml"), []),
    lambda: flat_from_toml(None, ["lr"]),
    lambda: number_of({"EVERSTEP_COLLECTIVE_TIMEOUT": "soon"}, "EVERSTEP_COLLECTIVE_TIMEOUT", 600),
    lambda: env_of({"EVERSTEP_LAUNCH": "first"}),
    _data(mode="s3", path="datasets/mine"),
    _data(mode="file", path="s3://bucket/datasets"),
    _index(b"{"),
    _index(json.dumps({**EMPTY, "vocab_size": 0, "fingerprint": ""}).encode()),
    _index(json.dumps({**EMPTY, "fingerprint": "0" * 64}).encode()),
    lambda: files_of(Path("/nowhere")),
    _fp8,
    _shape,
]  # fmt: skip


def refusals() -> Iterator[object]:
    """What PlanAttempt may find of an image."""
    image, stopped = "trainer:stable", images.Build("FAILED", "https://console.aws/build/1")
    wanted = images.lookup(image, TEAM)
    assert wanted is not None
    yield images.judge(image, wanted, images.Found("sha256:0"), True)
    yield images.judge(image, wanted, images.Found("sha256:0", "COMPLETE", 3), True)
    yield images.absent(image, wanted, stopped, [])
    yield images.absent(image, wanted, None, ["2026-11-01", "2026-10-01"])
    yield images.absent(image, wanted, None, [])
    yield images.unknown_repository("traner:stable", images.lookup("traner:stable", TEAM) or wanted)
    yield images.waited_too_long(f"image {image} is being scanned")


def failures() -> list[Failure]:
    return [found for found in refusals() if isinstance(found, Failure)]


NOW = datetime(2026, 12, 1, tzinfo=UTC)


class _Account:
    """Answers each call of ``doctor``, and each answer is bad."""

    env, region, emulated = "dev", "us-west-2", False
    outputs = {OUTPUT_DEAD_LETTERS + "JobEvents": "arn:aws:sqs:us-west-2:1:job-events"}  # noqa: RUF012

    def client(self, service: str) -> Any:
        return self

    def clock(self) -> float:
        return NOW.timestamp() + 3600

    def machines(self) -> dict[str, str]:
        return {"research": "arn"}

    def get_caller_identity(self) -> dict[str, Any]:
        headers = {"date": format_datetime(NOW, usegmt=True)}
        return {
            "Account": "444455556666",
            "Arn": "me",
            "ResponseMetadata": {"HTTPHeaders": headers},
        }

    def describe_stacks(self, StackName: str) -> dict[str, Any]:
        part = StackName.removeprefix("everstep-dev-")
        if part == STACKS[0]:
            raise _no("ValidationError")
        status = "UPDATE_IN_PROGRESS" if part == STACKS[1] else "ROLLBACK_COMPLETE"
        return {"Stacks": [{"StackStatus": status}]}

    def get_alias(self, **_: str) -> None:
        raise _no("ResourceNotFoundException")

    def describe_state_machine(self, **_: str) -> dict[str, str]:
        start = {"Arguments": {"Payload": {"team": TEAM.model_dump()}}}
        states = json.dumps({"States": {State.VALIDATE_SPEC: start}})
        return {"name": "everstep-dev-research", "status": "DELETING", "definition": states}

    def get_queue_url(self, **_: str) -> dict[str, str]:
        return {"QueueUrl": ""}

    def get_queue_attributes(self, **_: Any) -> dict[str, Any]:
        return {"Attributes": {"ApproximateNumberOfMessages": "7"}}

    def describe_images(self, **_: Any) -> None:
        raise _no("ImageNotFoundException")

    def get_paginator(self, name: str) -> Any:
        kind = "AWS::EC2::VPCEndpoint"
        resources = [{"PhysicalResourceId": "vpce-1", "ResourceType": kind}]
        page = {"StackResourceSummaries": resources, "InstanceTypeOfferings": []}
        return SimpleNamespace(paginate=lambda **_: [page])

    def describe_vpc_endpoints(self, **_: Any) -> dict[str, Any]:
        name = "com.amazonaws.us-west-2.logs"
        return {"VpcEndpoints": [{"ServiceName": name, "State": "failed"}]}


def _no(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "Call")


def findings() -> Iterator[doctor.Finding]:
    """Of an account in which nothing is as it should be, and where no config is at hand."""
    hosts = {"instance_type": "ml.g5.2xlarge", "nodes": 2, "zone": "us-east-1a"}
    bad = {"account": "111122223333", "region": "us-east-1"}
    account: Any = _Account()
    for look in (
        doctor.Look(account, bad, spec_of(compute=[hosts])),
        doctor.Look(account, {}, spec_of(trainer={"image": "2.dkr/other:1"})),
    ):
        quotas = [name for name in doctor.SPEC_CHECKS if name != "quota"]
        for check in (*doctor.CHECKS.values(), *(doctor.SPEC_CHECKS[name] for name in quotas)):
            yield from (found for found in check(look) if found.state != "ok")
