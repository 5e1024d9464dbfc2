"""Values that someone could mean, or smuggle in: refused before synthesis, each in words."""

import copy
import math
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from stacks.config import CONFIG_FOLDER, check

ROLE = "arn:aws:iam::444455556666:role/"
LAYER = "lambdas.powertools_layer"
KEY = "arn:aws:kms:us-east-1:444455556666:key/x"
BUCKETS = {
    "data_bucket": "a-data", "checkpoint_bucket": "b-data", "output_bucket": "c-data",
    "data_key": KEY,
}  # fmt: skip
IMPORTED = {
    "zones": ["us-east-1a", "us-east-1b"],
    "cidr": "10.42.0.0/16",
    "training_mask": 18,
    "vpc_id": "vpc-0123456789abcdef0",
    "subnet_ids": {
        "us-east-1a": "subnet-0123456789abcdef0",
        "us-east-1b": "subnet-0123456789abcdef1",
    },
}
SAME_SUBNET = dict.fromkeys(IMPORTED["zones"], "subnet-0123456789abcdef0")


@pytest.fixture
def raw() -> dict[str, Any]:
    return tomllib.loads((CONFIG_FOLDER / "prod.toml").read_text())


NASTY: list[tuple[str, Any, str, str]] = [
    # path, value, where the problem is said to be, a word of it
    # Digits and letters that are none of AWS's.
    ("account", "４４４４５５５５６６６６", "account", "pattern"),
    ("account", "444455556666\n", "account", "pattern"),
    ("alarm_email", "ünï@exämple.com", "alarm_email", "pattern"),
    ("teams.0.name", "équipe", "teams.0.name", "pattern"),
    # Types that TOML has, and that would have been bent into others.
    ("log_retention_days", True, "log_retention_days", "valid integer"),
    ("log_retention_days", "365", "log_retention_days", "valid integer"),
    ("network.no_internet", "false", "network.no_internet", "valid boolean"),
    ("network.nat_gateways", True, "network.nat_gateways", "valid integer"),
    ("file_system.efa", "off", "file_system.efa", "valid boolean"),
    ("planned.nodes", True, "planned.nodes", "valid integer"),
    ("watchdog.period_seconds", True, "watchdog.period_seconds", "valid integer"),
    ("run_file_systems", 1, "run_file_systems", "valid boolean"),
    # Numbers that are none, or that nothing holds.
    ("budget.monthly_usd", math.inf, "budget.monthly_usd", "finite"),
    ("budget.monthly_usd", math.nan, "budget.monthly_usd", "finite"),
    ("budget.monthly_usd", 1e-300, "budget.monthly_usd", "greater than"),
    ("budget.monthly_usd", 1e300, "budget.monthly_usd", "less than"),
    ("budget.alert_percent", [50, 50], "budget.alert_percent", "twice"),
    ("prices_usd", {"ml.p5.48xlarge": math.inf}, "prices_usd.ml.p5.48xlarge", "finite"),
    ("file_system.capacity_gib", 2400 * 10**9, "file_system.capacity_gib", "less than"),
    ("watchdog.heartbeat_seconds", 10**12, "watchdog.heartbeat_seconds", "less than"),
    # Networks.
    ("network.cidr", "127.0.0.0/16", "network.cidr", "private"),
    ("network.cidr", "169.254.0.0/16", "network.cidr", "private"),
    ("network.cidr", "0.0.0.0/16", "network.cidr", "private"),
    ("network.cidr", "240.0.0.0/16", "network.cidr", "private"),
    ("network.cidr", "198.19.0.0/16", "network.cidr", "private"),
    ("network.cidr", "172.17.0.0/16", "network.cidr", "overlaps 172.17.0.0/16"),
    ("network.zones", ["us-east-1z"], "network.zones.0", "not a zone"),
    ("network.interface_endpoints", ["kms", "kms"], "network.interface_endpoints.1", "twice"),
    ("network", IMPORTED | {"subnet_ids": SAME_SUBNET}, "network.subnet_ids", "a subnet twice"),
    ("network", IMPORTED | {"no_internet": True}, "network.no_internet", "not ours to change"),
    # Names beside each other: a team's folder, role and constructs.
    ("teams.0.name", "checkpoints", "teams.0.name", "every team's checkpoints"),
    ("teams.0.name", "exports", "teams.0.name", "every team's exports"),
    ("teams", [{"name": "a-1"}, {"name": "a1"}], "teams.1.name", "too like 'a-1'"),
    (
        "teams.0.adopt_job_roles", [ROLE + "everstep-prod-applied-job"],
        "teams.0.adopt_job_roles.0", "would reach that team's data",
    ),
    (
        "teams.0.adopt_job_roles", ["arn:aws-cn:iam::444455556666:role/x"],
        "teams.0.adopt_job_roles.0", "in partition aws",
    ),
    (
        "teams.0.adopt_job_roles", [ROLE + "x" * 65],
        "teams.0.adopt_job_roles.0", "65 characters, IAM takes 64",
    ),
    (
        "teams.0.adopt_job_roles", [f"{ROLE}{i:02}{'x' * 60}" for i in range(20)],
        "teams.*.adopt_job_roles", "a Lambda function's environment",
    ),
    ("access.principals", [ROLE + "*"], "access.principals.0", "pattern"),
    ("access.principals", [ROLE + "a b"], "access.principals.0", "pattern"),
    ("access.principals", ["arn:aws-cn:iam::444455556666:role/x"],
     "access.principals.0", "no principal of partition aws"),
    ("access.principals", [ROLE + "x", ROLE + "x"], "access.principals.1", "twice"),
    ("access.principals", [f"{ROLE}{i}{'p' * 200}" for i in range(10)],
     "access.principals", "IAM takes 2048"),
    # Tags.
    ("tags.aws:x", "y", "tags.aws:x", "reserved"),
    ("tags.Everstep:Team", "applied", "tags.Everstep:Team", "reserved"),
    ("tags.Team", "applied", "tags.Team", "a researcher's team"),
    ("tags.", "y", "tags.", "AWS takes 1 to 128"),
    ("tags.environment", "v" * 257, "tags.environment", "257 characters"),
    ("tags.emoji", "🚀", "tags.emoji", "does not take"),
    ("tags.Project", "x", "tags.Project", "no case in keys"),
    # Layers.
    (LAYER, "arn:aws:lambda:}x:1:layer:X:1", LAYER, "without its partner"),
    (LAYER, "arn:{partition:lambda:us-east-1:1:layer:X:1", LAYER, "without its partner"),
    (LAYER, "arn:aws:lambda:eu-west-1:123456789012:layer:X:1", LAYER, "no layer of us-east-1"),
    (LAYER, "arn:aws-cn:lambda:us-east-1:123456789012:layer:X:1", LAYER, "or partition"),
    (LAYER, "arn:aws:lambda:us-east-1:123456789012:layer:P-python39-arm64:1", LAYER, "python39"),
    # What a former stack left.
    ("existing", BUCKETS | {"data_bucket": "a..b"}, "existing.data_bucket", "two dots"),
    ("existing", BUCKETS | {"data_bucket": "192.168.0.1"}, "existing.data_bucket", "address"),
    ("existing", BUCKETS | {"data_bucket": "xn--abc"}, "existing.data_bucket", "prefix"),
    ("existing", BUCKETS | {"data_bucket": "a-s3alias"}, "existing.data_bucket", "suffix"),
    ("existing", BUCKETS | {"output_bucket": "a-data"},
     "existing.output_bucket", "data_bucket too"),
    ("existing", BUCKETS | {"data_key": KEY.replace("aws", "aws-cn")},
     "existing.data_key", "is not in us-east-1"),
    # Words that something else reads.
    ("prices_usd", {"ml.p5.48xlrage": 1.0}, "prices_usd.ml.p5.48xlrage", "'ml.p5.48xlarge'"),
    ("runbook_url", "javascript:alert(1)", "runbook_url", "pattern"),
    ("runbook_url", "", "runbook_url", "pattern"),
    ("teams", [{"name": f"team-{i}"} for i in range(15)], "teams", "at most 14"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "where", "word"), NASTY)
