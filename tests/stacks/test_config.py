"""A wrong config is refused with every problem at once."""

import copy
import tomllib
from pathlib import Path
from typing import Any

import pytest

from everstep.contracts.env import ControlEnv
from stacks.config import CONFIG_FOLDER, check, environments, load


@pytest.fixture
def raw() -> dict[str, Any]:
    """prod, with every section that there is."""
    raw = copy.deepcopy(tomllib.loads((CONFIG_FOLDER / "prod.toml").read_text()))
    raw["planned"] = {
        "instance_type": "ml.p5.48xlarge", "nodes": 64, "purchase": "spot", "data_mode": "fsx",
    }  # fmt: skip
    raw["budget"] = {"monthly_usd": 1000}
    return raw


def _set(raw: dict[str, Any], path: str, value: Any) -> None:
    *folders, last = path.split(".")
    for name in folders:
        raw = raw[int(name)] if isinstance(raw, list) else raw[name]
    raw[last] = value


WRONG: list[tuple[str, Any, str, str]] = [
    # path, value, where the problem is said to be, a word of it
    ("account", "12345", "account", "pattern"),
    ("account", 123456789012, "account", "string"),
    ("region", "us-east1", "region", "pattern"),
    ("removal", "delete", "removal", "retain"),
    ("log_retention_days", 100, "log_retention_days", "90 is the nearest"),
    ("alarm_email", "oncall", "alarm_email", "pattern"),
    ("regoin", "us-east-1", "regoin", "did you mean 'region'"),
    ("network.zone", ["us-east-1a"], "network.zone", "did you mean 'zones'"),
    ("network.zones", ["us-west-2a"], "network.zones.0", "not a zone of us-east-1"),
    ("network.zones", ["us-east-1a", "us-east-1a"], "network.zones", "twice"),
    ("network.zones", [], "network.zones", "at least 1"),
    ("network.cidr", "10.42.0.0/12", "network.cidr", "IPv4"),
    ("network.cidr", "8.8.0.0/16", "network.cidr", "private"),
    ("network.training_mask", 17, "network.training_mask", "addresses"),
    ("network.nat_gateways", 4, "network.nat_gateways", "more NAT gateways"),
    ("network.interface_endpoints", ["s3"], "network.interface_endpoints.0", "free"),
    ("network.interface_endpoints", ["ECR API"], "network.interface_endpoints.0", "no service"),
    ("file_system.capacity_gib", 3000, "file_system.capacity_gib", "2400 or 4800"),
    ("file_system.capacity_gib", 600, "file_system.capacity_gib", "1200"),
    ("region", "eu-west-9", "region", "did you mean 'eu-west-"),
    ("region", "us-gov-north-1", "region", "no region that has SageMaker"),
    ("network.interface_endpoints", ["ecr.apis"], "network.interface_endpoints.0", "'ecr.api'"),
    (
        "network.no_internet", True,
        "network.interface_endpoints", "sagemaker.api cannot be reached",
    ),
    ("teams.0.remote_debug", True, "teams.0.remote_debug", "neither NAT nor an endpoint"),
    ("network.vpc_id", "vpc-1", "network.vpc_id", "pattern"),
    ("network.subnet_ids", {"us-east-1a": "subnet-0123456789abcdef0"},
     "network.subnet_ids", "subnets of no VPC"),
    ("file_system.throughput_mbps_per_tib", 300,
     "file_system.throughput_mbps_per_tib", "125, 250, 500, 1000"),
    ("file_system.zone", "us-east-1f", "file_system.zone", "one of us-east-1a, us-east-1b"),
    ("file_system.deployment", "SCRATCH_1", "file_system.deployment", "SCRATCH_2"),
    ("file_system.throughput_mbps", 4000, "file_system.throughput_mbps", "means nothing"),
    ("file_system.capacity_gib", None, "file_system.capacity_gib", "required on SSD"),
    ("planned.instance_type", "ml.p5.49xlarge", "planned.instance_type", "ml.p5.48xlarge"),
    (
        "planned.nodes", 600, "network.training_mask",
        "(32 EFA interfaces + 1) × 600 = 19800 addresses, and a /18 has 16384 − 5",
    ),
    (
        "planned", {"instance_type": "ml.g5.48xlarge", "purchase": "training_plan"},
        "planned.instance_type", "no training plan holds",
    ),
    (
        "planned",
        {
            "instance_type": "ml.p5.48xlarge", "purchase": "training_plan",
            "warm_pool_seconds": 60,
        },
        "planned.warm_pool_seconds", "no pool to keep",
    ),
    ("planned.warm_pool_seconds", 600, "planned.warm_pool_seconds", "no warm pool for a spot"),
    ("planned.zone", "us-east-1f", "planned.zone", "one of us-east-1a"),
    ("planned.zone", "us-east-1b", "planned.zone", "the file system lies in us-east-1a"),
    ("planned.instance_type", "ml.m5.12xlarge", "planned.efa", "has no EFA"),
    ("planned.purchase", "reserved", "planned.purchase", "training_plan"),
    ("alarm_email", None, "alarm_email", "needed by the budget"),
    ("budget.monthly_usd", 0, "budget.monthly_usd", "greater than"),
    ("budget.alert_percent", [0], "budget.alert_percent.0", "greater than"),
    ("tags", {"project": "everstep"}, "tags.environment", "needed by the budget"),
    (
        "file_system.throughput_mbps_per_tib", 200,
        "file_system.throughput_mbps_per_tib", "125, 250, 500, 1000",
    ),
    ("file_system.efa", True, "file_system.efa", "capacity_gib = 19200"),
    ("teams", [], "teams", "at least 1"),
    ("teams.1.name", "research", "teams.1.name", "twice"),
    ("teams.0.name", "Research Team", "teams.0.name", "pattern"),
    (
        "teams.0.adopt_job_roles", ["notebook-jobs"],
        "teams.0.adopt_job_roles.0", "pattern",
    ),
    (
        "teams.0.adopt_job_roles", ["arn:aws:iam::111122223333:role/x"],
        "teams.0.adopt_job_roles.0", "not a role of account 444455556666",
    ),
    (
        "teams.0.adopt_job_roles", ["arn:aws:iam::444455556666:role/x"] * 2,
        "teams.0.adopt_job_roles.1", "already named by team research",
    ),
    ("teams.0.adopt_job_roles", ["arn:aws:iam::444455556666:role/*"],
     "teams.0.adopt_job_roles.0", "pattern"),
    ("watchdog.heartbeat_seconds", 240, "watchdog.heartbeat_seconds", "300 or more"),
    ("watchdog.period_seconds", 0, "watchdog.period_seconds", "greater than"),
    ("lambdas.powertools_layer", "latest", "lambdas.powertools_layer", "pattern"),
    (
        "lambdas.powertools_layer", "arn:{partition}:lambda:{zone}:1:layer:Mine:3",
        "lambdas.powertools_layer", "{zone} is not known",
    ),
    ("rules", [{"id": "x", "pattern": "a (b", "class": "quota"}], "rules.0.pattern", "regular"),
    ("rules", [{"id": "x", "pattern": "abc", "class": "qouta"}], "rules.0.class", "quota"),
    ("rules", [{"id": "x", "pattern": "abc", "clas": "quota", "class": "quota"}], "rules.0.clas",
     "unknown field"),
    ("rules", [{"id": "x", "pattern": "abc", "class": "quota"}] * 2, "rules", "used twice: x"),
    (
        "rules", [{"id": f"x{i}", "pattern": "a" * 300, "class": "quota"} for i in range(9)],
        "rules", "more than 2048",
    ),
    ("prices_usd", {"ml.p5.48xlarge": -1}, "prices_usd.ml.p5.48xlarge", "greater than"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "where", "word"), WRONG)
