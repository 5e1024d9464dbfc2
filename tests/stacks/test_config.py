"""A wrong config is refused with every problem at once."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from everstep.contracts.env import ControlEnv
from stacks.config import CONFIG_FOLDER, check, environments, load
from tests.stacks.wrong_configs import WRONG, put, whole


@pytest.fixture
def raw() -> dict[str, Any]:
    return whole()


@pytest.mark.parametrize(("path", "value", "where", "word"), WRONG)
def test_wrong_value_is_named(
    raw: dict[str, Any], path: str, value: Any, where: str, word: str
) -> None:
    put(raw, path, value)
    config, problems = check(raw)
    assert config is None
    assert [str(p.path) for p in problems] == [where]
    assert word in str(problems[0])
    assert problems[0].hint


def test_all_problems_come_at_once(raw: dict[str, Any]) -> None:
    del raw["account"]
    raw["colour"] = "blue"
    put(raw, "network.nat_gateways", -1)
    put(raw, "file_system.capacity_gib", 3000)
    put(raw, "watchdog.heartbeat_seconds", 10)
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
