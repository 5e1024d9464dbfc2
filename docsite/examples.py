"""Errors as the program itself makes them: each example is produced, none is typed."""

import contextlib
import copy
import io
import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from docsite.sites import Kind
from everstep.cli.errors import CliError
from everstep.cli.main import app
from everstep.contracts.check import check_spec
from everstep.contracts.problems import describe
from stacks import config
from trainer.config import TrainerConfig
from trainer.errors import TrainerError
from trainer.host import Cluster, MlRoot
from trainer.shards import parse_index
from trainer.store import open_store

ROOT = Path(__file__).parents[1]
SMALL = {
    "model": "tiny",
    "data": "datasets/stdlib",
    "compute": [{"instance_type": "ml.m5.large"}],
    "stop": {"steps": 10},
}

COMMANDS = [
    "run examples/none.json",
    "run pyproject.toml",
    "run examples/tiny.json --name under_score",
    "plan",
    "plan examples/tiny.json --stack",
    "plan --stack --env nowhere",
    "simulate --gpus 1000003",
    "simulate --rates meteor",
    "simulate --spares cold",
    "simulate --set stall=soon",
    "simulate --set weather=1",
    "classify none.log",
    "classify job.log --jsonl jobs.jsonl",
    "local up --minute 0",
    "local env --state none",
    "list --state asleep",
    "logs a-run --first-cause --follow",
]
SPECS: list[tuple[str, dict[str, Any]]] = [
    ("a typo, and nothing of what is required", {"modle": "tiny", "stop": {"steps": 0}}),
    ("no such preset", {"model": "llama2-7"}),
    ("a type with one letter wrong", {"compute": [{"instance_type": "ml.p5.48xlarg"}]}),
    ("a warm pool on spot", {"compute": [
        {"instance_type": "ml.p5.48xlarge", "purchase": "spot", "warm_pool_seconds": 600}]}),
    ("a plan without its ARN", {"compute": [
        {"instance_type": "ml.p5.48xlarge", "purchase": "training_plan"}]}),
    ("a mesh that does not fit the ranks", {"parallelism": {"shard": 3, "tensor": 2}}),
    ("register without export", {"finish": {"register": True}}),
    ("a secret in the environment", {"trainer": {"environment": {"API_KEY": "0123abcd" * 5}}}),
    ("fp8 on a CPU", {"train": {"dtype": "fp8"}}),
    ("adapters without weights", {"model": {"preset": "tiny", "lora": {"rank": 8, "alpha": 16}}}),
]  # fmt: skip
CONFIGS: list[tuple[str, str, Any]] = [
    ("a typo", "regoin", "us-east-1"),
    ("no region of SageMaker", "region", "us-gov-north-1"),
    ("a zone of elsewhere", "network.zones", ["us-west-2a"]),
    ("a zone twice", "network.zones", ["us-east-1a", "us-east-1a"]),
    ("not a private network", "network.cidr", "8.8.0.0/16"),
    ("more NAT gateways than zones", "network.nat_gateways", 4),
    ("no internet, and no endpoints", "network.no_internet", True),
    ("no size of Lustre", "file_system.capacity_gib", 3000),
    ("a retention that CloudWatch has not", "log_retention_days", 100),
    ("a heartbeat that one slow pass misses", "watchdog.heartbeat_seconds", 60),
]


def _command(line: str) -> str:
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            typer.main.get_command(app).main(line.split(), "everstep", standalone_mode=False)
    except CliError as error:
        return error.shown
    raise AssertionError(f"everstep {line}: no error")


def _spec(change: dict[str, Any]) -> str:
    spec = {**SMALL, **change} if "modle" not in change else change
    return describe(check_spec(spec)[1])


def _config(path: str, value: Any) -> str:
    raw = copy.deepcopy(tomllib.loads((ROOT / "config" / "prod.toml").read_text(encoding="utf-8")))
    *folders, last = path.split(".")
    section = raw
    for name in folders:
        section = section[name]
    section[last] = value
    return describe(config.check(raw)[1], "configuration 'prod'")


def _index(**change: Any) -> Callable[[], object]:
    index = {"schema": 1, "dtype": "uint16", "vocab_size": 1024, "total_tokens": 10, "shards": [],
             "fingerprint": "0" * 64, **change}  # fmt: skip
    return lambda: parse_index(json.dumps(index).encode(), "datasets/mine")


def _flat(**flat: str) -> Callable[[], object]:
    return lambda: TrainerConfig.from_flat({k.replace("__", "."): v for k, v in flat.items()})


NOWHERE = MlRoot(root=Path("/nowhere"))
TRAINER: list[tuple[str, Callable[[], object]]] = [
    ("a hyperparameter that is none", _flat(model__preset="tiny", stop__steps="ten")),
    ("no such preset", _flat(model__preset="llama2-7", stop__steps="10")),
    ("an index of a newer trainer", _index(schema=9)),
    ("an index that does not add up", _index()),
    ("a bucket without a name", lambda: open_store("s3:///checkpoints")),
    ("hosts that are no JSON", lambda: Cluster.parse({"SM_HOSTS": "algo-1"}, NOWHERE)),
    ("a host that is not one of them", lambda: Cluster.parse(
        {"SM_HOSTS": '["algo-1"]', "SM_CURRENT_HOST": "algo-2"}, NOWHERE)),
]  # fmt: skip


def _trainer(make: Callable[[], object]) -> str:
    try:
        make()
    except TrainerError as error:
        return f"{error.failure_class}: {error}"
    raise AssertionError("no error")


def examples(kind: Kind) -> list[tuple[str, str]]:
    """What was done, and what the program says to it."""
    if kind == "cli":
        return [(f"everstep {line}", _command(line)) for line in COMMANDS]
    if kind == "spec":
        return [(what, _spec(change)) for what, change in SPECS]
    if kind == "config":
        return [(what, _config(path, value)) for what, path, value in CONFIGS]
    if kind == "trainer":
        return [(what, _trainer(make)) for what, make in TRAINER]
    return []  # one line each: the table has them