def test_wrong_value_is_named(
    raw: dict[str, Any], path: str, value: Any, where: str, word: str
) -> None:
    _set(raw, path, value)
    config, problems = check(raw)
    assert config is None
    assert [str(p.path) for p in problems] == [where]
    assert word in str(problems[0])
    assert problems[0].hint


def test_all_problems_come_at_once(raw: dict[str, Any]) -> None:
    del raw["account"]
    raw["colour"] = "blue"
    _set(raw, "network.nat_gateways", -1)
    _set(raw, "file_system.capacity_gib", 3000)
    _set(raw, "watchdog.heartbeat_seconds", 10)
    _, problems = check(raw)
    assert {p.path for p in problems} == {
        "account", "colour", "network.nat_gateways", "file_system.capacity_gib",
        "watchdog.heartbeat_seconds",
    }  # fmt: skip


TIERED = {"storage": "INTELLIGENT_TIERING", "throughput_mbps": 4000}
SCRATCH = {"deployment": "SCRATCH_2", "capacity_gib": 1200}
NO_STEP = "1000, 2000 or a multiple of 4000"
FILE_SYSTEMS: list[tuple[dict[str, Any], str, str]] = [
    # the section, where the problem is said to be, a word of it
    *((TIERED | {"throughput_mbps": given}, "file_system.throughput_mbps", NO_STEP)
      for given in (0, -4000, 3000, 5000, 2_004_000, None)),
    (TIERED | {"read_cache_gib": 31}, "file_system.read_cache_gib", "32 to 131072"),
    (TIERED | {"read_cache_gib": 131_073}, "file_system.read_cache_gib", "32 to 131072"),
    (TIERED | {"throughput_mbps": 1000, "read_cache_gib": 7},
     "file_system.read_cache_gib", "8 to 32768"),
    (TIERED | {"export": True}, "file_system.export", "takes no link to a bucket"),
    (TIERED | {"deployment": "SCRATCH_2"}, "file_system.deployment", "no intelligent tiering"),
    (TIERED | {"capacity_gib": 4800}, "file_system.capacity_gib", "means nothing"),
    (TIERED | {"throughput_mbps": 2000, "efa": True}, "file_system.efa", "multiple of 4000 MB/s"),
    (SCRATCH | {"checkpoints": True}, "file_system.checkpoints", "not replicated"),
    (SCRATCH | {"removal": "retain"}, "file_system.deployment", "removal is retain"),
    (SCRATCH | {"efa": True}, "file_system.efa", "SCRATCH_2 has no EFA"),
    (SCRATCH | {"throughput_mbps_per_tib": 250},
     "file_system.throughput_mbps_per_tib", "means nothing for SCRATCH_2"),
    (SCRATCH | {"capacity_gib": 3600}, "file_system.capacity_gib", "2400 or 4800"),
    *(({"capacity_gib": step + 2400, "throughput_mbps_per_tib": each, "efa": True},
       "file_system.efa", f"capacity_gib = {2 * step}")
      for each, step in ((125, 38_400), (250, 19_200), (500, 9_600), (1000, 4_800))),
]  # fmt: skip