def test_is_refused_with_path_value_and_hint(
    raw: dict[str, Any], path: str, value: Any, where: str, word: str
) -> None:
    at: Any = raw
    *folders, last = path.split(".", 2) if path.startswith("teams.") else path.split(".", 1)
    for name in folders:
        at = at[int(name)] if isinstance(at, list) else at.setdefault(name, {})
    at[last] = value
    if path.startswith(("network", "existing")):
        del raw["planned"]
    config, problems = check(raw)
    assert config is None
    assert [str(p.path) for p in problems] == [where]
    assert word in str(problems[0])
    assert problems[0].hint


JUNK = (
    None, True, 0, -1, 10**30, 1.5, math.inf, math.nan, "", " ", "x", "*", "é", "🚀", "{", "}",
    "{}", "a" * 5000, "../..", "\0", [], {}, [None], [[]], {"": None}, {"x": {}},
)  # fmt: skip


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _leaves(value[key], (*path, key))


def test_no_junk_anywhere_ends_in_a_traceback(raw: dict[str, Any]) -> None:
    for path in list(_leaves(raw)):
        for junk in JUNK:
            changed = copy.deepcopy(raw)
            at: Any = changed
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = junk
            config, problems = check(changed)
            assert (config is None) == bool(problems), (path, junk)
            assert all(str(p) and p.hint for p in problems), (path, junk)