@pytest.mark.parametrize(("section", "where", "word"), FILE_SYSTEMS)
def test_a_wrong_file_system_is_named(
    raw: dict[str, Any], section: dict[str, Any], where: str, word: str
) -> None:
    given = dict(section)
    raw["removal"] = given.pop("removal", "destroy")
    raw["file_system"] = given
    config, problems = check(raw)
    assert config is None
    assert [str(p.path) for p in problems] == [where]
    assert word in str(problems[0])
    assert problems[0].hint


@pytest.mark.parametrize(
    "section",
    [
        *(TIERED | {"throughput_mbps": given} for given in (1000, 2000, 4000, 2_000_000)),
        *(TIERED | {"read_cache_gib": given} for given in (32, 131_072)),
        *(TIERED | {"throughput_mbps": given, "efa": True} for given in (4000, 8000)),
        *({"capacity_gib": 2 * step, "throughput_mbps_per_tib": each, "efa": True}
          for each, step in ((125, 38_400), (250, 19_200), (500, 9_600), (1000, 4_800))),
        SCRATCH,
    ],
)  # fmt: skip
def test_a_right_file_system_is_taken(raw: dict[str, Any], section: dict[str, Any]) -> None:
    problems = check(raw | {"removal": "destroy", "file_system": section})[1]
    assert problems == []


def test_a_file_system_holds_eight_links(raw: dict[str, Any]) -> None:
    """One a team for data, one for checkpoints, one for exports."""
    raw["file_system"] |= {"checkpoints": True, "export": True}
    raw["teams"] = [{"name": name} for name in ("a", "b")]
    assert check(raw)[1] == []
    raw["teams"] = [{"name": name} for name in ("a", "b", "c")]
    (problem,) = check(raw)[1]
    assert (problem.path, problem.value) == ("file_system", 3)
    assert "8 associations, 3 a team" in problem.message


@pytest.mark.parametrize(("mask", "fits"), [(20, True), (21, False), (26, False)])
def test_sixty_four_p5_want_2112_addresses_of_one_subnet(
    raw: dict[str, Any], mask: int, fits: bool
) -> None:
    raw["network"]["training_mask"] = mask
    problems = check(raw)[1]
    assert (problems == []) == fits
    if not fits:
        (problem,) = problems
        assert (problem.path, problem.value) == ("network.training_mask", mask)
        assert "(32 EFA interfaces + 1) × 64 = 2112 addresses" in problem.message
        assert problem.hint == "training_mask = 20 or less, and a cidr that holds it"


@pytest.mark.parametrize("env", environments())
def test_ours_are_right(env: str) -> None:
    config, problems = load(env)
    assert problems == []
    assert config is not None
    assert config.watchdog.heartbeat_seconds >= 5 * config.watchdog.period_seconds


def test_missing_and_broken_files_are_said(tmp_path: Path) -> None:
    (tmp_path / "dev.toml").write_text("account = ")
    assert "no such environment" in str(load("prod", tmp_path)[1][0])
    assert "no such environment" in str(load("../dev", tmp_path)[1][0])
    assert "is not TOML" in str(load("dev", tmp_path)[1][0])


def test_partition_and_schedule() -> None:
    raw = tomllib.loads((CONFIG_FOLDER / "dev.toml").read_text())
    raw["region"] = "us-gov-west-1"
    raw["network"]["zones"] = ["us-gov-west-1a"]
    raw["watchdog"] = {"period_seconds": 90, "heartbeat_seconds": 450}
    config, problems = check(raw)
    assert problems == []
    assert config is not None
    assert config.powertools_layer.startswith("arn:aws-us-gov:lambda:us-gov-west-1:")
    assert config.watchdog.schedule_minutes == 2


def test_rules_of_ones_own_reach_the_functions_within_their_four_kilobytes(
    raw: dict[str, Any],
) -> None:
    rule = {"pattern": "tape is full", "class": "storage_transient", "hint": "empty the tape"}
    raw["rules"] = [{"id": f"tape-{i}", **rule} for i in range(15)]
    config, problems = check(raw)
    assert problems == []
    assert config is not None
    control = ControlEnv(table="t" * 60, topic_arn="a" * 120, rules=config.rules)
    text = control.model_dump_json(by_alias=True, exclude_defaults=True)
    assert ControlEnv.parse({"EVERSTEP_CONTROL": text}) == control
    assert len(text) < 3072
